// Views: new shapes and strides over the same storage. No element moves, but where reshape meets strides that forbid it.
#include <string.h>

#include "array.hpp"
#include "methods.hpp"
#include "views.hpp"

namespace droveway {

namespace {

PyObject *str_shape, *str_axes;

// The result of a view operation: `out` (owned) is the raw view of t. Records it as row(name) with {key: value} if
// gradients are wanted; takes over value (may be nullptr where nothing is recorded).
bool recorded(Tensor* t) { return wants_record(&t, 1); }

PyObject* params_of(PyObject* key, PyObject* value) {
  PyObject* params = value == nullptr ? nullptr : PyDict_New();
  if (params != nullptr && PyDict_SetItem(params, key, value) < 0) Py_CLEAR(params);
  Py_XDECREF(value);
  return params;
}

PyObject* through_row(Tensor* t, const char* name, PyObject* params) {
  PyObject* primitive = row(name);
  PyObject* inputs = primitive == nullptr ? nullptr : PyTuple_Pack(1, as_object(t));
  PyObject* out = inputs == nullptr ? nullptr : apply_primitive(primitive, inputs, params);
  Py_XDECREF(inputs);
  return out;
}

PyObject* with_history(Tensor* t, PyObject* out, const char* name, PyObject* key, PyObject* value) {
  PyObject* params = params_of(key, value);
  PyObject* primitive = params == nullptr ? nullptr : row(name);
  Tensor* made = as_tensor(out);
  if (primitive == nullptr || record(primitive, &t, 1, params, &made, 1) < 0) Py_CLEAR(out);
  Py_XDECREF(params);
  return out;
}

bool no_value(Tensor* t) { return (t->flags & kTraced) != 0 || t->storage == nullptr; }

bool one_int(PyObject* item, int64_t* out, const char* function) {
  if (PyLong_CheckExact(item)) {
    int overflow = 0;
    *out = PyLong_AsLongLongAndOverflow(item, &overflow);
    if (overflow == 0) return true;
  } else if (!PyIndex_Check(item)) {
    PyErr_Format(PyExc_TypeError, "%s: expected ints, got %R", function, item);
    return false;
  } else {
    *out = PyNumber_AsSsize_t(item, PyExc_OverflowError);
    if (*out != -1 || !PyErr_Occurred()) return true;
    if (!PyErr_ExceptionMatches(PyExc_OverflowError)) return false;
    PyErr_Clear();
  }
  raise_error("ShapeError", "%s: a dimension of %R elements is too large", function, item);
  return false;
}

bool ints_of(PyObject* const* items, Py_ssize_t n, int64_t* out, int* count, const char* function) {
  if (n > kDimsMax) {
    raise_error("ShapeError", "%s: a tensor has at most %d dimensions, got %zd", function, kDimsMax, n);
    return false;
  }
  for (Py_ssize_t i = 0; i < n; ++i)
    if (!one_int(items[i], out + i, function)) return false;
  *count = int(n);
  return true;
}

// An int, or a sequence of them.
bool ints_from(PyObject* o, int64_t* out, int* count, const char* function) {
  if (PyTuple_Check(o)) return ints_of(&PyTuple_GET_ITEM(o, 0), PyTuple_GET_SIZE(o), out, count, function);
  if (PyIndex_Check(o) && !(is_tensor(o) && as_tensor(o)->ndim != 0)) return ints_of(&o, 1, out, count, function);
  PyObject* tuple = few_items(o, function);  // also of a list, which the __index__ of an element may change
  if (tuple == nullptr) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) return false;
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "%s: expected ints, got %R", function, o);
    return false;
  }
  const bool good = ints_from(tuple, out, count, function);
  Py_DECREF(tuple);
  return good;
}

// Several arguments, or one sequence of them.
bool one_or_many(PyObject* const* arguments, Py_ssize_t n, int64_t* out, int* count, const char* function) {
  if (n == 1) return ints_from(arguments[0], out, count, function);
  return ints_of(arguments, n, out, count, function);
}

