// What the doors to other libraries' memory share: the buffer protocol (buffer.cpp), DLPack (dlpack.cpp), the rest (exchange.cpp).
#pragma once
#include "tensor.hpp"

namespace droveway {

// Whether a tensor may look at foreign elements where they lie: aligned, and booleans that are 0 or 1.
bool usable_in_place(const View& v);

// Elements at byte strides that may be odd, in a tensor of ours; booleans become 0 or 1.
Tensor* gathered(const char* data, Dtype d, int ndim, const int64_t* shape, const int64_t* byte_strides, const char* label);

// Somebody else's memory from the lowest to the highest element of the view.
Storage* storage_around(const View& v, void (*release)(Storage*), void* context);

bool may_leave(const Tensor* t, const char* what);  // BufferError for what another library would misunderstand

// Over the memory of a buffer, or a copy where it cannot be used where it lies (ValueError if copy is 0). nullptr without
// an error: not a buffer of our element types.
PyObject* from_buffer(PyObject* value, int copy);

}  // namespace droveway
