#include "budget.hpp"

#include "array.hpp"

namespace droveway {

struct Budget {
  PyObject_HEAD
  int64_t max_bytes, used_bytes, peak_bytes;
  Charge live;  // the ring's head
};

namespace {

PyTypeObject* budget_type;
PyTypeObject* ticket_type;
PyObject* active;          // context variable: the budgets that are active, outermost first
Py_ssize_t budgets_alive;  // without one nobody needs to ask the context

struct Ticket {
  PyObject_HEAD
  Charge* charge;
};

Budget* as_budget(PyObject* o) { return reinterpret_cast<Budget*>(o); }

PyObject* name_of(const Charge& c) {
  if (c.label_object != nullptr) return Py_NewRef(c.label_object);
  if (c.ndim < 0) return PyUnicode_FromString(c.label);
  PyObject* shape = shape_tuple(c.ndim, c.shape);
  PyObject* list = shape == nullptr ? nullptr : PySequence_List(shape);
  Py_XDECREF(shape);
  if (list == nullptr) return nullptr;
  PyObject* name = PyUnicode_FromFormat("%s %s%R", c.label, dtype_name(c.dtype), list);
  Py_DECREF(list);
  return name;
}

void describe(Charge* c, const char* label, PyObject* label_object, Dtype dtype, int ndim, const int64_t* shape) {
  c->label = label;
  c->label_object = label_object;
  c->dtype = dtype;
  c->ndim = ndim;
  for (int d = 0; d < ndim; ++d) c->shape[d] = shape[d];
}

void refuse(Budget* b, const Charge& wanted) {
  const Charge* largest = nullptr;
  for (const Charge* c = b->live.next; c != &b->live; c = c->next)
    if (largest == nullptr || c->nbytes > largest->nbytes) largest = c;
  PyObject* type = from_module("tensor.errors", "BudgetExceeded");
  PyObject* requested = type == nullptr ? nullptr : name_of(wanted);
  PyObject* live = requested == nullptr ? nullptr : largest == nullptr ? PyUnicode_FromString("") : name_of(*largest);
  if (live != nullptr) {
    PyObject* error = PyObject_CallFunction(type, "LLLLOO", (long long)wanted.nbytes, (long long)b->used_bytes,
                                            (long long)b->max_bytes, largest == nullptr ? 0LL : (long long)largest->nbytes,
                                            requested, live);
    if (error != nullptr) PyErr_SetObject(type, error);
    Py_XDECREF(error);
  }
  Py_XDECREF(type);
  Py_XDECREF(requested);
  Py_XDECREF(live);
}

// nullptr with an error set.
Charge* charge_one(Budget* b, const Charge& wanted) {
  if (wanted.nbytes > b->max_bytes - b->used_bytes) {
    refuse(b, wanted);
    return nullptr;
  }
  Charge* c = static_cast<Charge*>(PyMem_Malloc(sizeof(Charge)));
  if (c == nullptr) {
    PyErr_NoMemory();
    return nullptr;
  }
  *c = wanted;
  Py_XINCREF(c->label_object);
  c->budget = b;
  Py_INCREF(b);
  c->sibling = nullptr;
  c->next = b->live.next;
  c->previous = &b->live;
  c->next->previous = c;
  b->live.next = c;
  b->used_bytes += c->nbytes;
  if (b->used_bytes > b->peak_bytes) b->peak_bytes = b->used_bytes;
  return c;
}

void release_one(Charge* c) {
  Budget* b = c->budget;
  c->previous->next = c->next;
  c->next->previous = c->previous;
  b->used_bytes -= c->nbytes;
  Py_XDECREF(c->label_object);
  PyMem_Free(c);
  Py_DECREF(b);
}

PyObject* budget_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"max_bytes", nullptr};
  PyObject* limit;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:ComputeBudget", const_cast<char**>(names), &limit)) return nullptr;
  int overflow = 0;
  const long long bytes = PyLong_AsLongLongAndOverflow(limit, &overflow);
  if (bytes == -1 && PyErr_Occurred()) return nullptr;
  PyObject* self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  Budget* b = as_budget(self);
  b->max_bytes = overflow > 0 ? INT64_MAX : bytes;
  b->live.next = b->live.previous = &b->live;
  ++budgets_alive;
  return self;
}