// Fills in one −1 and checks the number of elements.
bool complete_shape(const Tensor* t, int64_t* shape, int ndim) {
  const int64_t size = view_size(view_of(t));
  int64_t known = 1;
  int open = -1;
  bool overflow = false;
  for (int d = 0; d < ndim; ++d) {
    if (shape[d] == -1 && open < 0) {
      open = d;
    } else if (shape[d] < 0) {
      overflow = true;
    } else {
      overflow = __builtin_mul_overflow(known, shape[d], &known) || overflow;
    }
  }
  for (int d = 0; d < ndim; ++d)
    if (shape[d] == 0) known = 0;
  if (open >= 0 && known > 0 && size % known == 0 && !overflow) {
    shape[open] = size / known;
    known = size;
    open = -1;
  }
  if (open < 0 && known == size && !overflow) return shape_fits("reshape", t->dtype, ndim, shape);
  PyObject *from = shape_tuple(t->ndim, t->shape()), *to = shape_tuple(ndim, shape);
  if (from != nullptr && to != nullptr)
    raise_error("ShapeError", "reshape: a tensor of shape %R has no shape %R", from, to);
  Py_XDECREF(from);
  Py_XDECREF(to);
  return false;
}

// Strides of a new shape over the same elements in the same order; false if they would need a copy.
bool new_strides(const Tensor* t, int ndim, const int64_t* shape, int64_t* strides) {
  int64_t old_shape[kDimsMax], old_strides[kDimsMax];
  int n = 0;
  int64_t size = 1;
  for (int d = 0; d < t->ndim; ++d) {
    size *= t->shape()[d];
    if (t->shape()[d] == 1) continue;
    old_shape[n] = t->shape()[d];
    old_strides[n++] = t->strides()[d];
  }
  if (size <= 1 || view_contiguous(view_of(t))) {
    int64_t step = 1;
    for (int d = ndim - 1; d >= 0; --d) {
      strides[d] = step;
      step *= shape[d] > 0 ? shape[d] : 1;
    }
    return true;
  }
  int i = 0, j = 0;
  while (i < n) {
    int64_t old_count = old_shape[i], new_count = 1;
    const int i0 = i, j0 = j;
    while (j < ndim && shape[j] == 1) ++j;
    new_count = shape[j++];
    while (old_count != new_count) {
      if (new_count < old_count)
        new_count *= shape[j++];
      else
        old_count *= old_shape[++i];
    }
    ++i;
    for (int k = i0; k < i - 1; ++k)
      if (old_strides[k] != old_strides[k + 1] * old_shape[k + 1]) return false;
    int64_t step = old_strides[i - 1];
    for (int k = j - 1; k >= j0; --k) {
      strides[k] = step;
      step *= shape[k];
    }
  }
  for (; j < ndim; ++j) strides[j] = 1;  // only dimensions of size 1 are left
  return true;
}

PyObject* reshape_to(Tensor* t, int64_t* shape, int ndim) {
  if (!complete_shape(t, shape, ndim)) return nullptr;
  if (no_value(t)) {
    PyObject* params = params_of(str_shape, shape_tuple(ndim, shape));
    PyObject* out = params == nullptr ? nullptr : through_row(t, "reshape", params);
    Py_XDECREF(params);
    return out;
  }
  PyObject* base = Py_NewRef(as_object(t));
  int64_t strides[kDimsMax];
  if (!new_strides(t, ndim, shape, strides)) {
    Py_DECREF(base);
    base = PyObject_CallMethod(as_object(t), "clone", nullptr);
    if (base == nullptr) return nullptr;
    new_strides(as_tensor(base), ndim, shape, strides);
  }
  PyObject* out = as_object(tensor_view(as_tensor(base), as_tensor(base)->data, ndim, shape, strides));
  if (out != nullptr && recorded(as_tensor(base)))
    out = with_history(as_tensor(base), out, "reshape", str_shape, shape_tuple(ndim, shape));
  Py_DECREF(base);
  return out;
}

PyObject* reshape(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
  int copy = -1;
  int64_t shape[kDimsMax];
  int ndim = -1;
  for (Py_ssize_t k = 0; names != nullptr && k < PyTuple_GET_SIZE(names); ++k) {
    PyObject* name = PyTuple_GET_ITEM(names, k);
    PyObject* value = arguments[count + k];
    if (PyUnicode_CompareWithASCIIString(name, "copy") == 0)
      copy = optional_truth(value);
    else if (PyUnicode_CompareWithASCIIString(name, "shape") != 0 || count != 0)
      return PyErr_Format(PyExc_TypeError, "reshape: unexpected argument %R", name);
    else if (!ints_from(value, shape, &ndim, "reshape"))
      return nullptr;
  }
  if (copy < -1 || (ndim < 0 && !one_or_many(arguments, count, shape, &ndim, "reshape"))) return nullptr;
  Tensor* t = as_tensor(self);
  if (copy == 0 && !no_value(t)) {
    int64_t strides[kDimsMax];
    if (!complete_shape(t, shape, ndim)) return nullptr;
    if (!new_strides(t, ndim, shape, strides)) {
      PyErr_SetString(PyExc_ValueError, "reshape: the strides allow no view of this shape (hint: copy=None)");
      return nullptr;
    }
  }
  if (copy == 1) {
    PyObject* duplicate = PyObject_CallMethod(self, "clone", nullptr);
    PyObject* out = duplicate == nullptr ? nullptr : reshape_to(as_tensor(duplicate), shape, ndim);
    Py_XDECREF(duplicate);
    return out;
  }
  return reshape_to(t, shape, ndim);
}

