// Other libraries' memory: which door a value comes in by, and what is common to the doors. numpy's names for a tensor.
#include <stddef.h>
#include <string.h>

#include "array.hpp"
#include "exchange.hpp"
#include "methods.hpp"

namespace droveway {

namespace {

// numpy's uint16 bits as bfloat16 and the reverse: the same memory under another type of the same size.
PyObject* py_bitcast(PyObject*, PyObject* args) {
  PyObject *o, *dtype;
  Dtype d;
  if (!PyArg_ParseTuple(args, "OO:bitcast", &o, &dtype) || !dtype_from(dtype, &d)) return nullptr;
  if (!is_tensor(o) || as_tensor(o)->storage == nullptr) return PyErr_SetString(PyExc_TypeError, "bitcast: needs a Tensor with a value"), nullptr;
  Tensor* t = as_tensor(o);
  if (dtype_size(d) != dtype_size(t->dtype) || dtype_alignment(d) > dtype_alignment(t->dtype))
    return raise_error("DtypeError", "bitcast: %s and %s have elements of different sizes", dtype_name(t->dtype), dtype_name(d));
  if (d == Dtype::boolean && t->dtype != d && !usable_in_place(View{t->data, d, t->ndim, t->shape(), t->strides()}))
    return raise_error("DtypeError", "bitcast: the bytes of a bool are 0 and 1, those of this %s tensor are not (hint: x != 0)", dtype_name(t->dtype));
  Tensor* out = tensor_view(t, t->data, t->ndim, t->shape(), t->strides());
  if (out != nullptr) out->dtype = d;
  return as_object(out);
}

// docs/formats/tensor-abi.md.
PyObject* abi_header(PyObject* self, PyObject*) {
  struct Header {
    char magic[4];
    uint16_t version;
    uint8_t dtype, ndim, device, memory_space, flags, reserved;
    uint32_t changes;
    uint64_t base;
    int64_t offset;
    uint64_t nbytes;
    int64_t dims[2 * kDimsMax];
  };
  static_assert(offsetof(Header, base) == 16 && offsetof(Header, dims) == 40);
  const Tensor* t = as_tensor(self);
  if (t->storage == nullptr) return PyErr_SetString(PyExc_TypeError, "abi_header: a traced tensor has no memory"), nullptr;
  const Storage* s = t->storage;
  Header h{{'D', 'W', 'T', '1'}, 1, uint8_t(t->dtype), t->ndim, uint8_t(t->device), uint8_t(s->space), 0, 0, s->version,
           reinterpret_cast<uint64_t>(s->data), (t->data - s->data) / int64_t(dtype_size(t->dtype)), s->nbytes, {}};
  h.flags = uint8_t((s->size_class != 255 ? 1 : 0) | ((t->flags & kIsView) != 0 ? 2 : 0) | (s->read_only ? 4 : 0));
  memcpy(h.dims, t->dims, 2 * size_t(t->ndim) * sizeof(int64_t));
  return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(&h), Py_ssize_t(40 + 16 * size_t(t->ndim)));
}

PyObject* numpy_method(PyObject* self, PyObject*) { return call_python("tensor.numpy_bridge", "to_numpy", &self, 1); }

PyObject* array_method(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"dtype", "copy", nullptr};
  PyObject *dtype = Py_None, *copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:__array__", const_cast<char**>(names), &dtype, &copy)) return nullptr;
  PyObject* arguments[] = {self, dtype, copy};
  return call_python("tensor.numpy_bridge", "to_numpy", arguments, 3);
}

PyObject* array_namespace(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"api_version", nullptr};
  PyObject* version = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$O:__array_namespace__", const_cast<char**>(names), &version)) return nullptr;
  if (version != Py_None && (!PyUnicode_Check(version) || (PyUnicode_CompareWithASCIIString(version, "2024.12") != 0 &&
                                                            PyUnicode_CompareWithASCIIString(version, "2023.12") != 0 &&
                                                            PyUnicode_CompareWithASCIIString(version, "2022.12") != 0 &&
                                                            PyUnicode_CompareWithASCIIString(version, "2021.12") != 0)))
    return PyErr_Format(PyExc_ValueError, "__array_namespace__: versions up to 2024.12 are known, got %R", version);
  return PyImport_ImportModule("tensor");
}

PyObject* reduce(PyObject* self, PyObject*) { return call_python("tensor.numpy_bridge", "reduced", &self, 1); }

