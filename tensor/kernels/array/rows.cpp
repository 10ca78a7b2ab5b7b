// Rows of a tensor by a list of numbers: taken, put, picked by x[tensor].
#include <initializer_list>
#include <string.h>

#include "array.hpp"
#include "index.hpp"

namespace droveway {

namespace {

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
  if ((Take ? small : big)->storage->read_only)
    return raise_error("ReadOnlyError", "%s: the tensor looks at read-only memory", Take ? "take_rows" : "put_rows");
  const int64_t size = int64_t(dtype_size(big->dtype)), step = index->strides()[0], count = index->shape()[0];
  View a = view_of(big), b = view_of(small);
  --a.ndim, --b.ndim;
  ++a.shape, ++b.shape;
  const int64_t a_step = *a.strides++ * size, b_step = *b.strides++ * size;
  const bool flat = view_contiguous(a) && view_contiguous(b);
  const size_t bytes = size_t(view_size(a) * size);
  if (!Take) ++big->storage->version;
  const int64_t n = big->shape()[0];
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = reinterpret_cast<const volatile int64_t*>(index->data)[i * step];
    if (at < 0 || at >= n) {  // what is written, or another thread, has changed the index
      PyErr_Format(PyExc_IndexError, "index: %lld is out of range for %lld elements", (long long)at, (long long)n);
      return nullptr;
    }
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
    {"take_rows", py_take_rows, METH_VARARGS, "take_rows($module, x, index, out, /)\n--\n\nout[i] = x[index[i]]; index int64[n], from the front."},
    {"put_rows", py_put_rows, METH_VARARGS, "put_rows($module, x, index, values, /)\n--\n\nx[index[i]] = values[i], in order; index int64[n], from the front."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyObject* pick_rows(Tensor* t, Tensor* key) {
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

int init_rows(PyObject* module) { return add_functions(module, functions); }

}  // namespace droveway
