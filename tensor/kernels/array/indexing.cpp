// x[…]: ints, slices, None and … make views here; integer and boolean tensors pick rows, and the rest goes to
// tensor.functions.indexing.
#include <string.h>

#include "array.hpp"
#include "index.hpp"
#include "methods.hpp"

namespace droveway {

namespace {

PyObject* str_index;

bool is_number_index(PyObject* o) {
  if (PyBool_Check(o)) return false;
  if (PyLong_Check(o)) return true;
  if (is_tensor(o)) return as_tensor(o)->ndim == 0 && is_int(as_tensor(o)->dtype) && (as_tensor(o)->flags & kTraced) == 0;
  if (!PyIndex_Check(o)) return false;
  PyObject* ndim = PyObject_GetAttrString(o, "ndim");  // arrays with dimensions call themselves indices too
  if (ndim == nullptr) {
    PyErr_Clear();
    return true;
  }
  const long n = PyLong_AsLong(ndim);
  Py_DECREF(ndim);
  return n == 0;
}

int too_many(const Tensor* t, Py_ssize_t named) {
  PyErr_Format(PyExc_IndexError, "index: %zd indices for %d dimensions", named, int(t->ndim));
  return -1;
}

}  // namespace

int index_parse(const Tensor* t, PyObject* key, Index* x) {
  PyObject* const* keys = &key;
  Py_ssize_t count = 1;
  if (PyTuple_Check(key)) {
    keys = &PyTuple_GET_ITEM(key, 0);
    count = PyTuple_GET_SIZE(key);
  }
  Py_ssize_t named = 0, dots = 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* k = keys[i];
    if (k == Py_Ellipsis)
      ++dots;
    else if (PySlice_Check(k) || PyLong_CheckExact(k))
      ++named;
    else if (k == Py_None)
      continue;
    else if (is_number_index(k))
      ++named;
    else
      return 0;
  }
  if (named > t->ndim) return too_many(t, named);
  if (dots > 1) return PyErr_SetString(PyExc_IndexError, "index: only one … may stand in an index"), -1;
  x->data = t->data;
  const int64_t size = int64_t(dtype_size(t->dtype));
  int d = 0;
  auto keep_whole = [&](int64_t n) {
    for (; n > 0; --n, ++d) {
      x->item[x->items++] = {Item::whole, 0, t->shape()[d], 1};
      x->shape[x->ndim] = t->shape()[d];
      x->strides[x->ndim++] = t->strides()[d];
    }
  };
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* k = keys[i];
    if (x->ndim >= kDimsMax && (k == Py_None || PySlice_Check(k))) {
      raise_error("ShapeError", "index: a tensor has at most %d dimensions", kDimsMax);
      return -1;
    }
    if (k == Py_Ellipsis) {
      if (x->ndim + (t->ndim - named) > kDimsMax) {
        raise_error("ShapeError", "index: a tensor has at most %d dimensions", kDimsMax);
        return -1;
      }
      keep_whole(t->ndim - named);
    } else if (k == Py_None) {
      if (x->items == 2 * kDimsMax) return raise_error("ShapeError", "index: a tensor has at most %d dimensions", kDimsMax), -1;
      x->item[x->items++] = {Item::fresh, 0, 1, 1};
      x->shape[x->ndim] = 1;
      x->strides[x->ndim++] = 0;
    } else if (PySlice_Check(k)) {
      Py_ssize_t start, stop, step;
      if (PySlice_Unpack(k, &start, &stop, &step) < 0) return -1;
      const int64_t n = PySlice_AdjustIndices(t->shape()[d], &start, &stop, step);
      if (n > 0) x->data += start * t->strides()[d] * size;
      x->item[x->items++] = {Item::slice, n > 0 ? start : 0, n, step};
      x->shape[x->ndim] = n;
      x->strides[x->ndim++] = n > 1 ? t->strides()[d] * step : t->strides()[d];
      ++d;
    } else {
      const Py_ssize_t at = PyNumber_AsSsize_t(k, PyExc_IndexError);
      if (at == -1 && PyErr_Occurred()) return -1;
      const int64_t n = t->shape()[d];
      if (at < -n || at >= n) {
        PyErr_Format(PyExc_IndexError, "index: %zd is out of range for dimension %d of %lld elements", at, d, (long long)n);
        return -1;
      }
      const int64_t i0 = at < 0 ? at + n : at;
      x->data += i0 * t->strides()[d] * size;
      x->item[x->items++] = {Item::one, i0, 1, 1};
      ++d;
    }
  }
  if (x->ndim + (t->ndim - d) > kDimsMax) return raise_error("ShapeError", "index: a tensor has at most %d dimensions", kDimsMax), -1;
  keep_whole(t->ndim - d);
  return 1;
}

PyObject* index_params(const Index& x) {
  PyObject* entries = PyTuple_New(x.items);
  for (int i = 0; entries != nullptr && i < x.items; ++i) {
    const Item& item = x.item[i];
    PyObject* entry;
    if (item.kind == Item::fresh)
      entry = Py_NewRef(Py_None);
    else if (item.kind == Item::one)
      entry = PyLong_FromLongLong(item.start);
    else
      entry = Py_BuildValue("(LLL)", (long long)item.start, (long long)item.count, (long long)item.step);
    if (entry == nullptr)
      Py_CLEAR(entries);
    else
      PyTuple_SET_ITEM(entries, i, entry);
  }
  PyObject* params = entries == nullptr ? nullptr : PyDict_New();
  if (params != nullptr && PyDict_SetItem(params, str_index, entries) < 0) Py_CLEAR(params);
  Py_XDECREF(entries);
  return params;
}

