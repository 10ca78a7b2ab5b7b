// A tensor over bytes that somebody else holds, a mapped file; and the bytes of a tensor that its digest is made of.
#include <nanobind/nanobind.h>

#include "array/array.hpp"
#include "array/caster.hpp"
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

template <class Word>
void one_nan(char* data, size_t bytes, Word infinity, Word quiet) {
  Word* words = reinterpret_cast<Word*>(data);
  for (size_t i = 0; i < bytes / sizeof(Word); ++i)
    if ((words[i] & Word(~(Word(1) << (8 * sizeof(Word) - 1)))) > infinity) words[i] = quiet;
}

// The elements in C order into the front of out, every NaN as the canonical one; how many bytes that were.
size_t canonical_bytes(const In& x, const Out& out) {
  const View from = x.view(), to = out.view();
  int64_t strides[kDimsMax], step = 1;
  for (int k = from.ndim - 1; k >= 0; --k) {
    strides[k] = step;
    step *= from.shape[k];
  }
  const size_t bytes = size_t(step) * dtype_size(from.dtype);
  if (to.dtype != Dtype::u8 || !view_contiguous(to) || size_t(view_size(to)) < bytes || reinterpret_cast<uintptr_t>(to.data) % 8 != 0)
    throw nb::value_error("canonical_bytes: out must hold the elements' bytes, aligned to eight");
  copy_elements(View{to.data, from.dtype, from.ndim, from.shape, strides}, from);
  switch (from.dtype) {
    case Dtype::f16: one_nan<uint16_t>(to.data, bytes, 0x7C00, 0x7E00); break;
    case Dtype::bf16: one_nan<uint16_t>(to.data, bytes, 0x7F80, 0x7FC0); break;
    case Dtype::f32:
    case Dtype::c64: one_nan<uint32_t>(to.data, bytes, 0x7F800000u, 0x7FC00000u); break;
    case Dtype::f64:
    case Dtype::c128: one_nan<uint64_t>(to.data, bytes, 0x7FF0000000000000u, 0x7FF8000000000000u); break;
    default: break;
  }
  return bytes;
}

}  // namespace

void bind_bytes(nb::module_& m) {
  m.def("over_bytes", &over_bytes, "bytes"_a, "dtype"_a, "shape"_a, "A Tensor over these bytes, or over an aligned copy.");
  m.def("canonical_bytes", &canonical_bytes, "x"_a, "out"_a,
        "The elements of x in C order into the front of out, uint8, every NaN as the canonical one; how many bytes that were.");
}

}  // namespace droveway
