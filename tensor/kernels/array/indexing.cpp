// x[…] and x[…] = v. Ints, slices, None and … make views here; integer and boolean tensors go to tensor.functions.indexing.
#include <initializer_list>
#include <string.h>

#include "array.hpp"
#include "methods.hpp"

namespace droveway {

namespace {

PyObject* str_index;

struct Item {  // one entry of an index, as the row `index` has it in its params
  enum Kind : uint8_t { whole, slice, one, fresh } kind;
  int64_t start, count, step;
};

struct Index {
  int items = 0;  // over all of the tensor's dimensions; `fresh` ones in between
  Item item[2 * kDimsMax];
  char* data;
  int ndim = 0;
  int64_t shape[kDimsMax], strides[kDimsMax];
};

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

// 1: done; 0: advanced; −1: error.
int parse(const Tensor* t, PyObject* key, Index* x) {
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

// The index as the row `index` has it: per entry an int, (start, count, step), or None for a new dimension.
PyObject* params_of(const Index& x) {
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

PyObject* raw_view(Tensor* t, const Index& x) { return as_object(tensor_view(t, x.data, x.ndim, x.shape, x.strides)); }

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
      if (!PyTuple_Check(entry) || !PyArg_ParseTuple(entry, "LLL", &start, &count, &step)) return nullptr;
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
    if (!PyErr_Occurred()) PyErr_Format(PyExc_IndexError, "index: %R does not fit the tensor", entries);
    return nullptr;
  }
  return as_object(tensor_view(t, data, ndim, shape, strides));
}

// assign(x, value): x's elements become those of value, broadcast and cast.
PyObject* py_assign(PyObject*, PyObject* args) {
  PyObject *o, *value;
  if (!PyArg_ParseTuple(args, "OO:assign", &o, &value)) return nullptr;
  if (!is_tensor(o)) return PyErr_SetString(PyExc_TypeError, "assign: needs a Tensor"), nullptr;
  if (assign_into(as_tensor(o), value, "assign") < 0) return nullptr;
  Py_RETURN_NONE;
}

// shadow(x): the same elements and history as another object, for operations in place that are said functionally.
PyObject* py_shadow(PyObject*, PyObject* o) {
  if (!is_tensor(o) || as_tensor(o)->storage == nullptr) return PyErr_SetString(PyExc_TypeError, "shadow: needs a Tensor with a value"), nullptr;
  Tensor* t = as_tensor(o);
  storage_incref(t->storage);
  Tensor* out = tensor_over(t->storage, t->data, t->dtype, t->ndim, t->shape(), t->strides());
  if (out == nullptr) return nullptr;
  out->device = t->device;
  out->flags = t->flags & kRequiresGrad;
  out->node = Py_XNewRef(t->node);
  out->output_index = t->output_index;
  return as_object(out);
}

// adopt(x, y): x takes over y's elements and history.
PyObject* py_adopt(PyObject*, PyObject* args) {
  PyObject *a, *b;
  if (!PyArg_ParseTuple(args, "O!O!:adopt", tensor_type, &a, tensor_type, &b)) return nullptr;
  Tensor *x = as_tensor(a), *y = as_tensor(b);
  if (y->node == nullptr) return PyErr_SetString(PyExc_ValueError, "adopt: the second tensor has no history"), nullptr;
  PyObject* node = Py_NewRef(y->node);
  const uint32_t output = y->output_index;
  const int done = assign_into(x, b, "in place", false);
  if (done < 0) {
    Py_DECREF(node);
    return nullptr;
  }
  PyObject* before = x->node;
  x->node = node;
  x->output_index = output;
  Py_XDECREF(before);
  Py_RETURN_NONE;
}

// in_place_check(x, result_wants_gradient): raises what x[...] = y raises.
PyObject* py_in_place_check(PyObject*, PyObject* args) {
  PyObject* o;
  int wants;
  if (!PyArg_ParseTuple(args, "O!p:in_place_check", tensor_type, &o, &wants)) return nullptr;
  if (in_place_allowed(as_tensor(o), wants != 0, "x[...] = y") < 0) return nullptr;
  Py_RETURN_NONE;
}

// Rows of x (its first dimension) by a list of int64: out[i] = x[index[i]] and the reverse.
bool rows_arguments(PyObject* args, const char* name, Tensor** big, Tensor** index, Tensor** small) {
  PyObject *a, *b, *c;
  if (!PyArg_ParseTuple(args, "OOO", &a, &b, &c)) return false;
  for (PyObject* o : {a, b, c})
    if (!is_tensor(o) || as_tensor(o)->storage == nullptr) {
      PyErr_Format(PyExc_TypeError, "%s: needs Tensors", name);
      return false;
    }
  *big = as_tensor(a);
  *index = as_tensor(b);
  *small = as_tensor(c);
  bool good = (*index)->dtype == Dtype::i64 && (*index)->ndim == 1 && (*big)->ndim >= 1 && (*small)->ndim == (*big)->ndim &&
              (*small)->dtype == (*big)->dtype && (*small)->shape()[0] == (*index)->shape()[0];
  for (int d = 1; good && d < (*big)->ndim; ++d) good = (*big)->shape()[d] == (*small)->shape()[d];
  if (!good) {
    raise_error("ShapeError", "%s: shapes or dtypes do not fit together", name);
    return false;
  }
  const int64_t n = (*big)->shape()[0], step = (*index)->strides()[0];
  for (int64_t i = 0; i < (*index)->shape()[0]; ++i) {
    const int64_t at = reinterpret_cast<const int64_t*>((*index)->data)[i * step];
    if (at < 0 || at >= n) {
      PyErr_Format(PyExc_IndexError, "index: %lld is out of range for %lld elements", (long long)at, (long long)n);
      return false;
    }
  }
  return true;
}

template <bool Take>
PyObject* move_rows(PyObject* args) {
  Tensor *big, *index, *small;
  if (!rows_arguments(args, Take ? "take_rows" : "put_rows", &big, &index, &small)) return nullptr;
  if (!Take && (big->storage->read_only)) return raise_error("ReadOnlyError", "put_rows: the tensor looks at read-only memory");
  const int64_t size = int64_t(dtype_size(big->dtype)), step = index->strides()[0], count = index->shape()[0];
  View a = view_of(big), b = view_of(small);
  --a.ndim, --b.ndim;
  ++a.shape, ++b.shape;
  const int64_t a_step = *a.strides++ * size, b_step = *b.strides++ * size;
  const bool flat = view_contiguous(a) && view_contiguous(b);
  const size_t bytes = size_t(view_size(a) * size);
  if (!Take) ++big->storage->version;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = reinterpret_cast<const int64_t*>(index->data)[i * step];
    a.data = big->data + at * a_step;
    b.data = small->data + i * b_step;
    if (flat)
      memcpy(Take ? b.data : a.data, Take ? a.data : b.data, bytes);
    else
      copy_elements(Take ? b : a, Take ? a : b);
  }
  Py_RETURN_NONE;
}
PyObject* py_take_rows(PyObject*, PyObject* args) { return move_rows<true>(args); }
PyObject* py_put_rows(PyObject*, PyObject* args) { return move_rows<false>(args); }

// wrap_index(i, n, d): an integer tensor as int64 in C order, counted from the front; IndexError where it leaves n.
PyObject* py_wrap_index(PyObject*, PyObject* args) {
  PyObject* o;
  long long n, dimension;
  if (!PyArg_ParseTuple(args, "O!LL:wrap_index", tensor_type, &o, &n, &dimension)) return nullptr;
  Tensor* t = as_tensor(o);
  if (t->storage == nullptr || !is_int(t->dtype)) return PyErr_SetString(PyExc_TypeError, "wrap_index: needs a tensor of integers"), nullptr;
  Tensor* out = tensor_empty(Dtype::i64, t->ndim, t->shape(), t->device, "index");
  if (out == nullptr) return nullptr;
  Tensor* whole = t;  // in C order
  if (!view_contiguous(view_of(t))) {
    whole = tensor_empty(t->dtype, t->ndim, t->shape(), t->device, "index");
    if (whole == nullptr) return Py_DECREF(out), nullptr;
    copy_elements(view_of(whole), view_of(t));
  }
  const int64_t count = view_size(view_of(t));
  int64_t* to = reinterpret_cast<int64_t*>(out->data);
  const char* from = whole->data;
  bool good = true;
  for (int64_t k = 0; good && k < count; ++k) {
    int64_t i = 0;
    bool huge = false;
    switch (t->dtype) {
      case Dtype::i8: i = reinterpret_cast<const int8_t*>(from)[k]; break;
      case Dtype::i16: i = reinterpret_cast<const int16_t*>(from)[k]; break;
      case Dtype::i32: i = reinterpret_cast<const int32_t*>(from)[k]; break;
      case Dtype::i64: i = reinterpret_cast<const int64_t*>(from)[k]; break;
      case Dtype::u8: i = reinterpret_cast<const uint8_t*>(from)[k]; break;
      case Dtype::u16: i = reinterpret_cast<const uint16_t*>(from)[k]; break;
      case Dtype::u32: i = reinterpret_cast<const uint32_t*>(from)[k]; break;
      default:
        i = reinterpret_cast<const int64_t*>(from)[k];
        huge = i < 0;
    }
    good = !huge && i >= -n && i < n;
    to[k] = i < 0 ? i + n : i;
    if (!good) {
      PyObject* value = huge ? PyLong_FromUnsignedLongLong(uint64_t(i)) : PyLong_FromLongLong(i);
      if (value != nullptr) PyErr_Format(PyExc_IndexError, "index: %R is out of range for dimension %lld of %lld elements", value, dimension, n);
      Py_XDECREF(value);
    }
  }
  if (whole != t) Py_DECREF(whole);
  if (!good) Py_CLEAR(out);
  return as_object(out);
}

// true_positions(mask): the positions of the true elements in row-major order, one int64[n] a dimension.
PyObject* py_true_positions(PyObject*, PyObject* o) {
  if (!is_tensor(o) || as_tensor(o)->storage == nullptr || as_tensor(o)->dtype != Dtype::boolean)
    return PyErr_SetString(PyExc_TypeError, "true_positions: needs a boolean tensor"), nullptr;
  Tensor* t = as_tensor(o);
  Tensor* whole = tensor_empty(t->dtype, t->ndim, t->shape(), t->device, "index");
  if (whole == nullptr) return nullptr;
  copy_elements(view_of(whole), view_of(t));
  const int64_t size = view_size(view_of(t));
  int64_t count = 0;
  for (int64_t k = 0; k < size; ++k) count += whole->data[k] != 0;
  PyObject* columns = PyTuple_New(t->ndim);
  int64_t* to[kDimsMax];
  for (int d = 0; columns != nullptr && d < t->ndim; ++d) {
    Tensor* column = tensor_empty(Dtype::i64, 1, &count, t->device, "index");
    if (column == nullptr) {
      Py_CLEAR(columns);
    } else {
      PyTuple_SET_ITEM(columns, d, as_object(column));
      to[d] = reinterpret_cast<int64_t*>(column->data);
    }
  }
  int64_t index[kDimsMax] = {};
  for (int64_t k = 0, at = 0; columns != nullptr && k < size; ++k) {
    if (whole->data[k] != 0) {
      for (int d = 0; d < t->ndim; ++d) to[d][at] = index[d];
      ++at;
    }
    for (int d = t->ndim - 1; d >= 0 && ++index[d] == t->shape()[d]; --d) index[d] = 0;
  }
  Py_DECREF(whole);
  return columns;
}

PyMethodDef functions[] = {
    {"wrap_index", py_wrap_index, METH_VARARGS,
     "wrap_index($module, index, n, dimension, /)\n--\n\nIntegers as int64 counted from the front of n; IndexError outside."},
    {"true_positions", py_true_positions, METH_O,
     "true_positions($module, mask, /)\n--\n\nWhere a boolean tensor is true, row-major: a tuple of int64[n], one a dimension."},
    {"index_view", py_index_view, METH_VARARGS,
     "index_view($module, x, index, /)\n--\n\nThe view that the row `index` makes: an int, (start, count, step) a dimension, None for a new one."},
    {"assign", py_assign, METH_VARARGS, "assign($module, x, value, /)\n--\n\nx's elements become those of value, broadcast and cast."},
    {"shadow", py_shadow, METH_O, "shadow($module, x, /)\n--\n\nAnother Tensor over the same elements with the same history."},
    {"adopt", py_adopt, METH_VARARGS, "adopt($module, x, y, /)\n--\n\nx takes over the elements and the history of y."},
    {"in_place_check", py_in_place_check, METH_VARARGS,
     "in_place_check($module, x, wants_gradient, /)\n--\n\nRaises what a change of x in place would raise."},
    {"take_rows", py_take_rows, METH_VARARGS, "take_rows($module, x, index, out, /)\n--\n\nout[i] = x[index[i]]; index int64[n], from the front."},
    {"put_rows", py_put_rows, METH_VARARGS, "put_rows($module, x, index, values, /)\n--\n\nx[index[i]] = values[i], in order; index int64[n], from the front."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

// x[tensor] where nothing follows x: rows of its first dimensions, picked by integers or by a boolean tensor. nullptr
// without error: not from here.
static PyObject* pick_rows(Tensor* t, Tensor* key) {
  const bool mask = key->dtype == Dtype::boolean;
  if ((!mask && !is_int(key->dtype)) || key->ndim == 0 || key->storage == nullptr || (key->flags & kTraced) != 0 ||
      (t->flags & kTraced) != 0 || t->storage == nullptr || t->ndim == 0 || wants_record(&t, 1))
    return nullptr;
  const int leading = mask ? key->ndim : 1;
  if (leading > t->ndim || t->ndim - leading + (mask ? 1 : key->ndim) > kDimsMax) return nullptr;
  if (mask && memcmp(key->shape(), t->shape(), size_t(leading) * sizeof(int64_t)) != 0) return nullptr;
  // the leading dimensions as one, of n rows `step` elements apart
  int64_t n = 1, step = t->strides()[leading - 1];
  for (int d = leading - 1; d >= 0; --d) {
    if (t->shape()[d] != 1 && n != 1 && t->strides()[d] != step * n) return nullptr;
    if (n == 1) step = t->strides()[d];
    n *= t->shape()[d];
  }
  PyObject* flat;
  int64_t shape[kDimsMax];
  int ndim;
  int64_t count;
  if (mask) {
    const View v = view_of(key);
    PyObject* whole = view_contiguous(v) ? Py_NewRef(as_object(key)) : PyObject_CallMethod(as_object(key), "contiguous", nullptr);
    if (whole == nullptr) return nullptr;
    const char* truth = as_tensor(whole)->data;
    count = 0;
    for (int64_t k = 0; k < n; ++k) count += truth[k] != 0;
    Tensor* positions = tensor_empty(Dtype::i64, 1, &count, t->device, "index");
    if (positions != nullptr) {
      int64_t* to = reinterpret_cast<int64_t*>(positions->data);
      for (int64_t k = 0; k < n; ++k)
        if (truth[k] != 0) *to++ = k;
    }
    Py_DECREF(whole);
    flat = as_object(positions);
    shape[0] = count;
    ndim = 1;
  } else {
    PyObject* arguments = Py_BuildValue("(OLL)", as_object(key), (long long)n, 0LL);
    flat = arguments == nullptr ? nullptr : py_wrap_index(nullptr, arguments);
    Py_XDECREF(arguments);
    ndim = key->ndim;
    for (int d = 0; d < ndim; ++d) shape[d] = key->shape()[d];
    count = view_size(view_of(key));
  }
  if (flat == nullptr) return nullptr;
  for (int d = leading; d < t->ndim; ++d) shape[ndim++] = t->shape()[d];
  Tensor* out = tensor_empty(t->dtype, ndim, shape, t->device, "index");
  if (out != nullptr) {
    View from = view_of(t), to = view_of(out);
    from.shape += leading;
    from.strides += leading;
    from.ndim -= leading;
    to.shape += ndim - from.ndim;
    to.strides += ndim - from.ndim;
    to.ndim = from.ndim;
    const int64_t size = int64_t(dtype_size(t->dtype)), bytes = view_size(from) * size;
    const bool whole = view_contiguous(from);
    const int64_t* at = reinterpret_cast<const int64_t*>(as_tensor(flat)->data);
    for (int64_t k = 0; k < count && bytes != 0; ++k, to.data += bytes) {
      from.data = t->data + at[k] * step * size;
      if (whole)
        memcpy(to.data, from.data, size_t(bytes));
      else
        copy_elements(to, from);
    }
  }
  Py_DECREF(flat);
  return as_object(out);
}

PyObject* tensor_subscript(PyObject* self, PyObject* key) {
  Tensor* t = as_tensor(self);
  if (is_tensor(key)) {
    PyObject* picked = pick_rows(t, as_tensor(key));
    if (picked != nullptr || PyErr_Occurred()) return picked;
  }
  Index x;
  const int parsed = parse(t, key, &x);
  if (parsed < 0) return nullptr;
  if (parsed == 0) {
    PyObject* arguments[] = {self, key};
    return call_python("tensor.functions.indexing", "get", arguments, 2);
  }
  const bool traced = (t->flags & kTraced) != 0 || t->storage == nullptr;
  if (!traced && !wants_record(&t, 1)) return raw_view(t, x);
  PyObject* params = params_of(x);
  PyObject* primitive = params == nullptr ? nullptr : row("index");
  PyObject* out = nullptr;
  if (primitive != nullptr && traced) {
    PyObject* inputs = PyTuple_Pack(1, self);
    out = inputs == nullptr ? nullptr : apply_primitive(primitive, inputs, params);
    Py_XDECREF(inputs);
  } else if (primitive != nullptr) {
    out = raw_view(t, x);
    Tensor* made = as_tensor(out);
    if (out != nullptr && record(primitive, &t, 1, params, &made, 1) < 0) Py_CLEAR(out);
  }
  Py_XDECREF(params);
  return out;
}

int assign_into(Tensor* target, PyObject* value, const char* what, bool check) {
  if (check && in_place_allowed(target, false, what) < 0) return -1;
  if (is_scalar(value) && (scalar_fits_kind(value, target->dtype) || PyBool_Check(value) || target->dtype == Dtype::boolean)) {
    alignas(16) char element[16];
    if (scalar_into(value, target->dtype, element) < 0) return -1;
    fill_elements(view_of(target), element);
    ++target->storage->version;
    return 0;
  }
  PyObject* source = nullptr;
  if (is_tensor(value) && as_tensor(value)->dtype == target->dtype) {
    source = Py_NewRef(value);
  } else {
    PyObject* arguments[] = {value, dtype_object(target->dtype)};
    source = call_python("tensor.functions.operators", "operand_to_assign", arguments, 2);
    if (source == nullptr) return -1;
  }
  Tensor* s = as_tensor(source);
  if (!is_tensor(source) || (s->flags & kTraced) != 0 || s->storage == nullptr || s->dtype != target->dtype) {
    PyErr_Format(PyExc_TypeError, "%s: a traced tensor cannot be written into one that is not", what);
    Py_DECREF(source);
    return -1;
  }
  int skip = target->ndim - s->ndim;
  int64_t strides[kDimsMax];
  bool fits = true;
  int leading = 0;  // leading dimensions of size 1 more than the target has
  while (skip < 0 && s->shape()[leading] == 1) ++leading, ++skip;
  fits = skip >= 0;
  for (int d = 0; fits && d < target->ndim; ++d) {
    const int k = d - skip + leading;
    const bool repeated = d < skip || s->shape()[k] == 1;
    strides[d] = repeated ? 0 : s->strides()[k];
    fits = repeated || s->shape()[k] == target->shape()[d];
  }
  int done = -1;
  if (!fits) {
    PyObject *from = shape_tuple(s->ndim, s->shape()), *to = shape_tuple(target->ndim, target->shape());
    if (from != nullptr && to != nullptr) raise_error("ShapeError", "%s: values of shape %R do not broadcast to %R", what, from, to);
    Py_XDECREF(from);
    Py_XDECREF(to);
  } else {
    View to = view_of(target), from{s->data, s->dtype, target->ndim, target->shape(), strides};
    Tensor* copy = nullptr;
    done = 0;
    if (s->storage == target->storage || s->storage->size_class == 255 || target->storage->size_class == 255) {
      if (views_may_overlap(to, from) && !views_equal(to, from)) {  // as if the source were copied
        copy = tensor_empty(s->dtype, target->ndim, target->shape(), s->device, what);
        if (copy == nullptr) {
          done = -1;
        } else {
          copy_elements(view_of(copy), from);
          from = view_of(copy);
        }
      }
    }
    if (done == 0 && !views_equal(to, from)) copy_elements(to, from);
    ++target->storage->version;
    Py_XDECREF(copy);
  }
  Py_DECREF(source);
  return done;
}

int tensor_assign(PyObject* self, PyObject* key, PyObject* value) {
  if (value == nullptr) return PyErr_SetString(PyExc_TypeError, "index: elements of a tensor cannot be deleted"), -1;
  Tensor* t = as_tensor(self);
  Index x;
  const int parsed = parse(t, key, &x);
  if (parsed < 0) return -1;
  if (parsed == 0) {
    PyObject* arguments[] = {self, key, value};
    PyObject* done = call_python("tensor.functions.indexing", "put", arguments, 3);
    Py_XDECREF(done);
    return done == nullptr ? -1 : 0;
  }
  Tensor* wanting[2] = {t, is_tensor(value) ? as_tensor(value) : t};
  const bool recorded = wants_record(wanting, 2);
  if (in_place_allowed(t, recorded, "x[...] = y") < 0) return -1;
  PyObject* view = raw_view(t, x);
  if (view == nullptr) return -1;
  int done = -1;
  if (!recorded) {
    done = assign_into(as_tensor(view), value, "x[...] = y", false);
  } else {
    PyObject* arguments[] = {value, dtype_object(t->dtype)};
    PyObject* source = call_python("tensor.functions.operators", "operand_to_assign", arguments, 2);
    PyObject* params = source == nullptr ? nullptr : params_of(x);
    PyObject* primitive = params == nullptr ? nullptr : row("index_update");
    Tensor* old = nullptr;
    if (primitive != nullptr) {
      storage_incref(t->storage);
      old = tensor_over(t->storage, t->data, t->dtype, t->ndim, t->shape(), t->strides());
    }
    if (old != nullptr) {
      old->device = t->device;
      old->node = Py_XNewRef(t->node);
      old->output_index = t->output_index;
      old->flags = t->flags & kRequiresGrad;
      done = assign_into(as_tensor(view), source, "x[...] = y", false);
      Tensor* in[2] = {old, as_tensor(source)};
      if (done == 0) done = record(primitive, in, 2, params, &t, 1);
    }
    Py_XDECREF(old);
    Py_XDECREF(params);
    Py_XDECREF(source);
  }
  Py_DECREF(view);
  return done;
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
