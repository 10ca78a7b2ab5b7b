// apply(primitive, inputs, params): runs a row of the registry, whatever kind it is, and records it for gradients.
#include <initializer_list>
#include <string.h>

#include "array.hpp"
#include "members.hpp"
#include "elementwise.hpp"
#include "elementwise_ops.hpp"
#include "in_use.hpp"
#include "methods.hpp"
#include "primitive.hpp"
#include "running.hpp"

namespace droveway {

PyTypeObject* primitive_type;

namespace {

PyObject *str_shape, *str_kernel, *str_view, *str_in_place, *str_unnamed;
PyObject* elementwise_rows_found[kElementwiseOps];

int primitive_init(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"name", "op", "keeps", "alone", nullptr};
  PyObject *name, *alone = nullptr;
  int op = -1;
  unsigned keeps = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "U|iIO:PrimitiveBase", const_cast<char**>(names), &name, &op, &keeps, &alone)) return -1;
  unsigned first = keeps, second = keeps;
  if (alone != nullptr && alone != Py_None && !PyArg_ParseTuple(alone, "II:PrimitiveBase alone", &first, &second)) return -1;
  if (op >= kElementwiseOps) {
    PyErr_Format(PyExc_ValueError, "primitive %U: no elementwise operation has code %d", name, op);
    return -1;
  }
  Primitive* p = as_primitive(self);
  Py_INCREF(name);
  PyUnicode_InternInPlace(&name);
  p->name = name;  // for good: budgets name buffers by it after the row is gone
  p->op = op;
  p->keeps = keeps;
  p->alone[0] = first;
  p->alone[1] = second;
  p->kind = RowKind::unknown;
  return 0;
}

PyObject* primitive_new(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  as_primitive(self)->name = Py_NewRef(str_unnamed);  // until __init__ has run
  as_primitive(self)->op = -1;
  return self;
}

void primitive_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyMemberDef primitive_members[] = {
    {"name", T_OBJECT, offsetof(Primitive, name), READONLY, const_cast<char*>("The row's name.")},
    {"op", T_INT, offsetof(Primitive, op), READONLY, const_cast<char*>("The code of its elementwise kernel, −1 for none.")},
    {"keeps", T_UINT, offsetof(Primitive, keeps), READONLY, const_cast<char*>("The mask of inputs and outputs that its gradient reads.")},
    {nullptr, 0, 0, 0, nullptr},
};
PyType_Slot primitive_slots[] = {
    {Py_tp_doc, const_cast<char*>("PrimitiveBase(name, op=-1, keeps=0, alone=None)\n--\n\nWhat `apply` reads of a row on each call.")},
    {Py_tp_init, reinterpret_cast<void*>(primitive_init)},
    {Py_tp_new, reinterpret_cast<void*>(primitive_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(primitive_dealloc)},
    {Py_tp_members, primitive_members},
    {0, nullptr},
};
PyType_Spec primitive_spec = {"tensor._kernels.PrimitiveBase", sizeof(Primitive), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                              primitive_slots};

class GradOff {
 public:
  GradOff() : before_(modes) {
    modes.grad = modes.checked = false;
    modes.noted = nullptr;
  }
  ~GradOff() { modes = before_; }
  GradOff(const GradOff&) = delete;
  GradOff& operator=(const GradOff&) = delete;

 private:
  Modes before_;
};

// 1 if the attribute is there and not None, 0 if not, −1 on error.
int has(PyObject* o, PyObject* name) {
  PyObject* value = PyObject_GetAttr(o, name);
  if (value == nullptr) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return -1;
    PyErr_Clear();
    return 0;
  }
  const int there = value != Py_None;
  Py_DECREF(value);
  return there;
}

int find_kind(PyObject* primitive) {
  Primitive* p = as_primitive(primitive);
  const int view = has(primitive, str_view), kernel = view == 0 ? has(primitive, str_kernel) : 0;
  if (view < 0 || kernel < 0) return -1;
  p->in_place = false;
  PyObject* in_place = PyObject_GetAttr(primitive, str_in_place);
  if (in_place == nullptr) {
    PyErr_Clear();
  } else {
    p->in_place = PyObject_IsTrue(in_place) == 1;
    Py_DECREF(in_place);
  }
  p->kind = view ? RowKind::view : kernel ? RowKind::kernel : RowKind::twin;
  return 0;
}

