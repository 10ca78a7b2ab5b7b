#include "spec.hpp"

#include <string.h>

#include "array.hpp"

namespace droveway {

PyTypeObject* spec_type;

namespace {

PyObject* device_objects[2];

PyObject* get_shape(PyObject* self, void*) { return shape_tuple(as_spec(self)->ndim, as_spec(self)->shape); }
PyObject* get_dtype(PyObject* self, void*) { return Py_NewRef(dtype_object(as_spec(self)->dtype)); }
PyObject* get_device(PyObject* self, void*) { return Py_XNewRef(device_object(as_spec(self)->device)); }
PyObject* get_ndim(PyObject* self, void*) { return PyLong_FromLong(as_spec(self)->ndim); }

int64_t size_of(PyObject* self) {
  int64_t n = 1;
  for (int d = 0; d < as_spec(self)->ndim; ++d) n *= as_spec(self)->shape[d];
  return n;
}
PyObject* get_size(PyObject* self, void*) { return PyLong_FromLongLong(size_of(self)); }
PyObject* get_nbytes(PyObject* self, void*) {
  return PyLong_FromLongLong(size_of(self) * int64_t(dtype_size(as_spec(self)->dtype)));
}

PyGetSetDef spec_getset[] = {
    {"shape", get_shape, nullptr, "The lengths of the dimensions.", nullptr},
    {"dtype", get_dtype, nullptr, "The element type.", nullptr},
    {"device", get_device, nullptr, "The device.", nullptr},
    {"ndim", get_ndim, nullptr, "The number of dimensions.", nullptr},
    {"size", get_size, nullptr, "The number of elements.", nullptr},
    {"nbytes", get_nbytes, nullptr, "Bytes of all elements.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyObject* new_spec(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"shape", "dtype", "device", nullptr};
  PyObject *shape, *dtype, *device = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|O:Spec", const_cast<char**>(names), &shape, &dtype, &device))
    return nullptr;
  Spec s;
  int ndim;
  if (!shape_from(shape, s.shape, &ndim, "Spec") || !dtype_from(dtype, &s.dtype) || !device_from(device, &s.device))
    return nullptr;
  if (!shape_fits("Spec", s.dtype, ndim, s.shape)) return nullptr;
  return spec_new(s.dtype, ndim, s.shape, s.device);
}

PyObject* spec_repr(PyObject* self) {
  PyObject* shape = shape_tuple(as_spec(self)->ndim, as_spec(self)->shape);
  if (shape == nullptr) return nullptr;
  PyObject* list = PySequence_List(shape);
  Py_DECREF(shape);
  if (list == nullptr) return nullptr;
  PyObject* text = PyUnicode_FromFormat("%s%R", dtype_name(as_spec(self)->dtype), list);
  Py_DECREF(list);
  return text;
}

bool equal(const Spec* a, const Spec* b) {
  return a->dtype == b->dtype && a->device == b->device && a->ndim == b->ndim &&
         memcmp(a->shape, b->shape, a->ndim * sizeof(int64_t)) == 0;
}

PyObject* spec_compare(PyObject* a, PyObject* b, int op) {
  if ((op != Py_EQ && op != Py_NE) || !is_spec(b)) Py_RETURN_NOTIMPLEMENTED;
  return PyBool_FromLong(equal(as_spec(a), as_spec(b)) == (op == Py_EQ));
}

Py_hash_t spec_hash(PyObject* self) {
  const Spec* s = as_spec(self);
  uint64_t h = 0x9E3779B97F4A7C15u ^ (uint64_t(s->dtype) << 8 | uint64_t(s->device));
  for (int d = 0; d < s->ndim; ++d) h = (h ^ uint64_t(s->shape[d])) * 0x100000001B3u;
  const Py_hash_t hash = Py_hash_t(h ^ (h >> 32));
  return hash == -1 ? -2 : hash;
}

PyObject* spec_reduce(PyObject* self, PyObject*) {
  PyObject* shape = shape_tuple(as_spec(self)->ndim, as_spec(self)->shape);
  if (shape == nullptr) return nullptr;
  return Py_BuildValue("O(NOs)", reinterpret_cast<PyObject*>(spec_type), shape, dtype_object(as_spec(self)->dtype),
                       as_spec(self)->device == DeviceKind::ref ? "ref" : "cpu");
}

PyMethodDef spec_methods[] = {
    {"__reduce__", spec_reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot spec_slots[] = {
    {Py_tp_doc, const_cast<char*>("Spec(shape, dtype, device='cpu')\n--\n\nShape, element type and device of a tensor that need "
                                  "not exist. Tensors have the same attributes.")},
    {Py_tp_new, reinterpret_cast<void*>(new_spec)},
    {Py_tp_repr, reinterpret_cast<void*>(spec_repr)},
    {Py_tp_richcompare, reinterpret_cast<void*>(spec_compare)},
    {Py_tp_hash, reinterpret_cast<void*>(spec_hash)},
    {Py_tp_getset, spec_getset},
    {Py_tp_methods, spec_methods},
    {0, nullptr},
};
PyType_Spec spec_spec = {"tensor._kernels.Spec", sizeof(Spec), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, spec_slots};

}  // namespace

PyObject* spec_new(Dtype dtype, int ndim, const int64_t* shape, DeviceKind device) {
  Spec* s = PyObject_New(Spec, spec_type);
  if (s == nullptr) return nullptr;
  s->dtype = dtype;
  s->device = device;
  s->ndim = uint8_t(ndim);
  for (int d = 0; d < ndim; ++d) s->shape[d] = shape[d];
  return reinterpret_cast<PyObject*>(s);
}

bool spec_read(PyObject* o, Spec* out) {
  if (is_spec(o)) {
    const Spec* s = as_spec(o);
    out->dtype = s->dtype;
    out->device = s->device;
    out->ndim = s->ndim;
    for (int d = 0; d < s->ndim; ++d) out->shape[d] = s->shape[d];
    return true;
  }
  if (is_tensor(o)) {
    const Tensor* t = as_tensor(o);
    out->dtype = t->dtype;
    out->device = t->device;
    out->ndim = t->ndim;
    for (int d = 0; d < t->ndim; ++d) out->shape[d] = t->shape()[d];
    return true;
  }
  PyObject* shape = PyObject_GetAttrString(o, "shape");
  PyObject* dtype = shape == nullptr ? nullptr : PyObject_GetAttrString(o, "dtype");
  PyObject* device = dtype == nullptr ? nullptr : PyObject_GetAttrString(o, "device");
  int ndim = 0;
  const bool good = device != nullptr && shape_from(shape, out->shape, &ndim, "Spec") && dtype_from(dtype, &out->dtype) &&
                    device_from(device, &out->device);
  out->ndim = uint8_t(ndim);
  Py_XDECREF(shape);
  Py_XDECREF(dtype);
  Py_XDECREF(device);
  return good;
}

PyObject* device_object(DeviceKind d) {
  PyObject*& held = device_objects[int(d)];
  if (held == nullptr) {
    PyObject* type = from_module("tensor.device", "Device");
    if (type == nullptr) return nullptr;
    held = PyObject_GetAttrString(type, d == DeviceKind::ref ? "ref" : "cpu");
    Py_DECREF(type);
  }
  return held;
}

bool device_from(PyObject* o, DeviceKind* out) {
  if (o == nullptr || o == Py_None) {
    *out = DeviceKind::cpu;
    return true;
  }
  for (int d = 0; d < 2; ++d) {
    if (o == device_objects[d]) {
      *out = DeviceKind(d);
      return true;
    }
  }
  if (PyUnicode_Check(o)) {  // Device is a string too
    if (PyUnicode_CompareWithASCIIString(o, "cpu") == 0 || PyUnicode_CompareWithASCIIString(o, "auto") == 0) {
      *out = DeviceKind::cpu;
      return true;
    }
    if (PyUnicode_CompareWithASCIIString(o, "ref") == 0) {
      *out = DeviceKind::ref;
      return true;
    }
  }
  raise_error("DeviceError", "device must be 'cpu' or 'ref' (the twins), got %R", o);
  return false;
}

PyObject* shape_tuple(int ndim, const int64_t* shape) {
  PyObject* tuple = PyTuple_New(ndim);
  if (tuple == nullptr) return nullptr;
  for (int d = 0; d < ndim; ++d) {
    PyObject* n = PyLong_FromLongLong(shape[d]);
    if (n == nullptr) {
      Py_DECREF(tuple);
      return nullptr;
    }
    PyTuple_SET_ITEM(tuple, d, n);
  }
  return tuple;
}

namespace {

bool length_from(PyObject* o, int64_t* out, const char* function) {
  const Py_ssize_t n = PyNumber_AsSsize_t(o, PyExc_OverflowError);
  if (n == -1 && PyErr_Occurred()) {
    if (PyErr_ExceptionMatches(PyExc_TypeError)) {
      PyErr_Format(PyExc_TypeError, "%s: shape must be an int or a sequence of ints, got %R", function, o);
    } else {
      PyErr_Clear();
      raise_error("ShapeError", "%s: a dimension of %R elements is too large", function, o);
    }
    return false;
  }
  if (n < 0) {
    raise_error("ShapeError", "%s: shape must not be negative, got %zd", function, n);
    return false;
  }
  *out = n;
  return true;
}

}  // namespace

PyObject* few_items(PyObject* o, const char* function) {
  PyObject* items[kDimsMax + 1];
  int n = 0;
  PyObject* iterator = PyObject_GetIter(o);
  if (iterator == nullptr) return nullptr;
  while (n <= kDimsMax && (items[n] = PyIter_Next(iterator)) != nullptr) ++n;
  Py_DECREF(iterator);
  PyObject* tuple = nullptr;
  if (n > kDimsMax)
    raise_error("ShapeError", "%s: a tensor has at most %d dimensions, got more", function, kDimsMax);
  else if (!PyErr_Occurred())
    tuple = PyTuple_New(n);
  for (int i = 0; i < n; ++i) {
    if (tuple != nullptr)
      PyTuple_SET_ITEM(tuple, i, items[i]);
    else
      Py_DECREF(items[i]);
  }
  return tuple;
}

bool shape_from(PyObject* o, int64_t* shape, int* ndim, const char* function) {
  if (PyTuple_Check(o)) {
    const Py_ssize_t n = PyTuple_GET_SIZE(o);
    if (n > kDimsMax) {
      raise_error("ShapeError", "%s: a tensor has at most %d dimensions, got %zd", function, kDimsMax, n);
      return false;
    }
    for (Py_ssize_t d = 0; d < n; ++d)
      if (!length_from(PyTuple_GET_ITEM(o, d), shape + d, function)) return false;
    *ndim = int(n);
    return true;
  }
  if (PyIndex_Check(o)) {
    *ndim = 1;
    return length_from(o, shape, function);
  }
  PyObject* tuple = few_items(o, function);  // also of a list, which the __index__ of an element may change
  if (tuple == nullptr) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) return false;
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "%s: shape must be an int or a sequence of ints, got %R", function, o);
    return false;
  }
  const bool good = shape_from(tuple, shape, ndim, function);
  Py_DECREF(tuple);
  return good;
}

int init_spec(PyObject* module) { return add_type(module, "Spec", &spec_spec, &spec_type); }

}  // namespace droveway