bool axis_from(int64_t axis, int ndim, int* out, const char* function) {
  if (axis < -ndim || axis >= ndim) {
    raise_error("AxisError", "%s: axis %lld is out of range for %d dimensions", function, (long long)axis, ndim);
    return false;
  }
  *out = int(axis < 0 ? axis + ndim : axis);
  return true;
}

PyObject* permuted(Tensor* t, const int* axes) {
  if (no_value(t) || recorded(t)) {
    int64_t order[kDimsMax];
    for (int d = 0; d < t->ndim; ++d) order[d] = axes[d];
    PyObject* value = shape_tuple(t->ndim, order);
    if (no_value(t)) {
      PyObject* params = params_of(str_axes, value);
      PyObject* out = params == nullptr ? nullptr : through_row(t, "permute", params);
      Py_XDECREF(params);
      return out;
    }
    PyObject* out = permute_view(t, axes);
    if (out == nullptr) {
      Py_XDECREF(value);
      return nullptr;
    }
    return with_history(t, out, "permute", str_axes, value);
  }
  return permute_view(t, axes);
}

PyObject* permute(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  Tensor* t = as_tensor(self);
  int64_t given[kDimsMax];
  int n = 0, axes[kDimsMax];
  bool good = one_or_many(arguments, count, given, &n, "permute");
  unsigned seen = 0;
  if (good && n != t->ndim) {
    raise_error("AxisError", "permute: %d axes named for %d dimensions", n, int(t->ndim));
    good = false;
  }
  for (int d = 0; good && d < n; ++d) {
    good = axis_from(given[d], n, axes + d, "permute");
    if (good && (seen >> axes[d] & 1) != 0) {
      raise_error("AxisError", "permute: axis %d is named twice", axes[d]);
      good = false;
    }
    if (good) seen |= 1u << axes[d];
  }
  return good ? permuted(t, axes) : nullptr;
}

PyObject* transpose(PyObject* self, PyObject* args) {
  Tensor* t = as_tensor(self);
  long long a = -2, b = -1;
  if (!PyArg_ParseTuple(args, "|LL:transpose", &a, &b)) return nullptr;
  int axes[kDimsMax], i, j;
  for (int d = 0; d < t->ndim; ++d) axes[d] = d;
  if (!axis_from(a, t->ndim, &i, "transpose") || !axis_from(b, t->ndim, &j, "transpose")) return nullptr;
  axes[i] = j;
  axes[j] = i;
  return permuted(t, axes);
}

PyObject* expand(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  Tensor* t = as_tensor(self);
  int64_t shape[kDimsMax];
  int ndim;
  if (!one_or_many(arguments, count, shape, &ndim, "expand")) return nullptr;
  const int skip = ndim - t->ndim;
  bool fits = skip >= 0;
  for (int d = 0; fits && d < ndim; ++d) {
    if (shape[d] == -1 && d >= skip) shape[d] = t->shape()[d - skip];
    fits = shape[d] >= 0 && (d < skip || t->shape()[d - skip] == 1 || t->shape()[d - skip] == shape[d]);
  }
  if (!fits) {
    PyObject *from = shape_tuple(t->ndim, t->shape()), *to = shape_tuple(ndim, shape);
    if (from != nullptr && to != nullptr) raise_error("ShapeError", "expand: a tensor of shape %R does not broadcast to %R", from, to);
    Py_XDECREF(from);
    Py_XDECREF(to);
    return nullptr;
  }
  if (!shape_fits("expand", t->dtype, ndim, shape)) return nullptr;
  if (no_value(t)) {
    PyObject* params = params_of(str_shape, shape_tuple(ndim, shape));
    PyObject* out = params == nullptr ? nullptr : through_row(t, "expand", params);
    Py_XDECREF(params);
    return out;
  }
  PyObject* out = expand_view(t, ndim, shape);
  if (out != nullptr && recorded(t)) out = with_history(t, out, "expand", str_shape, shape_tuple(ndim, shape));
  return out;
}

