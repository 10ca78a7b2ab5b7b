// Changes in place: x[…] = v, assign, and the functional forms of both.
#include <string.h>

#include "array.hpp"
#include "index.hpp"
#include "running.hpp"

namespace droveway {

namespace {

// Whether every element has a place of its own, as far as the strides show: each at least as long as all shorter ones reach.
bool view_distinct(const View& v) {
  if (view_contiguous(v)) return true;
  int64_t steps[kDimsMax], counts[kDimsMax];
  int n = 0;
  for (int d = 0; d < v.ndim; ++d) {
    if (v.shape[d] == 0) return true;
    if (v.shape[d] == 1) continue;
    const int64_t step = v.strides[d] < 0 ? -v.strides[d] : v.strides[d];
    int j = n++;
    for (; j > 0 && steps[j - 1] > step; --j) {
      steps[j] = steps[j - 1];
      counts[j] = counts[j - 1];
    }
    steps[j] = step;
    counts[j] = v.shape[d];
  }
  int64_t reach = 0;
  for (int j = 0; j < n; ++j) {
    if (steps[j] <= reach) return false;
    reach += (counts[j] - 1) * steps[j];
  }
  return true;
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
  return as_object(tensor_alias(as_tensor(o), true));
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
  renew_history(x);
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
// require_current(x, what): raises where x is a view of what got a new history in place.
PyObject* py_require_current(PyObject*, PyObject* args) {
  PyObject* o;
  const char* what;
  if (!PyArg_ParseTuple(args, "O!s:require_current", tensor_type, &o, &what)) return nullptr;
  if (require_current(as_tensor(o), what) < 0) return nullptr;
  Py_RETURN_NONE;
}
PyMethodDef functions[] = {
    {"require_current", py_require_current, METH_VARARGS,
     "require_current($module, x, what, /)\n--\n\nRaises where x is a view of what got a new history in place."},
    {"assign", py_assign, METH_VARARGS, "assign($module, x, value, /)\n--\n\nx's elements become those of value, broadcast and cast."},
    {"shadow", py_shadow, METH_O, "shadow($module, x, /)\n--\n\nAnother Tensor over the same elements with the same history."},
    {"adopt", py_adopt, METH_VARARGS, "adopt($module, x, y, /)\n--\n\nx takes over the elements and the history of y."},
    {"in_place_check", py_in_place_check, METH_VARARGS,
     "in_place_check($module, x, wants_gradient, /)\n--\n\nRaises what a change of x in place would raise."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int in_place_allowed(Tensor* t, bool result_wants_grad, const char* what) {
  if (t->storage == nullptr || (t->flags & kTraced) != 0) {
    PyErr_Format(PyExc_TypeError, "%s: a traced tensor cannot be changed in place (hint: x = x + y instead of x += y)", what);
    return -1;
  }
  if (t->storage->read_only) {
    raise_error("ReadOnlyError", "%s: the tensor looks at read-only memory (hint: .clone())", what);
    return -1;
  }
  if (!view_distinct(view_of(t))) {
    raise_error("ReadOnlyError", "%s: a broadcast view cannot be changed in place: several elements share one place in memory "
                "(hint: .clone())", what);
    return -1;
  }
  if (modes.grad && (t->flags & kRequiresGrad) != 0 && t->node == nullptr) {
    raise_error("GradientError",
                 "%s: a leaf that requires a gradient cannot be changed in place while operations are recorded (hint: with "
                 "tensor.no_grad():)", what);
    return -1;
  }
  const bool shared = t->storage->refs > 1;
  if (result_wants_grad && shared && (t->flags & kIsView) != 0) {
    raise_error("GradientError",
                 "%s: a view that shares its elements cannot get a new history in place (hint: x = x + y instead of x += y, or "
                 ".clone() first)", what);
    return -1;
  }
  if (modes.checked && shared) {
    raise_error("ReadOnlyError", "%s: checked mode: in place on a %s whose elements another tensor shares (hint: .clone())", what,
                (t->flags & kIsView) != 0 ? "view" : "tensor");
    return -1;
  }
  return 0;
}

int assign_into(Tensor* target, PyObject* value, const char* what, bool check) {
  if (check && in_place_allowed(target, false, what) < 0) return -1;
  if (is_scalar(value) && (scalar_fits_kind(value, target->dtype) || PyBool_Check(value) || target->dtype == Dtype::boolean)) {
    alignas(16) char element[16];
    if (scalar_into(value, target->dtype, element) < 0) return -1;
    const bool filled = fill_running(view_of(target), element);
    ++target->storage->version;
    return filled ? 0 : -1;
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
    PyErr_Format(PyExc_TypeError, "%s: a traced tensor cannot be written into one that is not (hint: stack, where or scatter)", what);
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
          if (!copy_running(view_of(copy), from)) done = -1;
          from = view_of(copy);
        }
      }
    }
    if (done == 0 && !views_equal(to, from) && !copy_running(to, from)) done = -1;
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
  const int parsed = index_parse(t, key, &x);
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
  PyObject* view = index_view(t, x);
  if (view == nullptr) return -1;
  int done = -1;
  if (!recorded) {
    done = assign_into(as_tensor(view), value, "x[...] = y", false);
  } else {
    PyObject* arguments[] = {value, dtype_object(t->dtype)};
    PyObject* source = call_python("tensor.functions.operators", "operand_to_assign", arguments, 2);
    PyObject* params = source == nullptr ? nullptr : index_params(x);
    PyObject* primitive = params == nullptr ? nullptr : row("index_update");
    Tensor* old = primitive == nullptr ? nullptr : tensor_alias(t, true);
    if (old != nullptr) {
      done = assign_into(as_tensor(view), source, "x[...] = y", false);
      Tensor* in[2] = {old, as_tensor(source)};
      if (done == 0) done = record(primitive, in, 2, params, &t, 1);
      if (done == 0) renew_history(t);
    }
    Py_XDECREF(old);
    Py_XDECREF(params);
    Py_XDECREF(source);
  }
  Py_DECREF(view);
  return done;
}

int init_assignment(PyObject* module) { return add_functions(module, functions); }

}  // namespace droveway