PyObject* apply_view(PyObject* primitive, PyObject* inputs, Tensor* const* tensors, int count, PyObject* params) {
  PyObject* out;
  {
    GradOff off;
    PyObject* arguments[] = {primitive, inputs, params};
    PyObject* view = PyObject_GetAttr(primitive, str_view);
    if (view == nullptr) return nullptr;
    out = PyObject_Vectorcall(view, arguments + 1, 2, nullptr);
    Py_DECREF(view);
  }
  if (out == nullptr) return nullptr;
  if (!is_tensor(out)) {
    PyErr_Format(PyExc_TypeError, "%s: its view must give a Tensor, got %.100s", primitive_name(primitive), Py_TYPE(out)->tp_name);
    Py_DECREF(out);
    return nullptr;
  }
  if (!wants_record(tensors, count)) return out;
  if (Py_REFCNT(out) != 1 || !plain(as_tensor(out))) {  // somebody knows it already: a new object for the new history
    Tensor* t = as_tensor(out);
    Tensor* fresh = tensor_view(t, t->data, t->ndim, t->shape(), t->strides());
    Py_DECREF(out);
    if (fresh == nullptr) return nullptr;
    out = as_object(fresh);
  }
  Tensor* made = as_tensor(out);
  if (record(primitive, tensors, count, params, &made, 1) < 0) Py_CLEAR(out);
  return out;
}

// Outputs by the shape rule: a tuple of new tensors; *single if the rule gave one Spec.
PyObject* make_outs(PyObject* primitive, PyObject* inputs, PyObject* params, bool* single) {
  PyObject* arguments[] = {inputs, params};
  PyObject* rule = PyObject_GetAttr(primitive, str_shape);
  if (rule == nullptr) return nullptr;
  PyObject* specs = PyObject_Vectorcall(rule, arguments, 2, nullptr);
  Py_DECREF(rule);
  if (specs == nullptr) return nullptr;
  *single = !PyTuple_Check(specs);
  const Py_ssize_t count = *single ? 1 : PyTuple_GET_SIZE(specs);
  PyObject* outs = PyTuple_New(count);
  for (Py_ssize_t i = 0; outs != nullptr && i < count; ++i) {
    Spec s;
    Tensor* t = nullptr;
    if (spec_read(*single ? specs : PyTuple_GET_ITEM(specs, i), &s))
      t = tensor_empty(s.dtype, s.ndim, s.shape, s.device, primitive_name(primitive));
    if (t == nullptr)
      Py_CLEAR(outs);
    else
      PyTuple_SET_ITEM(outs, i, as_object(t));
  }
  Py_DECREF(specs);
  return outs;
}

// For rows that overwrite inputs: those inputs are the outs.
PyObject* in_place_outs(PyObject* primitive, PyObject* inputs) {
  PyObject* places = PyObject_GetAttr(primitive, str_in_place);
  if (places == nullptr) return nullptr;
  PyObject* outs = PyTuple_Check(places) ? PyTuple_New(PyTuple_GET_SIZE(places)) : nullptr;
  for (Py_ssize_t i = 0; outs != nullptr && i < PyTuple_GET_SIZE(places); ++i) {
    const Py_ssize_t place = PyLong_AsSsize_t(PyTuple_GET_ITEM(places, i));
    PyObject* t = place >= 0 && place < PyTuple_GET_SIZE(inputs) ? PyTuple_GET_ITEM(inputs, place) : nullptr;
    if (t == nullptr || in_place_allowed(as_tensor(t), wants_record(reinterpret_cast<Tensor* const*>(&t), 1), primitive_name(primitive)) < 0) {
      if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "in_place must name inputs");
      Py_CLEAR(outs);
    } else {
      PyTuple_SET_ITEM(outs, i, Py_NewRef(t));
    }
  }
  Py_DECREF(places);
  return outs;
}