PyObject* squeeze(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"axis", nullptr};
  PyObject* axis = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:squeeze", const_cast<char**>(names), &axis)) return nullptr;
  Tensor* t = as_tensor(self);
  unsigned away = 0;
  if (axis == Py_None) {
    for (int d = 0; d < t->ndim; ++d)
      if (t->shape()[d] == 1) away |= 1u << d;
  } else {
    int64_t given[kDimsMax];
    int n, d;
    if (!ints_from(axis, given, &n, "squeeze")) return nullptr;
    for (int i = 0; i < n; ++i) {
      if (!axis_from(given[i], t->ndim, &d, "squeeze")) return nullptr;
      if (t->shape()[d] != 1)
        return raise_error("ShapeError", "squeeze: dimension %d has %lld elements, not 1", d, (long long)t->shape()[d]);
      away |= 1u << d;
    }
  }
  int64_t shape[kDimsMax];
  int ndim = 0;
  for (int d = 0; d < t->ndim; ++d)
    if ((away >> d & 1) == 0) shape[ndim++] = t->shape()[d];
  return reshape_to(t, shape, ndim);
}

PyObject* unsqueeze(PyObject* self, PyObject* argument) {
  Tensor* t = as_tensor(self);
  const Py_ssize_t axis = PyNumber_AsSsize_t(argument, PyExc_IndexError);
  if (axis == -1 && PyErr_Occurred()) return nullptr;
  int at;
  if (!axis_from(axis, t->ndim + 1, &at, "unsqueeze")) return nullptr;
  if (t->ndim == kDimsMax) return raise_error("ShapeError", "unsqueeze: a tensor has at most %d dimensions", kDimsMax);
  int64_t shape[kDimsMax];
  for (int d = 0; d <= t->ndim; ++d) shape[d] = d < at ? t->shape()[d] : d == at ? 1 : t->shape()[d - 1];
  return reshape_to(t, shape, t->ndim + 1);
}

PyObject* flatten(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"start_axis", "end_axis", nullptr};
  long long first = 0, last = -1;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|LL:flatten", const_cast<char**>(names), &first, &last)) return nullptr;
  Tensor* t = as_tensor(self);
  int64_t shape[kDimsMax];
  if (t->ndim == 0) {
    shape[0] = 1;
    return reshape_to(t, shape, 1);
  }
  int a, b, ndim = 0;
  if (!axis_from(first, t->ndim, &a, "flatten") || !axis_from(last, t->ndim, &b, "flatten")) return nullptr;
  for (int d = 0; d < t->ndim; ++d) {
    if (d > a && d <= b)
      shape[ndim - 1] *= t->shape()[d];
    else
      shape[ndim++] = t->shape()[d];
  }
  return reshape_to(t, shape, ndim);
}

// --- raw views, for the rows of tensor.primitives.structural: no history

bool tensor_argument(PyObject* o, const char* function) {
  if (is_tensor(o) && !no_value(as_tensor(o))) return true;
  PyErr_Format(PyExc_TypeError, "%s: needs a Tensor with a value, got %.100s", function, Py_TYPE(o)->tp_name);
  return false;
}

PyObject* py_reshape_view(PyObject*, PyObject* args) {
  PyObject *o, *wanted;
  if (!PyArg_ParseTuple(args, "OO:reshape_view", &o, &wanted) || !tensor_argument(o, "reshape_view")) return nullptr;
  int64_t shape[kDimsMax];
  int ndim;
  if (!ints_from(wanted, shape, &ndim, "reshape")) return nullptr;
  return reshape_to(as_tensor(o), shape, ndim);
}

// Any view inside the storage: offset, shape, strides in elements; for tests and rows. Checked.
PyObject* py_strided_view(PyObject*, PyObject* args) {
  PyObject *o, *wanted, *steps;
  long long offset;
  if (!PyArg_ParseTuple(args, "OLOO:strided_view", &o, &offset, &wanted, &steps) || !tensor_argument(o, "strided_view")) return nullptr;
  Tensor* t = as_tensor(o);
  int64_t shape[kDimsMax], strides[kDimsMax];
  int ndim, n;
  if (!ints_from(wanted, shape, &ndim, "strided_view") || !ints_from(steps, strides, &n, "strided_view")) return nullptr;
  const int64_t size = int64_t(dtype_size(t->dtype));
  // in bytes from the storage's start, without overflow: everything stays below 2^62 or is refused
  __int128 low = (t->data - t->storage->data) + __int128(offset) * size, high = low;
  bool good = n == ndim, empty = false;
  for (int d = 0; good && d < ndim; ++d) {
    good = shape[d] >= 0;
    empty = empty || shape[d] == 0;
    const __int128 reach = __int128(shape[d] - 1) * strides[d] * size;
    (reach < 0 ? low : high) += reach;
    good = good && low > -(__int128(1) << 100) && high < __int128(1) << 100;
  }
  if (!good || (!empty && (low < 0 || high + size > __int128(t->storage->nbytes)))) {
    PyErr_SetString(PyExc_ValueError, "strided_view: the view would leave the storage");
    return nullptr;
  }
  if (!shape_fits("strided_view", t->dtype, ndim, shape)) return nullptr;
  for (int d = 0; d < ndim; ++d)
    if (shape[d] <= 1) strides[d] = 1;
  return as_object(tensor_view(t, empty ? t->data : t->data + offset * size, ndim, shape, strides));
}

