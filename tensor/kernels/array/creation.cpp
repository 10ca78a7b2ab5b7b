// Tensors of Python numbers and lists, and back.
#include <string.h>

#define DW_ISA array_mode
#include "droveway/fpenv.hpp"

#include "array.hpp"
#include "half.hpp"
#include "methods.hpp"
#include "running.hpp"

namespace droveway {

using array_mode::FpGuard;  // conversions round, and must not flush

namespace {

struct IntRange {
  int64_t low;
  uint64_t high;
};
IntRange range_of(Dtype d) {
  const int bits = int(dtype_size(d)) * 8;
  if (is_unsigned_int(d)) return {0, bits == 64 ? UINT64_MAX : (uint64_t{1} << bits) - 1};
  return {bits == 64 ? INT64_MIN : -(int64_t{1} << (bits - 1)), (uint64_t{1} << (bits - 1)) - 1};
}

int int_into(PyObject* o, Dtype d, void* element) {
  const IntRange range = range_of(d);
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(o, &overflow);
  if (value == -1 && overflow == 0 && PyErr_Occurred()) return -1;
  uint64_t bits = uint64_t(value);
  bool fits = overflow == 0 && value >= range.low && (value < 0 || uint64_t(value) <= range.high);
  if (overflow > 0 && d == Dtype::u64) {
    bits = PyLong_AsUnsignedLongLong(o);
    fits = !PyErr_Occurred();
    PyErr_Clear();
  }
  if (!fits) {
    PyErr_Format(PyExc_OverflowError, "%s holds integers from %lld to %llu, got %R", dtype_name(d), (long long)range.low,
                 (unsigned long long)range.high, o);
    return -1;
  }
  memcpy(element, &bits, dtype_size(d));  // both machines we build for are little-endian
  return 0;
}

// A Python int as a double, or as a float in one rounding.
int real_into(PyObject* o, Dtype d, void* element) {
  double value;
  if (PyFloat_Check(o)) {
    value = PyFloat_AS_DOUBLE(o);
  } else {
    int overflow = 0;
    const long long whole = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (whole == -1 && overflow == 0 && PyErr_Occurred()) return -1;
    if (overflow == 0 && (d == Dtype::f32 || d == Dtype::c64)) {
      const FpGuard guard;
      const float single = float(whole);
      memcpy(element, &single, 4);
      return 0;
    }
    value = PyLong_AsDouble(o);
    if (value == -1.0 && PyErr_Occurred()) return -1;
  }
  const FpGuard guard;
  if (value != value) value = __builtin_nan("");
  switch (d) {
    case Dtype::f32:
    case Dtype::c64: {
      const float single = float(value);
      memcpy(element, &single, 4);
      return 0;
    }
    case Dtype::f16: {
      const uint16_t half = f16_bits(value);
      memcpy(element, &half, 2);
      return 0;
    }
    case Dtype::bf16: {
      const uint16_t half = bf16_bits(value);
      memcpy(element, &half, 2);
      return 0;
    }
    default: memcpy(element, &value, 8); return 0;
  }
}

int wrong_kind(PyObject* o, Dtype d) {
  raise_error("DtypeError", "%s cannot hold %R of type %.100s", dtype_name(d), o, Py_TYPE(o)->tp_name);
  return -1;
}

}  // namespace

bool is_scalar(PyObject* o) { return PyFloat_Check(o) || PyLong_Check(o) || PyComplex_Check(o); }

bool scalar_fits_kind(PyObject* o, Dtype d) {
  if (PyBool_Check(o)) return d == Dtype::boolean;
  if (PyLong_Check(o)) return d != Dtype::boolean;
  if (PyFloat_Check(o)) return is_float(d) || is_complex(d);
  return PyComplex_Check(o) && is_complex(d);
}

int scalar_into(PyObject* o, Dtype d, void* element) {
  if (d == Dtype::boolean) {
    if (!PyLong_Check(o)) return wrong_kind(o, d);
    *static_cast<uint8_t*>(element) = PyObject_IsTrue(o) != 0;
    return 0;
  }
  if (is_int(d)) return PyLong_Check(o) ? int_into(o, d, element) : wrong_kind(o, d);
  if (!is_complex(d)) return PyLong_Check(o) || PyFloat_Check(o) ? real_into(o, d, element) : wrong_kind(o, d);
  const size_t part = dtype_size(d) / 2;
  char* bytes = static_cast<char*>(element);
  if (!PyComplex_Check(o)) {
    memset(bytes + part, 0, part);
    return PyLong_Check(o) || PyFloat_Check(o) ? real_into(o, d, bytes) : wrong_kind(o, d);
  }
  for (int i = 0; i < 2; ++i) {
    PyObject* value = PyFloat_FromDouble(i == 0 ? PyComplex_RealAsDouble(o) : PyComplex_ImagAsDouble(o));
    if (value == nullptr) return -1;
    const int done = real_into(value, d, bytes + i * part);
    Py_DECREF(value);
    if (done < 0) return -1;
  }
  return 0;
}

PyObject* element_as_python(const void* element, Dtype d) {
  const FpGuard guard;
  int64_t whole = 0;
  memcpy(&whole, element, dtype_size(d) < 8 ? dtype_size(d) : 8);
  float single[2];
  double both[2];
  switch (d) {
    case Dtype::boolean: return PyBool_FromLong(whole != 0);
    case Dtype::i8: return PyLong_FromLong(int8_t(whole));
    case Dtype::i16: return PyLong_FromLong(int16_t(whole));
    case Dtype::i32: return PyLong_FromLong(int32_t(whole));
    case Dtype::i64: return PyLong_FromLongLong(whole);
    case Dtype::u8:
    case Dtype::u16:
    case Dtype::u32:
    case Dtype::u64: return PyLong_FromUnsignedLongLong(uint64_t(whole));
    case Dtype::f16: return PyFloat_FromDouble(f16_value(uint16_t(whole)));
    case Dtype::bf16: return PyFloat_FromDouble(bf16_value(uint16_t(whole)));
    case Dtype::f32: memcpy(single, element, 4); return PyFloat_FromDouble(single[0]);
    case Dtype::f64: memcpy(both, element, 8); return PyFloat_FromDouble(both[0]);
    case Dtype::c64: memcpy(single, element, 8); return PyComplex_FromDoubles(single[0], single[1]);
    case Dtype::c128: memcpy(both, element, 16); return PyComplex_FromDoubles(both[0], both[1]);
  }
  return nullptr;
}

Tensor* scalar_tensor(PyObject* o, Dtype d, DeviceKind device) {
  Tensor* t = tensor_empty(d, 0, nullptr, device, "number");
  if (t != nullptr && scalar_into(o, d, t->data) < 0) Py_CLEAR(t);
  return t;
}

Dtype default_dtype(PyObject* o) {
  if (PyBool_Check(o)) return Dtype::boolean;
  if (PyLong_Check(o)) return Dtype::i64;
  return PyComplex_Check(o) ? Dtype::c64 : Dtype::f32;
}

namespace {

PyObject* py_asarray(PyObject*, PyObject* args) {
  PyObject *value, *dtype = Py_None, *device = Py_None, *copy = Py_None;
  if (!PyArg_ParseTuple(args, "O|OOO:asarray", &value, &dtype, &device, &copy)) return nullptr;
  const int wanted = optional_truth(copy);
  return wanted < -1 ? nullptr : asarray(value, dtype, device, wanted);
}

PyObject* py_full(PyObject*, PyObject* args) {
  PyObject *shape, *value, *dtype, *device = nullptr;
  if (!PyArg_ParseTuple(args, "OOO|O:full", &shape, &value, &dtype, &device)) return nullptr;
  int64_t dims[kDimsMax];
  int ndim;
  Dtype d;
  DeviceKind kind;
  if (!shape_from(shape, dims, &ndim, "full") || !device_from(device, &kind)) return nullptr;
  if (dtype == Py_None) {
    if (!is_scalar(value)) {
      PyErr_Format(PyExc_TypeError, "full: fill_value must be a number, got %.100s", Py_TYPE(value)->tp_name);
      return nullptr;
    }
    d = default_dtype(value);
  } else if (!dtype_from(dtype, &d)) {
    return nullptr;
  }
  alignas(16) char element[16];
  if (scalar_into(value, d, element) < 0) return nullptr;
  Tensor* t = tensor_empty(d, ndim, dims, kind, "full");
  if (t != nullptr && !fill_running(view_of(t), element)) Py_CLEAR(t);
  return as_object(t);
}

// write(i) for i < n: from 2^16 on without Python's lock and by all threads, each element being the index's alone.
template <class Write>
bool in_parts(int64_t n, Write write) {
  constexpr int64_t kPart = 1 << 16;
  auto part = [&](size_t b) {
    const FpGuard guard;
    const int64_t begin = int64_t(b) * kPart, end = begin + kPart < n ? begin + kPart : n;
    for (int64_t i = begin; i < end; ++i) write(i);
  };
  using Part = decltype(part);
  if (n > kPart)
    return run_unlocked([&] {
      dw_parallel(size_t((n + kPart - 1) / kPart), [](void* p, size_t b) { (*static_cast<Part*>(p))(b); }, &part);
    });
  if (n > 0) part(0);
  return true;
}

// start + i * step in the dtype's own arithmetic: integers wrap, floats of all widths are computed in float64 and
// rounded once.
PyObject* py_arange(PyObject*, PyObject* args) {
  PyObject *start, *step, *dtype, *device = nullptr;
  long long count;
  if (!PyArg_ParseTuple(args, "OOLO|O:arange", &start, &step, &count, &dtype, &device)) return nullptr;
  Dtype d;
  DeviceKind kind;
  if (!dtype_from(dtype, &d) || !device_from(device, &kind)) return nullptr;
  const int64_t n = count < 0 ? 0 : count;
  if (is_int(d)) {
    int overflow = 0;
    const long long first = PyLong_AsLongLongAndOverflow(start, &overflow);
    if (first == -1 && PyErr_Occurred()) return nullptr;
    if (overflow != 0) return PyErr_SetString(PyExc_OverflowError, "arange: start does not fit into 64 bits"), nullptr;
    const long long by = PyLong_AsLongLong(step);
    if (by == -1 && PyErr_Occurred()) return nullptr;
    Tensor* t = tensor_empty(d, 1, &n, kind, "arange");
    if (t == nullptr) return nullptr;
    const size_t size = dtype_size(d);
    const bool whole = in_parts(n, [&](int64_t i) {
      const uint64_t value = uint64_t(first) + uint64_t(i) * uint64_t(by);
      memcpy(t->data + size_t(i) * size, &value, size);
    });
    if (!whole) Py_CLEAR(t);
    return as_object(t);
  }
  if (!is_float(d)) return raise_error("DtypeError", "arange: dtype must be an integer or real floating type, got %s", dtype_name(d));
  const double first = PyFloat_AsDouble(start);
  if (first == -1.0 && PyErr_Occurred()) return nullptr;
  const double by = PyFloat_AsDouble(step);
  if (by == -1.0 && PyErr_Occurred()) return nullptr;
  Tensor* t = tensor_empty(d, 1, &n, kind, "arange");
  if (t == nullptr) return nullptr;
  const bool whole = in_parts(n, [&](int64_t i) {
    const double value = first + double(i) * by;
    switch (d) {
      case Dtype::f16: reinterpret_cast<uint16_t*>(t->data)[i] = f16_bits(value); break;
      case Dtype::bf16: reinterpret_cast<uint16_t*>(t->data)[i] = bf16_bits(value); break;
      case Dtype::f32: reinterpret_cast<float*>(t->data)[i] = float(value); break;
      default: reinterpret_cast<double*>(t->data)[i] = value; break;
    }
  });
  if (!whole) Py_CLEAR(t);
  return as_object(t);
}

// --- methods

PyObject* clone(PyObject* self, PyObject*) {
  Tensor* t = as_tensor(self);
  if ((t->flags & kTraced) != 0 || t->device != DeviceKind::cpu) {
    PyObject* copy = row("copy");
    PyObject* inputs = copy == nullptr ? nullptr : PyTuple_Pack(1, self);
    if (inputs == nullptr) return nullptr;
    PyObject* out = apply_primitive(copy, inputs, Py_None);
    Py_DECREF(inputs);
    return out;
  }
  Tensor* out = tensor_empty(t->dtype, t->ndim, t->shape(), t->device, "clone");
  if (out == nullptr) return nullptr;
  if (!copy_running(view_of(out), view_of(t))) {
    Py_DECREF(out);
    return nullptr;
  }
  if (wants_record(&t, 1)) {
    PyObject* copy = row("copy");
    if (copy == nullptr || record(copy, &t, 1, Py_None, &out, 1) < 0) Py_CLEAR(out);
  }
  return as_object(out);
}

PyObject* contiguous(PyObject* self, PyObject*) {
  return view_contiguous(view_of(as_tensor(self))) ? Py_NewRef(self) : clone(self, nullptr);
}

PyObject* list_of(const View& v, int d, char* data) {
  if (d == v.ndim) return element_as_python(data, v.dtype);
  PyObject* list = PyList_New(v.shape[d]);
  for (int64_t i = 0; list != nullptr && i < v.shape[d]; ++i) {
    PyObject* item = list_of(v, d + 1, data + i * v.strides[d] * int64_t(dtype_size(v.dtype)));
    if (item == nullptr)
      Py_CLEAR(list);
    else
      PyList_SET_ITEM(list, i, item);
  }
  return list;
}

PyObject* tolist(PyObject* self, PyObject*) {
  if ((as_tensor(self)->flags & kTraced) != 0) {
    PyErr_SetString(PyExc_TypeError, "tolist: a traced tensor has no values yet");
    return nullptr;
  }
  const View v = view_of(as_tensor(self));
  return list_of(v, 0, v.data);
}

PyObject* item(PyObject* self, PyObject*) { return tensor_item(self); }

PyObject* copy_(PyObject* self, PyObject* value) {
  if (assign_into(as_tensor(self), value, "copy_") < 0) return nullptr;
  return Py_NewRef(self);
}

PyObject* shallow_copy(PyObject* self, PyObject*) { return clone(self, nullptr); }

PyObject* deep_copy(PyObject* self, PyObject* memo) {
  Tensor* t = as_tensor(self);
  if (t->node != nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "deepcopy: only a tensor without history can be copied so (hint: .detach())");
    return nullptr;
  }
  (void)memo;
  const bool grad = modes.grad;
  modes.grad = false;
  PyObject* out = clone(self, nullptr);
  modes.grad = grad;
  if (out != nullptr) as_tensor(out)->flags |= t->flags & kRequiresGrad;
  return out;
}

PyMethodDef functions[] = {
    {"asarray", py_asarray, METH_VARARGS, "asarray($module, value, dtype=None, device=None, copy=None, /)\n--\n\nA Tensor of numbers, lists, buffers, arrays."},
    {"full", py_full, METH_VARARGS, "full($module, shape, value, dtype, device=None, /)\n--\n\nA Tensor of one number everywhere."},
    {"arange", py_arange, METH_VARARGS, "arange($module, start, step, count, dtype, device=None, /)\n--\n\nstart + i * step for i < count."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyMethodDef creation_methods[] = {
    {"clone", clone, METH_NOARGS, "clone($self, /)\n--\n\nA copy in C order; gradients pass through."},
    {"contiguous", contiguous, METH_NOARGS, "contiguous($self, /)\n--\n\nThe tensor itself if it lies in C order, else such a copy."},
    {"tolist", tolist, METH_NOARGS, "tolist($self, /)\n--\n\nThe elements as nested lists; without dimensions, one number."},
    {"item", item, METH_NOARGS, "item($self, /)\n--\n\nThe only element as a Python number."},
    {"copy_", copy_, METH_O, "copy_($self, value, /)\n--\n\nTakes over the elements of value, broadcast and cast; returns the tensor."},
    {"__complex__", tensor_complex, METH_NOARGS, nullptr},
    {"__copy__", shallow_copy, METH_NOARGS, nullptr},
    {"__deepcopy__", deep_copy, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyObject* asarray(PyObject* value, PyObject* dtype, PyObject* device, int copy) {
  Dtype d = Dtype::f32;
  const bool typed = dtype != nullptr && dtype != Py_None;
  const bool placed = device != nullptr && device != Py_None;
  DeviceKind kind;
  if (typed && !dtype_from(dtype, &d)) return nullptr;
  if (!device_from(device, &kind)) return nullptr;
  if (is_tensor(value)) {
    Tensor* t = as_tensor(value);
    if ((!typed || t->dtype == d) && (!placed || t->device == kind)) return copy == 1 ? clone(value, nullptr) : Py_NewRef(value);
    if (copy == 0) {
      PyErr_Format(PyExc_ValueError, "asarray: %s cannot become %s without a copy", dtype_name(t->dtype), dtype_name(typed ? d : t->dtype));
      return nullptr;
    }
    PyObject* arguments[] = {value, typed ? dtype_object(d) : Py_None, placed ? device : Py_None};
    return call_python("tensor.functions.creation", "converted", arguments, 3);
  }
  const bool number = is_scalar(value) && !PyObject_CheckBuffer(value);  // numpy.float64 is a float too
  if (number || is_list(value)) {
    if (copy == 0) {
      PyErr_SetString(PyExc_ValueError, "asarray: Python numbers cannot become a tensor without a copy");
      return nullptr;
    }
    if (is_list(value)) return from_lists(value, typed ? &d : nullptr, device, kind);
    return as_object(scalar_tensor(value, typed ? d : default_dtype(value), kind));
  }
  PyObject* foreign = from_foreign(value, copy);
  if (foreign == nullptr || (!typed && !placed)) return foreign;
  PyObject* result = asarray(foreign, dtype, device, copy == 1 ? -1 : copy);
  Py_DECREF(foreign);
  return result;
}

int init_creation(PyObject* module) { return add_functions(module, functions); }

}  // namespace droveway
