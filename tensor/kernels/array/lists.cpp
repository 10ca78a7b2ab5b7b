// Tensors of nested lists. They are read twice, and what is asked of their elements may change them in between.
#include "array.hpp"

namespace droveway {

namespace {

struct Lists {
  int ndim = 0;
  int64_t shape[kDimsMax];
  bool any = false;
  Dtype widest = Dtype::boolean;  // of boolean, i64, f32, c64
};

bool has_dimensions(PyObject* o) {
  if (is_tensor(o)) return as_tensor(o)->ndim != 0 || !plain(as_tensor(o));  // one with history keeps it
  if (is_scalar(o) || PyList_Check(o) || PyTuple_Check(o)) return false;
  PyObject* ndim = PyObject_GetAttrString(o, "ndim");
  const long dims = ndim == nullptr ? 0 : PyLong_AsLong(ndim);
  Py_XDECREF(ndim);
  PyErr_Clear();
  return dims > 0;
}

// Element i of a list that had n elements; what is asked of elements (.item(), .ndim) may change the list. New reference.
PyObject* element_of(PyObject* list, Py_ssize_t i, Py_ssize_t n) {
  if (PySequence_Fast_GET_SIZE(list) == n) return Py_NewRef(PySequence_Fast_GET_ITEM(list, i));
  PyErr_Format(PyExc_RuntimeError, "asarray: a list of %zd elements has %zd after some were read", n, PySequence_Fast_GET_SIZE(list));
  return nullptr;
}

// 0; 1 once it meets an array with dimensions, which ends the survey; −1 with an error set.
int survey(PyObject* o, int depth, Lists* lists) {
  if (has_dimensions(o)) return 1;
  if (is_list(o)) {
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
    if (depth == kDimsMax) {
      raise_error("ShapeError", "asarray: lists are nested more than %d deep", kDimsMax);
      return -1;
    }
    if (lists->any || depth < lists->ndim) {
      if (depth >= lists->ndim || lists->shape[depth] != n) {
        raise_error("ShapeError", "asarray: lists of one level must have one length: expected %lld elements, got %zd",
                    depth < lists->ndim ? (long long)lists->shape[depth] : 0LL, n);
        return -1;
      }
    } else {
      lists->shape[depth] = n;
      lists->ndim = depth + 1;
      if (n == 0) lists->any = true;  // nothing further down can add a dimension
    }
    for (Py_ssize_t i = 0; i < n; ++i) {
      PyObject* one = element_of(o, i, n);
      if (one == nullptr) return -1;
      const int done = survey(one, depth + 1, lists);
      Py_DECREF(one);
      if (done != 0) return done;
    }
    return 0;
  }
  if (depth != lists->ndim) {
    raise_error("ShapeError", "asarray: lists of one level must have one depth: expected a list, got %R", o);
    return -1;
  }
  lists->any = true;
  Dtype d;
  if (is_scalar(o)) {
    d = default_dtype(o);
  } else if (is_tensor(o)) {
    const Dtype own = as_tensor(o)->dtype;
    d = own == Dtype::boolean ? own : is_int(own) ? Dtype::i64 : is_complex(own) ? Dtype::c64 : Dtype::f32;
  } else {
    PyObject* value = PyObject_CallMethod(o, "item", nullptr);
    if (value == nullptr || !is_scalar(value)) {
      Py_XDECREF(value);
      PyErr_Clear();
      raise_error("DtypeError", "asarray: an element must be a number, got %.100s", Py_TYPE(o)->tp_name);
      return -1;
    }
    d = default_dtype(value);
    Py_DECREF(value);
  }
  if (d > lists->widest) lists->widest = d;
  return 0;
}

// Writes the elements one after the other; their number and depth are checked again.
int write(PyObject* o, int depth, const Lists& lists, Dtype d, char** to) {
  if (is_list(o) != (depth < lists.ndim)) {
    PyErr_SetString(PyExc_RuntimeError, "asarray: a list was changed while it was read");
    return -1;
  }
  if (depth < lists.ndim) {
    const Py_ssize_t n = lists.shape[depth];
    if (n == 0) return PySequence_Fast_GET_SIZE(o) == 0 ? 0 : (element_of(o, 0, 0), -1);
    for (Py_ssize_t i = 0; i < n; ++i) {
      PyObject* one = element_of(o, i, n);
      const int done = one == nullptr ? -1 : write(one, depth + 1, lists, d, to);
      Py_XDECREF(one);
      if (done < 0) return -1;
    }
    return 0;
  }
  char* element = *to;
  *to += dtype_size(d);
  if (is_scalar(o)) return scalar_into(o, d, element);
  PyObject* value = PyObject_CallMethod(o, "item", nullptr);
  if (value == nullptr) return -1;
  const int done = scalar_into(value, d, element);
  Py_DECREF(value);
  return done;
}

}  // namespace

PyObject* from_lists(PyObject* value, const Dtype* wanted, PyObject* device, DeviceKind kind) {
  Lists lists;
  const int surveyed = survey(value, 0, &lists);
  if (surveyed < 0) return nullptr;
  if (surveyed == 1) {
    PyObject* arguments[] = {value};
    PyObject* stacked = call_python("tensor.functions.creation", "stack_nested", arguments, 1);
    if (stacked == nullptr) return nullptr;
    PyObject* result = asarray(stacked, wanted == nullptr ? nullptr : dtype_object(*wanted), device, -1);
    Py_DECREF(stacked);
    return result;
  }
  Dtype d = wanted != nullptr ? *wanted : lists.any && lists.ndim > 0 && lists.shape[lists.ndim - 1] == 0 ? Dtype::f32 : lists.widest;
  Tensor* t = tensor_empty(d, lists.ndim, lists.shape, kind, "asarray");
  if (t == nullptr) return nullptr;
  char* to = t->data;
  if (write(value, 0, lists, d, &to) < 0) Py_CLEAR(t);
  return as_object(t);
}

}  // namespace droveway
