// PyMemberDef and its types, which Python 3.11 has in a header that needs Python.h first.
#pragma once
#include <Python.h>

#include <structmember.h>
