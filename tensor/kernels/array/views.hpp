// Raw views: checked by the caller, without history.
#pragma once
#include "tensor.hpp"

namespace droveway {

PyObject* permute_view(Tensor* t, const int* axes);
PyObject* expand_view(Tensor* t, int ndim, const int64_t* shape);

}  // namespace droveway
