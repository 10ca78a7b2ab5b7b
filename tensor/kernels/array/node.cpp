// Nodes of the tape. A node holds what its gradient reads, never the tensor objects that it made: no cycle.
#include "node.hpp"

#include <string.h>

#include "array.hpp"
#include "primitive.hpp"

namespace droveway {

PyTypeObject* node_type;

namespace {

uint64_t next_sequence = 1;
Node* waiting;     // nodes whose end is put off, so that a long chain ends in a loop instead of a recursion
bool ending;

void clear(Node* n) {
  const int count = n->inputs + n->outputs;
  Link* links = n->links;
  n->inputs = n->outputs = 0;
  n->links = nullptr;
  for (int i = 0; i < count; ++i) {
    Py_XDECREF(links[i].value);
    Py_XDECREF(links[i].target);
  }
  if (links != nullptr && links != n->inline_links) PyMem_Free(links);
  Py_CLEAR(n->params);
}

void node_dealloc(PyObject* self) {
  Node* n = as_node(self);
  n->pending = waiting;
  waiting = n;
  if (ending) return;
  ending = true;
  PyTypeObject* type = Py_TYPE(self);
  while (waiting != nullptr) {
    Node* last = waiting;
    waiting = last->pending;
    clear(last);
    Py_XDECREF(last->primitive);
    PyObject_Free(last);
    Py_DECREF(type);
  }
  ending = false;
}

PyObject* spec_of(const Tensor* t) { return spec_new(t->dtype, t->ndim, t->shape(), t->device); }

// Another object for the same elements, so that the node never owns what owns it.
Tensor* without_history(const Tensor* t) {
  if ((t->flags & kTraced) != 0) {
    PyObject* self = as_object(const_cast<Tensor*>(t));
    return as_tensor(call_python("tensor.autograd.trace", "detach_traced", &self, 1));
  }
  return tensor_alias(t, false);
}

const char* name_of(const Node* n) {
  const char* name = n->primitive == nullptr ? nullptr : primitive_name(n->primitive);
  return name == nullptr ? "an operation" : name;
}

bool unreleased(const Node* n) {
  if (n->links != nullptr) return true;
  raise_error("GradientError",
               "backward of %s: what it saved is gone, because backward ran through it before (hint: backward(retain_graph=True))",
               name_of(n));
  return false;
}

bool unchanged(const Node* n, const Link& link, const char* kind, int i) {
  if (!is_tensor(link.value)) return true;
  const Storage* s = as_tensor(link.value)->storage;
  if (s == nullptr || s->version == link.version) return true;
  PyObject* spec = spec_of(as_tensor(link.value));
  if (spec == nullptr) return false;
  raise_error("GradientError",
               "backward of %s: %s %d (%R) was changed in place after it was saved: version %u then, %u now (hint: x = x + y "
               "instead of x += y, or .clone() before)",
               name_of(n), kind, i, spec, link.version, s->version);
  Py_DECREF(spec);
  return false;
}

// A tuple of what item(i) makes of the links; it may run Python, and another thread may release the node meanwhile.
template <class Make>
PyObject* tuple_of(PyObject* self, int Node::*length, Make item) {
  Node* n = as_node(self);
  if (!unreleased(n)) return nullptr;
  const int count = n->*length;
  PyObject* tuple = PyTuple_New(count);
  for (int i = 0; tuple != nullptr && i < count; ++i) {
    PyObject* one = unreleased(n) ? item(n, i) : nullptr;
    if (one == nullptr)
      Py_CLEAR(tuple);
    else
      PyTuple_SET_ITEM(tuple, i, one);
  }
  return tuple;
}

PyObject* get_inputs(PyObject* self, void*) {
  return tuple_of(self, &Node::inputs, [](Node* n, int i) -> PyObject* {
    return unchanged(n, n->links[i], "input", i) ? Py_NewRef(n->links[i].value) : nullptr;
  });
}

PyObject* get_outputs(PyObject* self, void*) {
  return tuple_of(self, &Node::outputs, [](Node* n, int i) -> PyObject* {
    const Link& link = n->links[n->inputs + i];
    if (!unchanged(n, link, "output", i)) return nullptr;
    PyObject* value = Py_NewRef(link.value);
    if (!is_tensor(value) || !modes.grad) return value;
    Tensor* again = without_history(as_tensor(value));  // its history again, for gradients of gradients
    Py_DECREF(value);
    if (again != nullptr) {
      PyObject* before = again->node;
      again->node = Py_NewRef(reinterpret_cast<PyObject*>(n));
      again->output_index = uint32_t(i);
      Py_XDECREF(before);
    }
    return as_object(again);
  });
}

PyObject* get_edges(PyObject* self, void*) {
  return tuple_of(self, &Node::inputs, [](Node* n, int i) -> PyObject* {
    const Link& link = n->links[i];
    if (link.target == nullptr) return Py_NewRef(Py_None);
    return is_node(link.target) ? Py_BuildValue("(OI)", link.target, link.index) : Py_NewRef(link.target);
  });
}

PyObject* get_needs(PyObject* self, void*) {
  return tuple_of(self, &Node::inputs, [](Node* n, int i) -> PyObject* { return PyBool_FromLong(n->links[i].target != nullptr); });
}

PyObject* get_output_specs(PyObject* self, void*) {
  return tuple_of(self, &Node::outputs, [](Node* n, int i) -> PyObject* {
    PyObject* value = n->links[n->inputs + i].value;
    return is_tensor(value) ? spec_of(as_tensor(value)) : Py_NewRef(value);
  });
}

PyObject* get_primitive(PyObject* self, void*) { return Py_NewRef(as_node(self)->primitive); }
PyObject* get_params(PyObject* self, void*) {
  PyObject* params = as_node(self)->params;
  return Py_NewRef(params == nullptr ? Py_None : params);
}
PyObject* get_sequence(PyObject* self, void*) { return PyLong_FromUnsignedLongLong(as_node(self)->sequence); }
PyObject* get_output_count(PyObject* self, void*) { return PyLong_FromLong(as_node(self)->outputs); }
PyObject* get_released(PyObject* self, void*) { return PyBool_FromLong(as_node(self)->links == nullptr); }

PyObject* release(PyObject* self, PyObject*) {
  clear(as_node(self));
  Py_RETURN_NONE;
}

PyObject* node_repr(PyObject* self) {
  Node* n = as_node(self);
  return PyUnicode_FromFormat("<node %llu of %s>", (unsigned long long)n->sequence, name_of(n));
}

PyGetSetDef node_getset[] = {
    {"primitive", get_primitive, nullptr, "The registry's row.", nullptr},
    {"params", get_params, nullptr, "The row's parameters: a dict or None.", nullptr},
    {"inputs", get_inputs, nullptr, "Tensors where the gradient reads them, Specs elsewhere. RuntimeError if one was changed.", nullptr},
    {"outputs", get_outputs, nullptr, "The same for the results.", nullptr},
    {"output_specs", get_output_specs, nullptr, "Specs of the results.", nullptr},
    {"edges", get_edges, nullptr, "Where gradients of the inputs go: (Node, output index), a leaf Tensor, or None.", nullptr},
    {"needs", get_needs, nullptr, "Whether the gradient of each input is wanted.", nullptr},
    {"sequence", get_sequence, nullptr, "Counts up with every recorded operation.", nullptr},
    {"output_count", get_output_count, nullptr, "How many results it has.", nullptr},
    {"released", get_released, nullptr, "Whether release() was called.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyMethodDef node_methods[] = {
    {"release", release, METH_NOARGS, "release($self, /)\n--\n\nLets go of all that it saved, and of the nodes before it."},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot node_slots[] = {
    {Py_tp_doc, const_cast<char*>("One recorded operation: what the gradient reads, and where gradients go.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(node_dealloc)},
    {Py_tp_repr, reinterpret_cast<void*>(node_repr)},
    {Py_tp_getset, node_getset},
    {Py_tp_methods, node_methods},
    {0, nullptr},
};
PyType_Spec node_spec = {"tensor._kernels.Node", sizeof(Node), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, node_slots};

// Whether bit i of the inputs' (shift 0) or outputs' (shift 16) part of the mask is set; input 15 stands for later ones.
bool kept(uint32_t keeps, int i, int shift) { return (keeps >> (shift + (i < 15 ? i : 15)) & 1) != 0; }

}  // namespace

uint64_t tape_sequence() { return next_sequence; }

int note_inputs(Tensor* const* inputs, int count) {
  for (int i = 0; i < count; ++i)
    if (requires_grad(inputs[i]) && PyList_Append(modes.noted, as_object(inputs[i])) < 0) return -1;
  return 0;
}

bool wants_record(Tensor* const* inputs, int count) {
  if (!modes.grad) {
    if (modes.noted != nullptr && note_inputs(inputs, count) < 0) PyErr_Clear();
    return false;
  }
  for (int i = 0; i < count; ++i)
    if (requires_grad(inputs[i])) return true;
  return false;
}

namespace {

// The link of t's own node that stands for t, if it holds no saved tensor.
Link* own_link(const Tensor* t) {
  if (t->node == nullptr || t->storage == nullptr || !is_node(t->node)) return nullptr;
  Node* n = as_node(t->node);
  if (n->links == nullptr || int(t->output_index) >= n->outputs) return nullptr;
  Link& link = n->links[n->inputs + int(t->output_index)];
  return is_tensor(link.value) ? nullptr : &link;
}

}  // namespace

bool outdated(const Tensor* t) {
  if ((t->flags & kIsView) == 0) return false;
  const Link* link = own_link(t);
  return link != nullptr && link->version != t->storage->histories;
}

int require_current(const Tensor* t, const char* what) {
  if (!outdated(t)) return 0;
  PyObject* spec = spec_of(t);
  if (spec != nullptr)
    raise_error("GradientError",
                "%s: the view %R was made before its base was changed in place, so its elements have another history (hint: "
                "take the view again, or .clone() before)", what, spec);
  Py_XDECREF(spec);
  return -1;
}

void renew_history(Tensor* t) {
  if (t->storage == nullptr) return;
  ++t->storage->histories;
  Link* link = own_link(t);
  if (link != nullptr) link->version = t->storage->histories;
}

uint32_t keeps_of(PyObject* primitive, Tensor* const* inputs, int count) {
  const Primitive* p = as_primitive(primitive);
  if (count != 2) return p->keeps;
  const bool first = requires_grad(inputs[0]), second = requires_grad(inputs[1]);
  return first == second ? p->keeps : p->alone[first ? 0 : 1];
}

int record(PyObject* primitive, Tensor* const* inputs, int count, PyObject* params, Tensor* const* outs, int out_count) {
  for (int i = 0; i < count; ++i)
    if (requires_grad(inputs[i]) && require_current(inputs[i], primitive_name(primitive)) < 0) return -1;
  Node* n = PyObject_New(Node, node_type);
  if (n == nullptr) return -1;
  n->primitive = Py_NewRef(primitive);
  n->params = params == Py_None ? nullptr : Py_XNewRef(params);
  n->sequence = next_sequence++;
  n->inputs = n->outputs = 0;
  n->links = n->inline_links;
  if (count + out_count > 3) {
    n->links = static_cast<Link*>(PyMem_Malloc(size_t(count + out_count) * sizeof(Link)));
    if (n->links == nullptr) {
      Py_DECREF(n);
      PyErr_NoMemory();
      return -1;
    }
  }
  const uint32_t keeps = keeps_of(primitive, inputs, count);
  for (int i = 0; i < count; ++i) {
    Tensor* t = inputs[i];
    Link& link = n->links[i];
    link = Link{nullptr, nullptr, 0, 0};
    n->inputs = i + 1;
    if (kept(keeps, i, 0)) {
      link.value = Py_NewRef(as_object(t));
      link.version = t->storage == nullptr ? 0 : t->storage->version;
    } else {
      link.value = spec_of(t);
    }
    if (link.value == nullptr) {
      Py_DECREF(n);
      return -1;
    }
    if (t->node != nullptr) {
      link.target = Py_NewRef(t->node);
      link.index = t->output_index;
    } else if ((t->flags & kRequiresGrad) != 0) {
      link.target = Py_NewRef(as_object(t));
    }
  }
  for (int i = 0; i < out_count; ++i) {
    Tensor* t = outs[i];
    Link& link = n->links[count + i];
    link = Link{nullptr, nullptr, 0, 0};
    n->outputs = i + 1;
    if (kept(keeps, i, 16)) {
      link.value = as_object(without_history(t));
      link.version = t->storage == nullptr ? 0 : t->storage->version;
    } else {
      link.value = spec_of(t);
      link.version = t->storage == nullptr ? 0 : t->storage->histories;
    }
    if (link.value == nullptr) {
      Py_DECREF(n);
      return -1;
    }
  }
  for (int i = 0; i < out_count; ++i) {
    if (!is_float(outs[i]->dtype) && !is_complex(outs[i]->dtype)) continue;
    PyObject* before = outs[i]->node;
    outs[i]->node = Py_NewRef(reinterpret_cast<PyObject*>(n));
    outs[i]->output_index = uint32_t(i);
    Py_XDECREF(before);
  }
  Py_DECREF(n);
  return 0;
}

void node_release(Node* n) { clear(n); }

int init_node(PyObject* module) { return add_type(module, "Node", &node_spec, &node_type); }

}  // namespace droveway