PyObject* index_view(Tensor* t, const Index& x) { return as_object(tensor_view(t, x.data, x.ndim, x.shape, x.strides)); }

namespace {

// The view of params["index"], for the row; whatever the entries are, the view stays inside the tensor.
PyObject* py_index_view(PyObject*, PyObject* args) {
  PyObject *o, *entries;
  if (!PyArg_ParseTuple(args, "OO!:index_view", &o, &PyTuple_Type, &entries)) return nullptr;
  if (!is_tensor(o) || as_tensor(o)->storage == nullptr) return PyErr_SetString(PyExc_TypeError, "index_view: needs a Tensor with a value"), nullptr;
  Tensor* t = as_tensor(o);
  int64_t shape[kDimsMax], strides[kDimsMax];
  int ndim = 0, d = 0;
  char* data = t->data;
  const int64_t size = int64_t(dtype_size(t->dtype));
  bool good = true;
  for (Py_ssize_t i = 0; good && i < PyTuple_GET_SIZE(entries); ++i) {
    PyObject* entry = PyTuple_GET_ITEM(entries, i);
    long long start = 0, count = 1, step = 1;
    if (entry == Py_None) {
      good = ndim < kDimsMax;
      if (good) {
        shape[ndim] = 1;
        strides[ndim++] = 0;
      }
      continue;
    }
    good = d < t->ndim;
    if (!good) break;
    const int64_t n = t->shape()[d], stride = t->strides()[d];
    if (PyLong_Check(entry)) {
      start = PyLong_AsLongLong(entry);
      good = start >= 0 && start < n;
    } else {
      good = PyTuple_Check(entry) && PyArg_ParseTuple(entry, "LLL", &start, &count, &step) != 0;
      if (!good) break;
      const __int128 last = __int128(start) + __int128(count - 1) * step;
      good = count >= 0 && (count == 0 || (start >= 0 && start < n && last >= 0 && last < n)) && ndim < kDimsMax;
      if (good) {
        shape[ndim] = count;
        strides[ndim++] = count > 1 ? stride * step : stride;
      }
    }
    if (good && count > 0) data += start * stride * size;
    ++d;
  }
  if (!good || d != t->ndim) {
    PyErr_Clear();
    PyErr_Format(PyExc_IndexError, "index: %R does not fit the tensor", entries);
    return nullptr;
  }
  if (!shape_fits("index", t->dtype, ndim, shape)) return nullptr;
  return as_object(tensor_view(t, data, ndim, shape, strides));
}

PyMethodDef functions[] = {
    {"index_view", py_index_view, METH_VARARGS,
     "index_view($module, x, index, /)\n--\n\nThe view that the row `index` makes: an int, (start, count, step) a dimension, None for a new one."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyObject* tensor_subscript(PyObject* self, PyObject* key) {
  Tensor* t = as_tensor(self);
  if (is_tensor(key)) {
    PyObject* picked = pick_rows(t, as_tensor(key));
    if (picked != nullptr || PyErr_Occurred()) return picked;
  }
  Index x;
  const int parsed = index_parse(t, key, &x);
  if (parsed < 0) return nullptr;
  if (parsed == 0) {
    PyObject* arguments[] = {self, key};
    return call_python("tensor.functions.indexing", "get", arguments, 2);
  }
  const bool traced = (t->flags & kTraced) != 0 || t->storage == nullptr;
  if (!traced && !wants_record(&t, 1)) return index_view(t, x);
  PyObject* params = index_params(x);
  PyObject* primitive = params == nullptr ? nullptr : row("index");
  PyObject* out = nullptr;
  if (primitive != nullptr && traced) {
    PyObject* inputs = PyTuple_Pack(1, self);
    out = inputs == nullptr ? nullptr : apply_primitive(primitive, inputs, params);
    Py_XDECREF(inputs);
  } else if (primitive != nullptr) {
    out = index_view(t, x);
    Tensor* made = as_tensor(out);
    if (out != nullptr && record(primitive, &t, 1, params, &made, 1) < 0) Py_CLEAR(out);
  }
  Py_XDECREF(params);
  return out;
}

Py_ssize_t tensor_length(PyObject* self) {
  if (as_tensor(self)->ndim == 0) {
    PyErr_SetString(PyExc_TypeError, "len: a tensor without dimensions has no length");
    return -1;
  }
  return as_tensor(self)->shape()[0];
}

PyObject* tensor_sequence_item(PyObject* self, Py_ssize_t i) {
  Tensor* t = as_tensor(self);
  if (t->ndim == 0 || i < 0 || i >= t->shape()[0]) {
    PyErr_SetString(PyExc_IndexError, "index: out of range");
    return nullptr;
  }
  PyObject* key = PyLong_FromSsize_t(i);
  PyObject* out = key == nullptr ? nullptr : tensor_subscript(self, key);
  Py_XDECREF(key);
  return out;
}

PyObject* tensor_iterate(PyObject* self) {
  if (as_tensor(self)->ndim == 0) {
    PyErr_SetString(PyExc_TypeError, "iteration over a tensor without dimensions");
    return nullptr;
  }
  return PySeqIter_New(self);
}

int tensor_contains(PyObject* self, PyObject* value) {
  PyObject* arguments[] = {self, value};
  PyObject* found = call_python("tensor.functions.operators", "contains", arguments, 2);
  if (found == nullptr) return -1;
  const int yes = PyObject_IsTrue(found);
  Py_DECREF(found);
  return yes;
}

PyMethodDef indexing_methods[] = {{nullptr, nullptr, 0, nullptr}};

int init_indexing(PyObject* module) {
  str_index = PyUnicode_InternFromString("index");
  return add_functions(module, functions);
}

}  // namespace droveway