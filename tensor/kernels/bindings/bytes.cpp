// A tensor over bytes that somebody else holds: a mapped file.
#include <nanobind/nanobind.h>

#include "array/array.hpp"
#include "array/tensor.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace droveway {
namespace {

void release_bytes(Storage* s) {
  PyBuffer_Release(static_cast<Py_buffer*>(s->context));
  PyMem_Free(s->context);
}

// C order, of the dtype and shape; the bytes themselves where they are aligned to the elements, else a copy.
nb::object over_bytes(nb::object bytes, nb::object dtype, nb::object shape) {
  Dtype d;
  int ndim;
  int64_t sizes[kDimsMax], strides[kDimsMax];
  if (!dtype_from(dtype.ptr(), &d) || !shape_from(shape.ptr(), sizes, &ndim, "over_bytes")) throw nb::python_error();
  size_t nbytes = dtype_size(d);
  for (int k = ndim - 1; k >= 0; --k) {
    if (sizes[k] != 0 && nbytes > (size_t{1} << 62) / size_t(sizes[k])) throw nb::value_error("over_bytes: the shape overflows");
    nbytes *= size_t(sizes[k]);
  }
  Py_buffer* buffer = static_cast<Py_buffer*>(PyMem_Malloc(sizeof(Py_buffer)));
  if (buffer == nullptr) throw std::bad_alloc();
  if (PyObject_GetBuffer(bytes.ptr(), buffer, PyBUF_SIMPLE) != 0) {
    PyMem_Free(buffer);
    throw nb::python_error();
  }
  const bool aligned = reinterpret_cast<uintptr_t>(buffer->buf) % dtype_alignment(d) == 0;
  Tensor* made = nullptr;
  bool taken = false;
  if (size_t(buffer->len) != nbytes) {
    PyErr_SetString(PyExc_ValueError, "over_bytes: the number of bytes is not that of the shape");
  } else if (aligned && nbytes != 0) {
    int64_t step = 1;
    for (int k = ndim - 1; k >= 0; --k) {
      strides[k] = step;
      step *= sizes[k];
    }
    Storage* s = storage_foreign(static_cast<char*>(buffer->buf), nbytes, nullptr, release_bytes, buffer);
    if (s != nullptr) {
      s->read_only = buffer->readonly;
      taken = true;
      made = tensor_over(s, s->data, d, ndim, sizes, strides);
    }
  } else {
    made = tensor_empty(d, ndim, sizes, DeviceKind::cpu, "copy of a file's tensor");
    if (made != nullptr && nbytes != 0) memcpy(made->data, buffer->buf, nbytes);
  }
  if (!taken) {
    PyBuffer_Release(buffer);
    PyMem_Free(buffer);
  }
  if (made == nullptr) throw nb::python_error();
  return nb::steal(as_object(made));
}

}  // namespace

void bind_bytes(nb::module_& m) {
  m.def("over_bytes", &over_bytes, "bytes"_a, "dtype"_a, "shape"_a, "A Tensor over these bytes, or over an aligned copy.");
}

}  // namespace droveway
