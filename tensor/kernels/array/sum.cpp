// x.sum(): the commonest reduction, straight to its kernel; what is not usual goes to tensor.sum.
#include "array.hpp"
#include "in_use.hpp"
#include "methods.hpp"
#include "running.hpp"

namespace droveway {

namespace {

PyObject *str_axis, *str_keepdims;

// The axes as bits, and in the order of rising dimensions as row `sum` has them. False: leave it to Python.
bool axes_from(PyObject* axis, int ndim, uint32_t* mask) {
  *mask = 0;
  if (axis == nullptr || axis == Py_None) {
    *mask = (1u << ndim) - 1;
    return true;
  }
  PyObject* const* items = &axis;
  Py_ssize_t count = 1;
  if (PyTuple_Check(axis)) {
    items = &PyTuple_GET_ITEM(axis, 0);
    count = PyTuple_GET_SIZE(axis);
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!PyLong_CheckExact(items[i])) return false;
    const long a = PyLong_AsLong(items[i]);
    if (a < -ndim || a >= ndim || PyErr_Occurred()) {
      PyErr_Clear();
      return false;
    }
    const int d = int(a < 0 ? a + ndim : a);
    if ((*mask >> d & 1) != 0) return false;
    *mask |= 1u << d;
  }
  return true;
}

PyObject* params_of(uint32_t mask, int ndim, bool keepdims) {
  PyObject* axes = PyTuple_New(__builtin_popcount(mask));
  for (int d = 0, k = 0; axes != nullptr && d < ndim; ++d)
    if ((mask >> d & 1) != 0) PyTuple_SET_ITEM(axes, k++, PyLong_FromLong(d));
  PyObject* params = axes == nullptr ? nullptr : PyDict_New();
  if (params != nullptr && (PyDict_SetItem(params, str_axis, axes) < 0 || PyDict_SetItem(params, str_keepdims, keepdims ? Py_True : Py_False) < 0))
    Py_CLEAR(params);
  Py_XDECREF(axes);
  return params;
}

PyObject* elsewhere(PyObject* self, PyObject* axis, PyObject* dtype, PyObject* keepdims) {
  PyObject* arguments[] = {self, axis, dtype, keepdims};
  return call_python("tensor.methods", "sum_method", arguments, 4);
}

PyObject* sum(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"axis", "dtype", "keepdims", nullptr};
  PyObject *axis = Py_None, *dtype = Py_None, *keepdims = Py_False;
  if ((PyTuple_GET_SIZE(args) != 0 || kwargs != nullptr) &&
      !PyArg_ParseTupleAndKeywords(args, kwargs, "|O$OO:sum", const_cast<char**>(names), &axis, &dtype, &keepdims))
    return nullptr;
  Tensor* t = as_tensor(self);
  uint32_t mask;
  const TensorTable* table = tensor_kernels();
  if (dtype != Py_None || (keepdims != Py_False && keepdims != Py_True) || (t->flags & kTraced) != 0 || modes.checked || table == nullptr ||
      t->device != DeviceKind::cpu || !axes_from(axis, t->ndim, &mask))
    return elsewhere(self, axis, dtype, keepdims);
  int64_t shape[kDimsMax], kept[kDimsMax], strides[kDimsMax];
  int ndim = 0;
  for (int d = 0; d < t->ndim; ++d) {
    const bool reduced = (mask >> d & 1) != 0;
    kept[d] = reduced ? 1 : t->shape()[d];
    if (!reduced || keepdims == Py_True) shape[ndim++] = kept[d];
  }
  const Dtype result = t->dtype == Dtype::boolean || is_signed_int(t->dtype) ? Dtype::i64 : is_unsigned_int(t->dtype) ? Dtype::u64 : t->dtype;
  Tensor* out = tensor_empty(result, ndim, shape, t->device, "sum");
  if (out == nullptr) return nullptr;
  for (int d = 0, k = 0; d < t->ndim; ++d) {
    const bool reduced = (mask >> d & 1) != 0;
    strides[d] = reduced ? 0 : out->strides()[k];
    if (!reduced || keepdims == Py_True) ++k;
  }
  const View x = view_of(t), to{out->data, result, t->ndim, kept, strides};
  bool good = true;
  if (view_size(x) < (1 << 14))
    table->reduce->reduce(Reduce::sum, x, mask, to, 0.0);
  else
    good = run_unlocked([&] { table->reduce->reduce(Reduce::sum, x, mask, to, 0.0); });
  if (good && wants_record(&t, 1)) {
    PyObject* params = params_of(mask, t->ndim, keepdims == Py_True);
    PyObject* primitive = params == nullptr ? nullptr : row("sum");
    good = primitive != nullptr && record(primitive, &t, 1, params, &out, 1) == 0;
    Py_XDECREF(params);
  }
  if (!good) Py_CLEAR(out);
  return as_object(out);
}

}  // namespace

PyMethodDef sum_methods[] = {
    {"sum", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(sum)), METH_VARARGS | METH_KEYWORDS,
     "sum($self, axis=None, *, dtype=None, keepdims=False)\n--\n\nThe sum over axes, in the fixed order: tensor.sum."},
    {nullptr, nullptr, 0, nullptr},
};

int init_sum(PyObject*) {
  str_axis = PyUnicode_InternFromString("axis");
  str_keepdims = PyUnicode_InternFromString("keepdims");
  return str_axis == nullptr || str_keepdims == nullptr ? -1 : 0;
}

}  // namespace droveway