void budget_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  --budgets_alive;
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* budget_repr(PyObject* self) {
  const Budget* b = as_budget(self);
  return PyUnicode_FromFormat("ComputeBudget(max_bytes=%lld, used_bytes=%lld, peak_bytes=%lld)", (long long)b->max_bytes,
                              (long long)b->used_bytes, (long long)b->peak_bytes);
}

PyObject* budget_charge(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"nbytes", "label", nullptr};
  PyObject* number;
  PyObject* label;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!U:charge", const_cast<char**>(names), &PyLong_Type, &number, &label))
    return nullptr;
  int overflow = 0;
  long long nbytes = PyLong_AsLongLongAndOverflow(number, &overflow);
  if (overflow > 0) nbytes = INT64_MAX;
  if (overflow < 0 || nbytes < 0) {
    PyErr_Format(PyExc_ValueError, "charge: nbytes must not be negative, got %R", number);
    return nullptr;
  }
  Charge wanted{};
  wanted.nbytes = nbytes;
  describe(&wanted, "", label, Dtype::u8, -1, nullptr);
  Ticket* ticket = PyObject_New(Ticket, ticket_type);
  if (ticket == nullptr) return nullptr;
  ticket->charge = charge_one(as_budget(self), wanted);
  if (ticket->charge == nullptr) {
    Py_DECREF(ticket);
    return nullptr;
  }
  return reinterpret_cast<PyObject*>(ticket);
}

PyObject* budget_release(PyObject* self, PyObject* ticket) {
  Charge* c = Py_TYPE(ticket) == ticket_type ? reinterpret_cast<Ticket*>(ticket)->charge : nullptr;
  if (c == nullptr || c->budget != as_budget(self)) {
    PyErr_SetString(PyExc_ValueError, "release: ticket must be one that charge of this budget gave, and not yet released");
    return nullptr;
  }
  reinterpret_cast<Ticket*>(ticket)->charge = nullptr;
  release_one(c);
  Py_RETURN_NONE;
}

PyObject* budget_largest(PyObject* self, PyObject* args) {
  Py_ssize_t count = 3;
  if (!PyArg_ParseTuple(args, "|n:largest_live", &count)) return nullptr;
  Budget* b = as_budget(self);
  PyObject* all = PyList_New(0);
  if (all == nullptr) return nullptr;
  for (Charge* c = b->live.next; c != &b->live; c = c->next) {
    PyObject* name = name_of(*c);
    PyObject* pair = name == nullptr ? nullptr : Py_BuildValue("(LN)", (long long)c->nbytes, name);
    if (pair == nullptr || PyList_Append(all, pair) < 0) {
      Py_XDECREF(pair);
      Py_DECREF(all);
      return nullptr;
    }
    Py_DECREF(pair);
  }
  PyObject* result = nullptr;
  if (PyList_Sort(all) == 0 && PyList_Reverse(all) == 0) result = PyList_GetSlice(all, 0, count);
  Py_DECREF(all);
  return result;
}

template <int64_t Budget::*Field>
PyObject* get_number(PyObject* self, void*) {
  return PyLong_FromLongLong(as_budget(self)->*Field);
}

PyObject* budget_reset_peak(PyObject* self, PyObject*) {
  as_budget(self)->peak_bytes = as_budget(self)->used_bytes;
  Py_RETURN_NONE;
}