PyObject* apply_general(PyObject* primitive, PyObject* inputs, Tensor* const* tensors, int count, PyObject* params) {
  bool single = false;
  const bool in_place = as_primitive(primitive)->in_place;
  PyObject* outs;
  {
    GradOff off;
    outs = make_outs(primitive, inputs, params, &single);
    if (outs != nullptr && in_place) {
      Py_DECREF(outs);
      outs = in_place_outs(primitive, inputs);
    }
    if (outs == nullptr) return nullptr;
    if (in_place)  // before the kernel: Ctrl-C may leave part of the change behind
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(outs); ++i) ++as_tensor(PyTuple_GET_ITEM(outs, i))->storage->version;
    const bool twin = as_primitive(primitive)->kind == RowKind::twin || tensor_kernels() == nullptr ||
                      (count > 0 && tensors[0]->device == DeviceKind::ref);
    PyObject* done;
    PyObject* arguments[] = {primitive, outs, inputs, params};
    if (twin) {
      done = call_python("tensor.primitives.twin_call", "run_twin", arguments, 4);
    } else {
      PyObject* kernel = PyObject_GetAttr(primitive, str_kernel);
      done = kernel == nullptr ? nullptr : PyObject_Vectorcall(kernel, arguments + 1, 3, nullptr);
      Py_XDECREF(kernel);
    }
    if (done == nullptr) {
      Py_DECREF(outs);
      return nullptr;
    }
    Py_DECREF(done);
  }
  const int out_count = int(PyTuple_GET_SIZE(outs));
  Tensor* made[16];
  for (int i = 0; i < out_count && i < 16; ++i) made[i] = as_tensor(PyTuple_GET_ITEM(outs, i));
  if (out_count > 16) {
    PyErr_Format(PyExc_ValueError, "%s: at most 16 results", primitive_name(primitive));
    Py_DECREF(outs);
    return nullptr;
  }
  if (wants_record(tensors, count) && record(primitive, tensors, count, params, made, out_count) < 0) {
    Py_DECREF(outs);
    return nullptr;
  }
  if (!single) return outs;
  PyObject* out = Py_NewRef(PyTuple_GET_ITEM(outs, 0));
  Py_DECREF(outs);
  return out;
}

}  // namespace

bool direct_elementwise(int op, Tensor* const* in, int count, PyObject* params, Dtype* out) {
  if (count != elementwise_rows[op].arity) return false;
  const int main = op == op_where ? 1 : 0;
  const Dtype d = in[main]->dtype;
  for (int i = 0; i < count; ++i) {
    if (in[i]->device != DeviceKind::cpu || in[i]->storage == nullptr) return false;
    if (i >= main && in[i]->dtype != d) return false;
  }
  if (op == op_where && in[0]->dtype != Dtype::boolean) return false;
  if (op == op_cast) {
    if (params == nullptr || !PyDict_Check(params)) return false;
    PyObject* wanted = PyDict_GetItemString(params, "dtype");
    if (wanted == nullptr || !dtype_from(wanted, out)) return false;
    return tensor_kernels() != nullptr && tensor_kernels()->cast(int(d), int(*out)) != nullptr;
  }
  return elementwise_result(op, d, out) && has_elementwise(op, d);
}

namespace {

PyObject* py_apply(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count < 2 || count > 3 || !PyTuple_Check(arguments[1]) || !PyObject_TypeCheck(arguments[0], primitive_type)) {
    PyErr_SetString(PyExc_TypeError, "apply(primitive, inputs, params=None): needs a primitive, a tuple of tensors, a dict or None");
    return nullptr;
  }
  return apply_primitive(arguments[0], arguments[1], count == 3 ? arguments[2] : Py_None);
}

PyObject* py_record(PyObject*, PyObject* args) {
  PyObject *primitive, *inputs, *params, *outs;
  if (!PyArg_ParseTuple(args, "O!O!OO!:record", primitive_type, &primitive, &PyTuple_Type, &inputs, &params, &PyTuple_Type, &outs))
    return nullptr;
  for (PyObject* tuple : {inputs, outs})
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i)
      if (!is_tensor(PyTuple_GET_ITEM(tuple, i))) {
        PyErr_SetString(PyExc_TypeError, "record: inputs and outs must be tuples of Tensors");
        return nullptr;
      }
  static_assert(sizeof(PyObject*) == sizeof(Tensor*));
  Tensor* const* in = reinterpret_cast<Tensor* const*>(&PyTuple_GET_ITEM(inputs, 0));
  const int count = int(PyTuple_GET_SIZE(inputs));
  if (wants_record(in, count) && record(primitive, in, count, params, reinterpret_cast<Tensor* const*>(&PyTuple_GET_ITEM(outs, 0)),
                                        int(PyTuple_GET_SIZE(outs))) < 0)
    return nullptr;
  Py_RETURN_NONE;
}

PyObject* py_set_grad_mode(PyObject*, PyObject* value) {
  const int wanted = PyObject_IsTrue(value);
  if (wanted < 0) return nullptr;
  const bool before = modes.grad;
  modes.grad = wanted != 0;
  return PyBool_FromLong(before);
}
PyObject* py_grad_mode(PyObject*, PyObject*) { return PyBool_FromLong(modes.grad); }
PyObject* py_set_checked_mode(PyObject*, PyObject* value) {
  const int wanted = PyObject_IsTrue(value);
  if (wanted < 0) return nullptr;
  const bool before = modes.checked;
  modes.checked = wanted != 0;
  return PyBool_FromLong(before);
}
PyObject* py_checked_mode(PyObject*, PyObject*) { return PyBool_FromLong(modes.checked); }

