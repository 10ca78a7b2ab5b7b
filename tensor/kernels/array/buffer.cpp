// The buffer protocol, both ways.
#include <string.h>

#include "array.hpp"
#include "caster.hpp"
#include "exchange.hpp"

namespace droveway {

namespace {

// The element types in its words.
const char* const formats[kDtypes] = {"?", "b", "h", "i", "q", "B", "H", "I", "Q", "e", nullptr, "f", "d", "Zf", "Zd"};

bool format_dtype(const char* format, Py_ssize_t itemsize, Dtype* out) {
  if (format == nullptr) format = "B";
  const char order = *format;
  if (order == '@' || order == '=' || order == '<' || order == '^') ++format;
  if (order == '>' || order == '!') return false;
  const size_t length = strlen(format);
  if (length == 2 && format[0] == 'Z' && (format[1] == 'f' || format[1] == 'd')) {
    *out = format[1] == 'f' ? Dtype::c64 : Dtype::c128;
    return itemsize == Py_ssize_t(dtype_size(*out));
  }
  if (length != 1) return false;
  const int width = itemsize == 1 ? 0 : itemsize == 2 ? 1 : itemsize == 4 ? 2 : itemsize == 8 ? 3 : -1;
  if (width < 0) return false;
  if (strchr("bhilqn", *format) != nullptr)
    *out = Dtype(int(Dtype::i8) + width);
  else if (strchr("BHILQN", *format) != nullptr)
    *out = Dtype(int(Dtype::u8) + width);
  else if (*format == '?')
    *out = Dtype::boolean;
  else if (*format == 'e')
    *out = Dtype::f16;
  else if (*format == 'f')
    *out = Dtype::f32;
  else if (*format == 'd')
    *out = Dtype::f64;
  else
    return false;
  return itemsize == Py_ssize_t(dtype_size(*out));
}

bool aligned(const void* data, Dtype d) { return reinterpret_cast<uintptr_t>(data) % dtype_alignment(d) == 0; }

void release_buffer(Storage* s) {
  PyBuffer_Release(static_cast<Py_buffer*>(s->context));
  PyMem_Free(s->context);
}

}  // namespace

// nullptr without an error: not a buffer of our element types.
PyObject* from_buffer(PyObject* value, int copy) {
  Py_buffer* buffer = static_cast<Py_buffer*>(PyMem_Malloc(sizeof(Py_buffer)));
  if (buffer == nullptr) return PyErr_NoMemory();
  bool read_only = false;
  if (PyObject_GetBuffer(value, buffer, PyBUF_FULL) != 0) {
    PyErr_Clear();
    read_only = true;
    if (PyObject_GetBuffer(value, buffer, PyBUF_FULL_RO) != 0) {
      PyErr_Clear();
      PyMem_Free(buffer);
      return nullptr;
    }
  }
  Dtype d;
  PyObject* out = nullptr;
  bool taken = false;
  if (buffer->ndim >= 0 && buffer->ndim <= kDimsMax && buffer->suboffsets == nullptr && format_dtype(buffer->format, buffer->itemsize, &d)) {
    int64_t shape[kDimsMax], bytes[kDimsMax], strides[kDimsMax];
    bool whole = true, empty = false;
    int64_t step = buffer->itemsize;
    for (int k = buffer->ndim - 1; k >= 0; --k) {
      shape[k] = buffer->shape != nullptr ? buffer->shape[k] : buffer->len / buffer->itemsize;
      bytes[k] = buffer->strides != nullptr ? buffer->strides[k] : step;
      empty = empty || shape[k] == 0;
      if (__builtin_mul_overflow(step, shape[k], &step) && !empty) step = 0;  // shape_fits finds it
      whole = whole && (bytes[k] % buffer->itemsize == 0 || shape[k] <= 1);
      strides[k] = shape[k] <= 1 ? 1 : bytes[k] / buffer->itemsize;
    }
    char* first = static_cast<char*>(buffer->buf);
    if (!shape_fits("asarray", d, buffer->ndim, shape)) {
      // with the error
    } else if (whole && !empty && usable_in_place(View{first, d, buffer->ndim, shape, strides})) {
      Storage* s = storage_around(View{first, d, buffer->ndim, shape, strides}, release_buffer, buffer);
      if (s != nullptr) {
        s->read_only = read_only || buffer->readonly;
        taken = true;
        out = as_object(tensor_over(s, first, d, buffer->ndim, shape, strides));
      }
    } else if (copy == 0 && !empty) {
      PyErr_SetString(PyExc_ValueError, "asarray: a buffer whose elements are not aligned, or whose booleans are not 0 and 1, cannot become a tensor without a copy");
    } else {
      out = as_object(gathered(first, d, buffer->ndim, shape, bytes, "asarray"));
    }
  }
  if (!taken) {
    PyBuffer_Release(buffer);
    PyMem_Free(buffer);
  }
  return out;
}

bool buffer_dims(const Py_buffer& buffer, Dtype* dtype, int* ndim, int64_t* dims) {
  if (buffer.ndim < 0 || buffer.ndim > kDimsMax || buffer.suboffsets != nullptr || !format_dtype(buffer.format, buffer.itemsize, dtype)) return false;
  if (!aligned(buffer.buf, *dtype)) return false;
  *ndim = buffer.ndim;
  for (int k = 0; k < buffer.ndim; ++k) {
    dims[k] = buffer.shape[k];
    if (buffer.strides[k] % buffer.itemsize != 0) return false;
    dims[buffer.ndim + k] = buffer.strides[k] / buffer.itemsize;
  }
  return true;
}

int buffer_get(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  Tensor* t = as_tensor(self);
  if (!may_leave(t, "buffer")) return -1;
  if (formats[int(t->dtype)] == nullptr) {
    PyErr_SetString(PyExc_BufferError, "buffer: the buffer protocol has no bfloat16 (hint: .to(tensor.float32), or tensor.bitcast)");
    return -1;
  }
  if ((flags & PyBUF_WRITABLE) != 0 && t->storage->read_only) {
    PyErr_SetString(PyExc_BufferError, "buffer: the tensor looks at read-only memory");
    return -1;
  }
  const View v = view_of(t);
  const bool in_order = view_contiguous(v);
  const bool wants_strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES;
  bool fortran = false;
  if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS) {
    int64_t shape[kDimsMax], strides[kDimsMax];
    for (int k = 0; k < v.ndim; ++k) {
      shape[k] = v.shape[v.ndim - 1 - k];
      strides[k] = v.strides[v.ndim - 1 - k];
    }
    fortran = view_contiguous(View{v.data, v.dtype, v.ndim, shape, strides});
  }
  const bool needs_order = !wants_strides || (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS;
  const bool any = (flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS;
  const bool needs_fortran = (flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS;
  if ((needs_order && !in_order) || (needs_fortran && !fortran) || (any && !in_order && !fortran)) {
    PyErr_SetString(PyExc_BufferError, "buffer: the tensor does not lie in the order that is asked for (hint: .contiguous())");
    return -1;
  }
  Py_ssize_t* dims = static_cast<Py_ssize_t*>(PyMem_Malloc(2 * size_t(t->ndim + 1) * sizeof(Py_ssize_t)));
  if (dims == nullptr) {
    PyErr_NoMemory();
    return -1;
  }
  const Py_ssize_t size = Py_ssize_t(dtype_size(t->dtype));
  Py_ssize_t step = size;
  for (int k = t->ndim - 1; k >= 0; --k) {
    dims[k] = t->shape()[k];
    dims[t->ndim + k] = in_order ? step : t->strides()[k] * size;
    step *= dims[k] > 0 ? dims[k] : 1;
  }
  view->buf = t->data;
  view->obj = Py_NewRef(self);
  view->len = view_size(v) * size;
  view->readonly = t->storage->read_only;
  view->itemsize = size;
  view->format = (flags & PyBUF_FORMAT) != 0 ? const_cast<char*>(formats[int(t->dtype)]) : nullptr;
  view->ndim = t->ndim;
  view->shape = (flags & PyBUF_ND) != 0 ? dims : nullptr;
  view->strides = wants_strides ? dims + t->ndim : nullptr;
  view->suboffsets = nullptr;
  view->internal = dims;
  if (view->shape == nullptr) view->ndim = 1;
  storage_incref(t->storage);
  return 0;
}

void buffer_release(PyObject* self, Py_buffer* view) {
  PyMem_Free(view->internal);
  storage_decref(as_tensor(self)->storage);
}

}  // namespace droveway