PyGetSetDef budget_getset[] = {
    {"max_bytes", get_number<&Budget::max_bytes>, nullptr, "The limit.", nullptr},
    {"used_bytes", get_number<&Budget::used_bytes>, nullptr, "What live buffers take now.", nullptr},
    {"peak_bytes", get_number<&Budget::peak_bytes>, nullptr, "The most that live buffers ever took together.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyMethodDef budget_methods[] = {
    {"charge", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(budget_charge)), METH_VARARGS | METH_KEYWORDS,
     "charge($self, nbytes, label)\n--\n\nTakes nbytes and returns a ticket for `release`; raises BudgetExceeded if they do not fit."},
    {"release", budget_release, METH_O, "release($self, ticket, /)\n--\n\nGives back what `charge` took."},
    {"largest_live", budget_largest, METH_VARARGS,
     "largest_live($self, count=3, /)\n--\n\n(bytes, name) of the largest buffers that are counted, the largest first."},
    {"reset_peak", budget_reset_peak, METH_NOARGS, "reset_peak($self, /)\n--\n\nLets peak_bytes start again from used_bytes."},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot budget_slots[] = {
    {Py_tp_doc, const_cast<char*>("ComputeBudget(max_bytes)\n--\n\nA limit and what has been taken of it, in bytes. Safe to use "
                                  "from several threads.")},
    {Py_tp_new, reinterpret_cast<void*>(budget_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(budget_dealloc)},
    {Py_tp_repr, reinterpret_cast<void*>(budget_repr)},
    {Py_tp_getset, budget_getset},
    {Py_tp_methods, budget_methods},
    {0, nullptr},
};
PyType_Spec budget_spec = {"tensor._kernels.ComputeBudget", sizeof(Budget), 0, Py_TPFLAGS_DEFAULT, budget_slots};

void ticket_dealloc(PyObject* self) {  // not released: the bytes stay counted, as the text of charge says
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}
PyType_Slot ticket_slots[] = {
    {Py_tp_doc, const_cast<char*>("What ComputeBudget.charge gives and release takes.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(ticket_dealloc)},
    {0, nullptr},
};
PyType_Spec ticket_spec = {"tensor._kernels.BudgetTicket", sizeof(Ticket), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, ticket_slots};

PyObject* py_trim_storage(PyObject*, PyObject*) { return PyLong_FromSize_t(storage_trim()); }

PyMethodDef functions[] = {
    {"trim_storage", py_trim_storage, METH_NOARGS,
     "trim_storage($module, /)\n--\n\nHands back to the allocator and the system what is kept of freed tensors; how many bytes that were."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int charge_active(int64_t nbytes, const char* label, Dtype dtype, int ndim, const int64_t* shape, Charge** out) {
  *out = nullptr;
  if (budgets_alive == 0) return 0;
  PyObject* budgets;
  if (PyContextVar_Get(active, nullptr, &budgets) < 0) return -1;
  Charge wanted{};
  wanted.nbytes = nbytes;
  describe(&wanted, label, nullptr, dtype, ndim, shape);
  const Py_ssize_t count = PyTuple_GET_SIZE(budgets);
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* b = PyTuple_GET_ITEM(budgets, i);
    Charge* c = Py_TYPE(b) == budget_type ? charge_one(as_budget(b), wanted) : nullptr;
    if (c == nullptr) {
      if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "the active budgets must be ComputeBudget objects");
      release_charges(*out);
      *out = nullptr;
      Py_DECREF(budgets);
      return -1;
    }
    c->sibling = *out;
    *out = c;
  }
  Py_DECREF(budgets);
  return 0;
}

void release_charges(Charge* charges) {
  while (charges != nullptr) {
    Charge* next = charges->sibling;
    release_one(charges);
    charges = next;
  }
}

int init_budget(PyObject* module) {
  if (add_type(module, "ComputeBudget", &budget_spec, &budget_type) < 0) return -1;
  if (add_type(module, "BudgetTicket", &ticket_spec, &ticket_type) < 0) return -1;
  PyObject* nothing = PyTuple_New(0);
  if (nothing == nullptr) return -1;
  if (add_functions(module, functions) < 0) {
    Py_DECREF(nothing);
    return -1;
  }
  active = PyContextVar_New("tensor.memory.budgets", nothing);
  Py_DECREF(nothing);
  if (active == nullptr) return -1;
  return PyModule_AddObjectRef(module, "active_budgets", active);
}

}  // namespace droveway
