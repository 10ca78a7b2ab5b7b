// PrimitiveBase: what apply reads of a registry row without asking Python.
#pragma once
#include <Python.h>

#include <stdint.h>

namespace droveway {

enum class RowKind : uint8_t { unknown, view, kernel, twin };

struct Primitive {
  PyObject_HEAD
  PyObject* name;  // str, interned
  int op;          // elementwise code or −1
  uint32_t keeps;  // bits 0 … 15: inputs that the gradient reads; 16 … 31: outputs
  uint32_t alone[2];  // the same where only input 0, or only input 1, of two wants a gradient
  RowKind kind;    // found out at the first call
  bool in_place;   // the kernel overwrites inputs: attribute in_place
};

extern PyTypeObject* primitive_type;
inline Primitive* as_primitive(PyObject* o) { return reinterpret_cast<Primitive*>(o); }
inline const char* primitive_name(PyObject* o) { return PyUnicode_AsUTF8(as_primitive(o)->name); }

}  // namespace droveway