PyMethodDef functions[] = {
    {"bitcast", py_bitcast, METH_VARARGS, "bitcast($module, x, dtype, /)\n--\n\nThe same memory under another type of elements of the same size."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool usable_in_place(const View& v) {
  if (reinterpret_cast<uintptr_t>(v.data) % dtype_alignment(v.dtype) != 0) return false;
  if (v.dtype != Dtype::boolean) return true;
  const char *low, *high;
  view_extent(v, &low, &high);
  int64_t index[kDimsMax] = {};
  const int64_t n = view_size(v);
  if (n >= high - low) {  // also the bytes between them then: repeated elements are looked at once
    for (const char* p = low; p < high; ++p)
      if (static_cast<unsigned char>(*p) > 1) return false;
    return true;
  }
  const char* p = v.data;
  for (int64_t i = 0; i < n; ++i) {
    if (static_cast<unsigned char>(*p) > 1) return false;
    for (int k = v.ndim - 1; k >= 0; --k) {
      p += v.strides[k];
      if (++index[k] < v.shape[k]) break;
      p -= v.strides[k] * v.shape[k];
      index[k] = 0;
    }
  }
  return true;
}

Tensor* gathered(const char* data, Dtype d, int ndim, const int64_t* shape, const int64_t* byte_strides, const char* label) {
  Tensor* t = tensor_empty(d, ndim, shape, DeviceKind::cpu, label);
  if (t == nullptr) return nullptr;
  const size_t size = dtype_size(d);
  const int64_t n = view_size(view_of(t));
  int64_t index[kDimsMax] = {};
  char* to = t->data;
  for (int64_t i = 0; i < n; ++i, to += size) {
    const char* from = data;
    for (int k = 0; k < ndim; ++k) from += index[k] * byte_strides[k];
    memcpy(to, from, size);
    if (d == Dtype::boolean) *to = *to != 0;
    for (int k = ndim - 1; k >= 0 && ++index[k] == shape[k]; --k) index[k] = 0;
  }
  return t;
}

Storage* storage_around(const View& v, void (*release)(Storage*), void* context) {
  const char *low, *high;
  view_extent(v, &low, &high);
  return storage_foreign(const_cast<char*>(low), size_t(high - low), nullptr, release, context);
}

bool may_leave(const Tensor* t, const char* what) {
  if ((t->flags & kTraced) != 0 || t->storage == nullptr) {
    PyErr_Format(PyExc_BufferError, "%s: a traced tensor has no values yet", what);
    return false;
  }
  if (requires_grad(t)) {
    PyErr_Format(PyExc_BufferError, "%s: the tensor requires a gradient, which another library would not follow (hint: .detach())", what);
    return false;
  }
  return true;
}

PyObject* from_foreign(PyObject* value, int copy) {
  PyObject* out = nullptr;
  const bool masked = PyObject_HasAttrString(value, "mask");
  if (!masked && PyObject_CheckBuffer(value)) out = from_buffer(value, copy);
  if (out == nullptr && !PyErr_Occurred()) {
    PyObject* arguments[] = {value, copy == 0 ? Py_False : Py_None};
    out = call_python("tensor.numpy_bridge", "from_array_like", arguments, 2);
  }
  if (out == nullptr || copy != 1) return out;
  Tensor* t = as_tensor(out);
  if (t->storage->size_class != 255) return out;  // a copy it is
  PyObject* own = PyObject_CallMethod(out, "clone", nullptr);
  Py_DECREF(out);
  return own;
}

#define DW_KEYWORDS(function) reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function)), METH_VARARGS | METH_KEYWORDS
PyMethodDef exchange_methods[] = {
    {"__array__", DW_KEYWORDS(array_method), "__array__($self, dtype=None, copy=None)\n--\n\nThe elements as a numpy array, of the same memory where that is possible."},
    {"__array_namespace__", DW_KEYWORDS(array_namespace), "__array_namespace__($self, *, api_version=None)\n--\n\nThe module tensor."},
    {"abi_header", abi_header, METH_NOARGS, "abi_header($self, /)\n--\n\nWhere the elements lie, as the bytes of docs/formats/tensor-abi.md."},
    {"numpy", numpy_method, METH_NOARGS, "numpy($self, /)\n--\n\nA numpy array over the same memory."},
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
#undef DW_KEYWORDS

int init_exchange(PyObject* module) { return add_functions(module, functions); }

}  // namespace droveway