PyObject* py_tape_sequence(PyObject*, PyObject*) { return PyLong_FromUnsignedLongLong(tape_sequence()); }

PyObject* py_capture(PyObject*, PyObject* list) {
  if (list != Py_None && !PyList_Check(list)) return PyErr_SetString(PyExc_TypeError, "capture: needs a list or None"), nullptr;
  PyObject* before = modes.noted;  // its reference goes to the caller
  modes.noted = list == Py_None ? nullptr : Py_NewRef(list);
  return before != nullptr ? before : Py_NewRef(Py_None);
}

PyObject* py_capture_inputs(PyObject*, PyObject* inputs) {
  if (!PyTuple_Check(inputs)) return PyErr_SetString(PyExc_TypeError, "capture_inputs: needs a tuple"), nullptr;
  for (Py_ssize_t i = 0; modes.noted != nullptr && i < PyTuple_GET_SIZE(inputs); ++i) {
    PyObject* o = PyTuple_GET_ITEM(inputs, i);
    Tensor* t = as_tensor(o);
    if (is_tensor(o) && note_inputs(&t, 1) < 0) return nullptr;
  }
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"tape_sequence", py_tape_sequence, METH_NOARGS, "tape_sequence($module, /)\n--\n\nThe number that the next recorded operation gets."},
    {"capture", py_capture, METH_O,
     "capture($module, list, /)\n--\n\nWhile operations are not recorded, inputs that require gradients are appended to the list; "
     "None ends it. Returns the list of before."},
    {"capture_inputs", py_capture_inputs, METH_O, "capture_inputs($module, inputs, /)\n--\n\nAppends those that require gradients."},
    {"apply", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(py_apply)), METH_FASTCALL,
     "apply($module, primitive, inputs, params=None, /)\n--\n\nRuns a row of the registry on tensors; records it if gradients are wanted."},
    {"record", py_record, METH_VARARGS,
     "record($module, primitive, inputs, params, outs, /)\n--\n\nGives `outs` the history of such an operation, if an input wants "
     "gradients."},
    {"grad_mode", py_grad_mode, METH_NOARGS, "grad_mode($module, /)\n--\n\nWhether this thread records operations."},
    {"set_grad_mode", py_set_grad_mode, METH_O, "set_grad_mode($module, on, /)\n--\n\nSets it; returns what it was."},
    {"checked_mode", py_checked_mode, METH_NOARGS, "checked_mode($module, /)\n--\n\nWhether this thread is in checked mode."},
    {"set_checked_mode", py_set_checked_mode, METH_O, "set_checked_mode($module, on, /)\n--\n\nSets it; returns what it was."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyMethodDef apply_methods[] = {{nullptr, nullptr, 0, nullptr}};

int run_elementwise_into(int op, const View& out, const View* inputs, int count) {
  bool ran = false;
  const int64_t n = view_size(out);
  if (n < (1 << 16)) {
    ran = run_elementwise(op, out, inputs, count);
  } else if (!run_unlocked([&] { ran = run_elementwise(op, out, inputs, count); })) {
    return -1;
  }
  if (!ran) {
    raise_error("DtypeError", "%s: there is no kernel for %s", elementwise_rows[op].name, dtype_name(inputs[0].dtype));
    return -1;
  }
  return 0;
}

PyObject* apply_elementwise(PyObject* primitive, int op, Tensor* const* in, int count, PyObject* params, Dtype result) {
  View views[3];
  for (int i = 0; i < count; ++i) views[i] = view_of(in[i]);
  int64_t shape[kDimsMax];
  const int ndim = broadcast_views(views, count, shape);
  if (ndim < 0) {
    PyObject* text = PyUnicode_FromString("");
    for (int i = 0; i < count && text != nullptr; ++i) {
      PyObject* s = shape_tuple(in[i]->ndim, in[i]->shape());
      Py_XSETREF(text, s == nullptr ? nullptr : PyUnicode_FromFormat(i == 0 ? "%U%R" : "%U and %R", text, s));
      Py_XDECREF(s);
    }
    if (text != nullptr) raise_error("ShapeError", "%s: shapes %U do not broadcast", elementwise_rows[op].name, text);
    Py_XDECREF(text);
    return nullptr;
  }
  Tensor* out = tensor_empty(result, ndim, shape, DeviceKind::cpu, elementwise_rows[op].name);
  if (out == nullptr) return nullptr;
  if (run_elementwise_into(op, view_of(out), views, count) < 0) {
    Py_DECREF(out);
    return nullptr;
  }
  if (wants_record(in, count)) {
    if (primitive == nullptr) primitive = elementwise_row(op);
    if (primitive == nullptr || record(primitive, in, count, params, &out, 1) < 0) Py_CLEAR(out);
  }
  return as_object(out);
}

static PyObject* dispatch(PyObject* primitive, PyObject* inputs, PyObject* params) {
  const int count = int(PyTuple_GET_SIZE(inputs));
  Tensor* const* tensors = reinterpret_cast<Tensor* const*>(&PyTuple_GET_ITEM(inputs, 0));
  bool traced = false;
  for (int i = 0; i < count; ++i) {
    PyObject* o = PyTuple_GET_ITEM(inputs, i);
    if (!is_tensor(o)) {
      PyErr_Format(PyExc_TypeError, "%s: input %d must be a Tensor, got %.100s (hint: tensor.asarray)", primitive_name(primitive), i,
                   Py_TYPE(o)->tp_name);
      return nullptr;
    }
    traced = traced || (as_tensor(o)->flags & kTraced) != 0;
  }
  if (traced) {
    PyObject* arguments[] = {primitive, inputs, params};
    return call_python("tensor.autograd.trace", "apply_traced", arguments, 3);
  }
  for (int i = 0; i < count; ++i) {
    if (tensors[i]->device != tensors[0]->device)
      return raise_error("DeviceError", "%s: inputs must lie on one device, got cpu and ref (hint: .to_device)", primitive_name(primitive));
  }
  Primitive* p = as_primitive(primitive);
  if (p->op >= 0 && count <= 3) {
    Dtype result;
    if (direct_elementwise(p->op, tensors, count, params, &result)) return apply_elementwise(primitive, p->op, tensors, count, params, result);
    if (PyErr_Occurred()) return nullptr;
  }
  if (p->kind == RowKind::unknown && find_kind(primitive) < 0) return nullptr;
  if (p->kind == RowKind::view) return apply_view(primitive, inputs, tensors, count, params);
  return apply_general(primitive, inputs, tensors, count, params);
}

PyObject* apply_primitive(PyObject* primitive, PyObject* inputs, PyObject* params) {
  if (!modes.checked) return dispatch(primitive, inputs, params);
  PyObject* before[] = {primitive, inputs, params};
  PyObject* done = call_python("tensor.autograd.anomaly", "before_call", before, 3);
  if (done == nullptr) return nullptr;
  Py_DECREF(done);
  PyObject* outs = dispatch(primitive, inputs, params);
  if (outs == nullptr) return nullptr;
  PyObject* after[] = {primitive, inputs, outs};
  done = call_python("tensor.autograd.anomaly", "after_call", after, 3);
  if (done == nullptr) Py_CLEAR(outs);
  Py_XDECREF(done);
  return outs;
}

static PyObject* found;  // dict: name → row

PyObject* row_if_loaded(const char* name) { return found == nullptr ? nullptr : PyDict_GetItemString(found, name); }

PyObject* row(const char* name) {
  if (found == nullptr && (found = PyDict_New()) == nullptr) return nullptr;
  PyObject* have = PyDict_GetItemString(found, name);
  if (have != nullptr) return have;
  PyObject* key = PyUnicode_FromString(name);
  PyObject* value = key == nullptr ? nullptr : call_python("tensor.primitives.registry", "row", &key, 1);
  Py_XDECREF(key);
  if (value == nullptr) return nullptr;
  if (!PyObject_TypeCheck(value, primitive_type)) {
    PyErr_Format(PyExc_TypeError, "row %s is no PrimitiveBase", name);
    Py_DECREF(value);
    return nullptr;
  }
  const int kept = PyDict_SetItemString(found, name, value);
  Py_DECREF(value);
  return kept < 0 ? nullptr : value;
}

PyObject* elementwise_row(int op) {
  if (elementwise_rows_found[op] == nullptr) elementwise_rows_found[op] = row(elementwise_rows[op].name);
  return elementwise_rows_found[op];
}

int init_apply(PyObject* module) {
  str_shape = PyUnicode_InternFromString("shape");
  str_kernel = PyUnicode_InternFromString("kernel");
  str_view = PyUnicode_InternFromString("view");
  str_in_place = PyUnicode_InternFromString("in_place");
  str_unnamed = PyUnicode_InternFromString("a primitive without name");
  if (add_type(module, "PrimitiveBase", &primitive_spec, &primitive_type) < 0) return -1;
  return add_functions(module, functions);
}

}  // namespace droveway
