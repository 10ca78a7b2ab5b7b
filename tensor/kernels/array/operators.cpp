// Python's operators on tensors. Equal dtypes and Python numbers that fit the tensor's kind go to the loops from here;
// whatever else there is goes to tensor.functions.operators, which promotes, converts, or declines.
#include <string.h>
#include <time.h>

#include "array.hpp"
#include "elementwise.hpp"
#include "elementwise_ops.hpp"
#include "methods.hpp"
#include "primitive.hpp"
#include "running.hpp"

namespace droveway {

namespace {

PyObject* elsewhere(const char* function, int op, PyObject* a, PyObject* b) {
  PyObject* name = PyUnicode_InternFromString(elementwise_rows[op].name);
  if (name == nullptr) return nullptr;
  PyObject* arguments[] = {name, a, b};
  PyObject* result = call_python("tensor.functions.operators", function, arguments, b == nullptr ? 2 : 3);
  Py_DECREF(name);
  return result;
}

bool usable(const Tensor* t) {
  return (t->flags & kTraced) == 0 && t->device == DeviceKind::cpu && t->storage != nullptr;
}

// Tensor t and a number; `number_first` says which comes first. nullptr without error: not from here.
PyObject* with_number(int op, Tensor* t, PyObject* number, bool number_first) {
  Dtype result;
  if (!usable(t) || !scalar_fits_kind(number, t->dtype) || !elementwise_result(op, t->dtype, &result) ||
      !has_elementwise(op, t->dtype))
    return nullptr;
  if (wants_record(&t, 1)) {
    Tensor* s = scalar_tensor(number, t->dtype, t->device);
    if (s == nullptr) return nullptr;
    Tensor* in[2] = {number_first ? s : t, number_first ? t : s};
    PyObject* out = apply_elementwise(nullptr, op, in, 2, Py_None, result);
    Py_DECREF(s);
    return out;
  }
  alignas(16) char element[16];
  if (scalar_into(number, t->dtype, element) < 0) return nullptr;
  const View s{element, t->dtype, 0, nullptr, nullptr};
  const View in[2] = {number_first ? s : view_of(t), number_first ? view_of(t) : s};
  Tensor* out = tensor_empty(result, t->ndim, t->shape(), t->device, elementwise_rows[op].name);
  if (out == nullptr) return nullptr;
  if (run_elementwise_into(op, view_of(out), in, 2) < 0) {
    Py_DECREF(out);
    return nullptr;
  }
  return as_object(out);
}

PyObject* binary(int op, PyObject* a, PyObject* b) {
  const bool left = is_tensor(a), right = is_tensor(b);
  if (!modes.checked) {
    PyObject* out = nullptr;
    if (left && right) {
      Tensor* in[2] = {as_tensor(a), as_tensor(b)};
      Dtype result;
      if (((in[0]->flags | in[1]->flags) & kTraced) == 0 && direct_elementwise(op, in, 2, nullptr, &result))
        return apply_elementwise(nullptr, op, in, 2, Py_None, result);
    } else if (left && is_scalar(b)) {
      out = with_number(op, as_tensor(a), b, false);
    } else if (right && is_scalar(a)) {
      out = with_number(op, as_tensor(b), a, true);
    }
    if (out != nullptr || PyErr_Occurred()) return out;
  }
  return elsewhere("binary", op, a, b);
}

PyObject* unary(int op, PyObject* a) {
  Tensor* t = as_tensor(a);
  Dtype result;
  if (!modes.checked && (t->flags & kTraced) == 0 && direct_elementwise(op, &t, 1, nullptr, &result))
    return apply_elementwise(nullptr, op, &t, 1, Py_None, result);
  return elsewhere("unary", op, a, nullptr);
}

// --- in place

Tensor* duplicate(const Tensor* t, const char* label) {
  Tensor* copy = tensor_empty(t->dtype, t->ndim, t->shape(), t->device, label);
  if (copy != nullptr) copy_elements(view_of(copy), view_of(t));
  return copy;
}

void give_history(Tensor* to, const Tensor* from) {
  to->node = Py_XNewRef(from->node);
  to->output_index = from->output_index;
  to->flags |= from->flags & kRequiresGrad;
}

bool same_shape(const Tensor* t, int ndim, const int64_t* shape) {
  return t->ndim == ndim && memcmp(t->shape(), shape, size_t(ndim) * sizeof(int64_t)) == 0;
}

PyObject* in_place(int op, PyObject* a, PyObject* b) {
  const char* name = elementwise_rows[op].name;
  Tensor* t = as_tensor(a);
  if (!is_tensor(a) || (t->flags & kTraced) != 0 || (is_tensor(b) && (as_tensor(b)->flags & kTraced) != 0))
    Py_RETURN_NOTIMPLEMENTED;
  Tensor* other = nullptr;  // owned
  if (is_tensor(b) && as_tensor(b)->dtype == t->dtype) {
    other = as_tensor(Py_NewRef(b));
  } else if (is_scalar(b) && scalar_fits_kind(b, t->dtype)) {
    other = scalar_tensor(b, t->dtype, t->device);
  } else {
    PyObject* arguments[] = {a, b};
    PyObject* cast = call_python("tensor.functions.operators", "operand_in_place", arguments, 2);
    if (cast == Py_NotImplemented || cast == nullptr) return cast;
    other = as_tensor(cast);
  }
  if (other == nullptr) return nullptr;
  Tensor* in[2] = {t, other};
  Dtype result;
  PyObject* done = nullptr;
  Tensor *old = nullptr, *copy = nullptr;
  const View views[2] = {view_of(t), view_of(other)};
  int64_t shape[kDimsMax];
  const int ndim = broadcast_views(views, 2, shape);
  const bool recorded = wants_record(in, 2);
  const bool from_here = !modes.checked && direct_elementwise(op, in, 2, nullptr, &result) && result == t->dtype;
  if (ndim < 0 || !same_shape(t, ndim, shape)) {
    PyObject *to = shape_tuple(t->ndim, t->shape()), *from = shape_tuple(other->ndim, other->shape());
    if (to != nullptr && from != nullptr)
      raise_error("ShapeError", "%s: a tensor of shape %R cannot take a result of shapes %R and %R in place", name, to, to, from);
    Py_XDECREF(to);
    Py_XDECREF(from);
  } else if (in_place_allowed(t, recorded, name) == 0) {
    const uint32_t keeps = recorded && elementwise_row(op) != nullptr ? keeps_of(elementwise_row(op), in, 2) : 0;
    bool good = !(recorded && PyErr_Occurred());
    if (good && recorded) {
      if ((keeps & 1) != 0 || (t == other && (keeps & 2) != 0)) {
        old = duplicate(t, name);
        if (old != nullptr) give_history(old, t);
      } else {
        old = tensor_alias(t, true);
      }
      good = old != nullptr;
    }
    const bool one_memory = other->storage == t->storage || other->storage->size_class == 255 || t->storage->size_class == 255;
    const bool kept = recorded && (keeps & 2) != 0;
    const bool overlap = one_memory && views_may_overlap(views[0], views[1]);
    if (good && other != t && ((overlap && !views_equal(views[0], views[1])) || (kept && (overlap || other->storage == t->storage)))) {
      copy = duplicate(other, name);
      good = copy != nullptr;
      if (good) give_history(copy, other);
    }
    if (good) {
      Tensor* second = copy != nullptr ? copy : other;
      if (from_here) {
        const View now[2] = {views[0], view_of(second)};
        good = run_elementwise_into(op, views[0], now, 2) == 0;
      } else {
        const bool grad = modes.grad;
        modes.grad = false;
        PyObject* out = elsewhere("binary", op, a, as_object(second));
        modes.grad = grad;
        good = out != nullptr && is_tensor(out) && assign_into(t, out, name, false) == 0;
        if (out == Py_NotImplemented) PyErr_Format(PyExc_TypeError, "%s: not in place", name);
        Py_XDECREF(out);
      }
      if (from_here) ++t->storage->version;  // assign_into has done it otherwise
      if (good && recorded) {
        Tensor* recorded_inputs[2] = {old, other == t ? old : second};
        good = record(elementwise_row(op), recorded_inputs, 2, Py_None, &t, 1) == 0;
        if (good) renew_history(t);
      }
      if (good) done = Py_NewRef(a);
    }
  }
  Py_XDECREF(old);
  Py_XDECREF(copy);
  Py_DECREF(other);
  return done;
}

template <int Op>
PyObject* binary_slot(PyObject* a, PyObject* b) {
  return binary(Op, a, b);
}
template <int Op>
PyObject* unary_slot(PyObject* a) {
  return unary(Op, a);
}
template <int Op>
PyObject* in_place_slot(PyObject* a, PyObject* b) {
  return in_place(Op, a, b);
}

PyObject* power(PyObject* a, PyObject* b, PyObject* modulus) {
  if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
  Tensor* t = is_tensor(a) ? as_tensor(a) : is_tensor(b) ? as_tensor(b) : nullptr;
  if (t == nullptr) Py_RETURN_NOTIMPLEMENTED;
  if (is_int(t->dtype)) return elsewhere("binary", op_pow, a, b);  // negative exponents are an error there
  return binary(op_pow, a, b);
}
PyObject* power_in_place(PyObject* a, PyObject* b, PyObject*) {
  if (is_tensor(a) && is_int(as_tensor(a)->dtype)) Py_RETURN_NOTIMPLEMENTED;
  return in_place(op_pow, a, b);
}

// Matrices of one type of numbers go straight to their row.
PyObject* matmul(PyObject* a, PyObject* b) {
  PyObject* arguments[] = {a, b};
  if (is_tensor(a) && is_tensor(b)) {
    const Tensor *x = as_tensor(a), *y = as_tensor(b);
    if (x->dtype == y->dtype && x->dtype != Dtype::boolean && x->ndim >= 2 && y->ndim >= 2) {
      static PyObject* row;
      if (row == nullptr) {
        PyObject* name = PyUnicode_FromString("matmul");
        row = name == nullptr ? nullptr : call_python("tensor.primitives.registry", "row", &name, 1);
        Py_XDECREF(name);
        if (row == nullptr) return nullptr;
      }
      PyObject* inputs = PyTuple_Pack(2, a, b);
      PyObject* out = inputs == nullptr ? nullptr : apply_primitive(row, inputs, Py_None);
      Py_XDECREF(inputs);
      return out;
    }
  }
  return call_python("tensor.functions.operators", "matmul", arguments, 2);
}

// --- one element as a Python number

PyObject* only_element(PyObject* self, const char* what) {
  const View v = view_of(as_tensor(self));
  if ((as_tensor(self)->flags & kTraced) != 0) {
    PyErr_Format(PyExc_TypeError, "%s: a traced tensor has no values yet", what);
    return nullptr;
  }
  if (view_size(v) != 1) {
    PyObject* shape = shape_tuple(v.ndim, v.shape);
    if (shape != nullptr)
      PyErr_Format(PyExc_TypeError, "%s: only a tensor of one element is one number, this one has shape %R", what, shape);
    Py_XDECREF(shape);
    return nullptr;
  }
  return element_as_python(v.data, v.dtype);
}

int truth(PyObject* self) {
  PyObject* value = only_element(self, "bool");
  if (value == nullptr) return -1;
  const int yes = PyObject_IsTrue(value);
  Py_DECREF(value);
  return yes;
}

PyObject* as_int(PyObject* self) {
  if (is_complex(as_tensor(self)->dtype)) {
    PyErr_SetString(PyExc_TypeError, "int: a complex number is no integer (hint: tensor.real)");
    return nullptr;
  }
  PyObject* value = only_element(self, "int");
  if (value == nullptr) return nullptr;
  PyObject* number = PyNumber_Long(value);
  Py_DECREF(value);
  return number;
}

PyObject* as_float(PyObject* self) {
  if (is_complex(as_tensor(self)->dtype)) {
    PyErr_SetString(PyExc_TypeError, "float: a complex number is no float (hint: tensor.real)");
    return nullptr;
  }
  PyObject* value = only_element(self, "float");
  if (value == nullptr) return nullptr;
  PyObject* number = PyNumber_Float(value);
  Py_DECREF(value);
  return number;
}

PyObject* as_index(PyObject* self) {
  const Tensor* t = as_tensor(self);
  if (!is_int(t->dtype) || t->ndim != 0) {
    PyErr_Format(PyExc_TypeError, "index: only an integer tensor without dimensions is an index, this one is %s with %d",
                 dtype_name(t->dtype), int(t->ndim));
    return nullptr;
  }
  return only_element(self, "index");
}

}  // namespace

PyObject* tensor_compare(PyObject* a, PyObject* b, int op) {
  static const int codes[] = {op_lt, op_le, op_eq, op_ne, op_gt, op_ge};  // Py_LT … Py_GE
  if (b == Py_None) Py_RETURN_NOTIMPLEMENTED;
  return binary(codes[op], a, b);
}

#define DW_SLOT(slot, function) {slot, reinterpret_cast<void*>(function)}
PyType_Slot operator_slots[] = {
    DW_SLOT(Py_nb_add, binary_slot<op_add>),
    DW_SLOT(Py_nb_subtract, binary_slot<op_sub>),
    DW_SLOT(Py_nb_multiply, binary_slot<op_mul>),
    DW_SLOT(Py_nb_true_divide, binary_slot<op_div>),
    DW_SLOT(Py_nb_floor_divide, binary_slot<op_floor_div>),
    DW_SLOT(Py_nb_remainder, binary_slot<op_mod>),
    DW_SLOT(Py_nb_power, power),
    DW_SLOT(Py_nb_and, binary_slot<op_bitwise_and>),
    DW_SLOT(Py_nb_or, binary_slot<op_bitwise_or>),
    DW_SLOT(Py_nb_xor, binary_slot<op_bitwise_xor>),
    DW_SLOT(Py_nb_lshift, binary_slot<op_bitwise_left_shift>),
    DW_SLOT(Py_nb_rshift, binary_slot<op_bitwise_right_shift>),
    DW_SLOT(Py_nb_matrix_multiply, matmul),
    DW_SLOT(Py_nb_negative, unary_slot<op_neg>),
    DW_SLOT(Py_nb_positive, unary_slot<op_copy>),
    DW_SLOT(Py_nb_absolute, unary_slot<op_abs>),
    DW_SLOT(Py_nb_invert, unary_slot<op_bitwise_not>),
    DW_SLOT(Py_nb_inplace_add, in_place_slot<op_add>),
    DW_SLOT(Py_nb_inplace_subtract, in_place_slot<op_sub>),
    DW_SLOT(Py_nb_inplace_multiply, in_place_slot<op_mul>),
    DW_SLOT(Py_nb_inplace_true_divide, in_place_slot<op_div>),
    DW_SLOT(Py_nb_inplace_floor_divide, in_place_slot<op_floor_div>),
    DW_SLOT(Py_nb_inplace_remainder, in_place_slot<op_mod>),
    DW_SLOT(Py_nb_inplace_power, power_in_place),
    DW_SLOT(Py_nb_inplace_and, in_place_slot<op_bitwise_and>),
    DW_SLOT(Py_nb_inplace_or, in_place_slot<op_bitwise_or>),
    DW_SLOT(Py_nb_inplace_xor, in_place_slot<op_bitwise_xor>),
    DW_SLOT(Py_nb_inplace_lshift, in_place_slot<op_bitwise_left_shift>),
    DW_SLOT(Py_nb_inplace_rshift, in_place_slot<op_bitwise_right_shift>),
    DW_SLOT(Py_nb_bool, truth),
    DW_SLOT(Py_nb_int, as_int),
    DW_SLOT(Py_nb_float, as_float),
    DW_SLOT(Py_nb_index, as_index),
};
#undef DW_SLOT
const int operator_slot_count = int(sizeof operator_slots / sizeof operator_slots[0]);

static PyObject* one_number(PyObject* self) { return only_element(self, "complex"); }
PyObject* tensor_item(PyObject* self) { return only_element(self, "item"); }
PyObject* tensor_complex(PyObject* self, PyObject*) {
  PyObject* value = one_number(self);
  if (value == nullptr) return nullptr;
  PyObject* result = PyObject_CallOneArg(reinterpret_cast<PyObject*>(&PyComplex_Type), value);
  Py_DECREF(value);
  return result;
}

bool interrupt_asked() {
  static thread_local long last_ms = 0;
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  const long ms = long(now.tv_sec) * 1000 + now.tv_nsec / 1000000;
  if (ms - last_ms < 20) return false;
  last_ms = ms;
  return unless_interpreter_ends([] {
    const PyGILState_STATE state = PyGILState_Ensure();
    const bool raised = PyErr_CheckSignals() != 0;
    PyGILState_Release(state);
    return raised;
  });
}

}  // namespace droveway