PyMethodDef functions[] = {
    {"reshape_view", py_reshape_view, METH_VARARGS, "reshape_view($module, x, shape, /)\n--\n\nThe elements in another shape: a view, or a copy where strides forbid one."},
    {"strided_view", py_strided_view, METH_VARARGS,
     "strided_view($module, x, offset, shape, strides, /)\n--\n\nAny view inside x's storage, in elements from x's first; no history."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyObject* permute_view(Tensor* t, const int* axes) {
  int64_t shape[kDimsMax], strides[kDimsMax];
  for (int d = 0; d < t->ndim; ++d) {
    shape[d] = t->shape()[axes[d]];
    strides[d] = t->strides()[axes[d]];
  }
  return as_object(tensor_view(t, t->data, t->ndim, shape, strides));
}

PyObject* expand_view(Tensor* t, int ndim, const int64_t* shape) {
  int64_t strides[kDimsMax];
  const int skip = ndim - t->ndim;
  for (int d = 0; d < ndim; ++d)
    strides[d] = d < skip || (t->shape()[d - skip] == 1 && shape[d] != 1) ? 0 : t->strides()[d - skip];
  return as_object(tensor_view(t, t->data, ndim, shape, strides));
}

PyObject* get_matrix_transposed(PyObject* self, void*) {
  Tensor* t = as_tensor(self);
  if (t->ndim < 2) return raise_error("ShapeError", "mT: needs at least two dimensions, the tensor has %d", int(t->ndim));
  int axes[kDimsMax];
  for (int d = 0; d < t->ndim; ++d) axes[d] = d;
  axes[t->ndim - 2] = t->ndim - 1;
  axes[t->ndim - 1] = t->ndim - 2;
  return permuted(t, axes);
}

PyObject* get_transposed(PyObject* self, void*) {
  Tensor* t = as_tensor(self);
  if (t->ndim != 2) return raise_error("ShapeError", "T: needs two dimensions, the tensor has %d (hint: .mT or permute)", int(t->ndim));
  const int axes[2] = {1, 0};
  return permuted(t, axes);
}

#define DW_FAST(function) reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function))
PyMethodDef view_methods[] = {
    {"reshape", DW_FAST(reshape), METH_FASTCALL | METH_KEYWORDS,
     "reshape($self, /, *shape, copy=None)\n--\n\nThe elements in another shape, a view where strides allow; one length may be −1."},
    {"permute", DW_FAST(permute), METH_FASTCALL, "permute($self, /, *axes)\n--\n\nDimensions in another order, as a view."},
    {"transpose", transpose, METH_VARARGS, "transpose($self, axis1=-2, axis2=-1, /)\n--\n\nTwo dimensions exchanged, as a view."},
    {"expand", DW_FAST(expand), METH_FASTCALL, "expand($self, /, *shape)\n--\n\nRepeated along dimensions of size 1, as a view; −1 keeps a length."},
    {"squeeze", DW_FAST(squeeze), METH_VARARGS | METH_KEYWORDS, "squeeze($self, axis=None)\n--\n\nWithout dimensions of size 1, as a view."},
    {"unsqueeze", unsqueeze, METH_O, "unsqueeze($self, axis, /)\n--\n\nWith one more dimension of size 1, as a view."},
    {"flatten", DW_FAST(flatten), METH_VARARGS | METH_KEYWORDS,
     "flatten($self, start_axis=0, end_axis=-1)\n--\n\nSome neighbouring dimensions as one; a view where strides allow."},
    {nullptr, nullptr, 0, nullptr},
};
#undef DW_FAST

int init_views(PyObject* module) {
  str_shape = PyUnicode_InternFromString("shape");
  str_axes = PyUnicode_InternFromString("axes");
  return add_functions(module, functions);
}

}  // namespace droveway
