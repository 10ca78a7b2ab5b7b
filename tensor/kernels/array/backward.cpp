// The reverse pass over the tape, from given results to the leaves; what tensor.autograd.backward calls where nothing
// has to be captured on the way. Order: the node with the highest number first, gradients of one tensor added in the
// order in which they arrive, which is by falling number of the reader, then by the position of the input.
#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "array.hpp"
#include "elementwise.hpp"
#include "elementwise_ops.hpp"
#include "in_use.hpp"
#include "methods.hpp"
#include "node.hpp"
#include "primitive.hpp"

namespace droveway {

namespace {

PyObject *str_vjp, *str_sparse_gradients, *str_axis, *str_keepdims;

constexpr char kReleased[] = "backward: the node was released by its rule, or by another thread's backward, while it was in use";

struct Entry {
  Node* node;  // owned
  std::vector<PyObject*> gradients;  // owned, one a result, nullptr until one arrives
};

struct Leaf {
  PyObject* tensor;    // owned
  PyObject* gradient;  // owned
};

class Pass {
 public:
  explicit Pass(bool keep) : keep_(keep) {}
  ~Pass() {
    for (auto& [node, entry] : entries_) drop(entry);
    for (Leaf& leaf : leaves_) {
      Py_DECREF(leaf.tensor);
      Py_XDECREF(leaf.gradient);
    }
  }
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;

  // Takes over g. −1 with an error set.
  int arrive(PyObject* target, uint32_t index, PyObject* g) {
    PyObject** place;
    if (is_node(target)) {
      auto [at, fresh] = entries_.try_emplace(as_node(target));
      Entry& entry = at->second;
      if (fresh) {
        entry.node = as_node(Py_NewRef(target));
        entry.gradients.assign(entry.node->outputs, nullptr);
        heap_.emplace_back(entry.node->sequence, entry.node);
        std::push_heap(heap_.begin(), heap_.end());
      }
      if (index >= entry.gradients.size()) {  // released: reading it says so
        Py_DECREF(g);
        Py_XDECREF(PyObject_GetAttrString(target, "inputs"));
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_SystemError, "backward: a result that its node does not have");
        return -1;
      }
      place = &entry.gradients[index];
    } else {
      auto [at, fresh] = leaf_at_.try_emplace(target, leaves_.size());
      if (fresh) leaves_.push_back({Py_NewRef(target), nullptr});
      place = &leaves_[at->second].gradient;
    }
    if (*place == nullptr) {
      *place = g;
      return 0;
    }
    PyObject* sum = PyNumber_Add(*place, g);
    Py_DECREF(*place);
    Py_DECREF(g);
    *place = sum;
    return sum == nullptr ? -1 : 0;
  }

  int run() {
    while (!heap_.empty()) {
      Node* node = heap_.front().second;
      std::pop_heap(heap_.begin(), heap_.end());
      heap_.pop_back();
      auto at = entries_.find(node);
      Entry entry = std::move(at->second);
      entries_.erase(at);
      const int done = step(entry);
      drop(entry);
      if (done < 0) return -1;
    }
    return 0;
  }

  std::vector<Leaf>& leaves() { return leaves_; }

 private:
  static void drop(Entry& entry) {
    for (PyObject* g : entry.gradients) Py_XDECREF(g);
    entry.gradients.clear();
    Py_XDECREF(reinterpret_cast<PyObject*>(entry.node));
    entry.node = nullptr;
  }

  int step(Entry& entry);
  PyObject* vjp(Entry& entry);
  bool simple(Entry& entry, PyObject** results);

  bool keep_;
  std::unordered_map<Node*, Entry> entries_;
  std::vector<std::pair<uint64_t, Node*>> heap_;
  std::unordered_map<PyObject*, size_t> leaf_at_;
  std::vector<Leaf> leaves_;
};

bool same_shape(const Tensor* g, PyObject* value) {
  Spec s;
  if (!spec_read(value, &s) || s.ndim != g->ndim) return false;
  return std::equal(s.shape, s.shape + s.ndim, g->shape());
}

bool ordinary(PyObject* o) {  // a plain tensor with kernels
  return Py_TYPE(o) == tensor_type && plain(as_tensor(o)) && as_tensor(o)->device == DeviceKind::cpu && as_tensor(o)->storage != nullptr;
}

bool unchanged(const Link& link) {
  return is_tensor(link.value) && as_tensor(link.value)->storage != nullptr && as_tensor(link.value)->storage->version == link.version;
}

// The derivatives of a few rows without going through Python: the same operations in the same order as their rows have
// them, on tensors that nobody follows. False: not from here (no error set, nothing in results).
bool Pass::simple(Entry& entry, PyObject** results) {
  const Node* n = entry.node;
  if (modes.grad || modes.checked || tensor_kernels() == nullptr || n->links == nullptr || n->outputs != 1 || !ordinary(entry.gradients[0])) return false;
  Tensor* g = as_tensor(entry.gradients[0]);
  const int op = as_primitive(n->primitive)->op;
  if (op == op_add || op == op_sub || op == op_mul) {
    for (int i = 0; i < 2; ++i) {
      if (!same_shape(g, n->links[i].value)) return false;
      const Link& other = n->links[1 - i];
      if (op == op_mul && n->links[i].target != nullptr &&
          (!unchanged(other) || Py_TYPE(other.value) != tensor_type || is_complex(g->dtype) || as_tensor(other.value)->dtype != g->dtype ||
           (as_tensor(other.value)->flags & kTraced) != 0))
        return false;
    }
    for (int i = 0; i < 2; ++i) {
      if (n->links[i].target == nullptr) continue;
      if (op == op_add || (op == op_sub && i == 0)) {
        results[i] = Py_NewRef(as_object(g));
      } else if (op == op_sub) {
        results[i] = apply_elementwise(nullptr, op_neg, &g, 1, Py_None, g->dtype);
      } else {
        PyObject* other = Py_NewRef(n->links[1 - i].value);  // another thread may release the node meanwhile
        Tensor* in[2] = {g, as_tensor(other)};
        results[i] = apply_elementwise(nullptr, op_mul, in, 2, Py_None, g->dtype);
        Py_DECREF(other);
        if (results[i] != nullptr && n->links == nullptr) {
          PyErr_SetString(PyExc_RuntimeError, kReleased);
          return true;
        }
      }
      if (results[i] == nullptr) return true;  // with the error
    }
    return true;
  }
  if (n->primitive == row_if_loaded("sum")) {
    Spec x;
    PyObject* axes = n->params == nullptr ? nullptr : PyDict_GetItemWithError(n->params, str_axis);
    PyObject* keepdims = n->params == nullptr ? nullptr : PyDict_GetItemWithError(n->params, str_keepdims);
    if (axes == nullptr || !PyTuple_Check(axes) || keepdims == nullptr || !spec_read(n->links[0].value, &x) || x.dtype != g->dtype) return false;
    uint32_t mask = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(axes); ++i) mask |= 1u << PyLong_AsLong(PyTuple_GET_ITEM(axes, i));
    int64_t strides[kDimsMax];
    int d = 0;
    for (int k = 0; k < x.ndim; ++k) {
      const bool reduced = (mask >> k & 1) != 0;
      if (reduced && keepdims == Py_True) ++d;
      strides[k] = reduced ? 0 : g->strides()[d++];
    }
    results[0] = as_object(tensor_view(g, g->data, x.ndim, x.shape, strides));
    return true;
  }
  return false;
}

// The sequence of the inputs' gradients by the row's rule.
PyObject* Pass::vjp(Entry& entry) {
  PyObject* self = reinterpret_cast<PyObject*>(entry.node);
  PyObject* primitive = entry.node->primitive;
  PyObject* rule = PyObject_GetAttr(primitive, str_vjp);
  if (rule == nullptr) return nullptr;
  if (rule == Py_None) {
    Py_DECREF(rule);
    PyObject* text = call_python("tensor.autograd.backward", "no_derivative", &primitive, 1);
    if (text != nullptr) raise_error("GradientError", "%U", text);
    Py_XDECREF(text);
    return nullptr;
  }
  PyObject* g;
  if (entry.gradients.size() == 1) {
    g = Py_NewRef(entry.gradients[0]);
  } else {
    PyObject* sparse = PyObject_GetAttr(primitive, str_sparse_gradients);
    const bool none_allowed = sparse != nullptr && PyObject_IsTrue(sparse) == 1;
    Py_XDECREF(sparse);
    PyErr_Clear();
    g = PyTuple_New(Py_ssize_t(entry.gradients.size()));
    for (size_t i = 0; g != nullptr && i < entry.gradients.size(); ++i) {
      PyObject* one = entry.gradients[i];
      if (one != nullptr || none_allowed) {
        one = Py_NewRef(one == nullptr ? Py_None : one);
      } else if (entry.node->links == nullptr) {
        PyErr_SetString(PyExc_RuntimeError, kReleased);
      } else {
        PyObject* like = Py_NewRef(entry.node->links[entry.node->inputs + int(i)].value);
        one = call_python("tensor.primitives.rules", "zeros_like_spec", &like, 1);
        Py_DECREF(like);
      }
      if (one == nullptr)
        Py_CLEAR(g);
      else
        PyTuple_SET_ITEM(g, Py_ssize_t(i), one);
    }
  }
  PyObject* results = nullptr;
  if (g != nullptr) {
    PyObject* arguments[] = {g, self};
    results = PyObject_Vectorcall(rule, arguments, 2, nullptr);
  }
  Py_XDECREF(g);
  Py_DECREF(rule);
  if (results == nullptr) return nullptr;
  if (modes.checked) {
    PyObject* arguments[] = {self, results};
    PyObject* done = call_python("tensor.autograd.anomaly", "check_gradients", arguments, 2);
    if (done == nullptr) Py_CLEAR(results);
    Py_XDECREF(done);
  }
  return results;
}

int Pass::step(Entry& entry) {
  Node* n = entry.node;
  if (n->links == nullptr) {  // released: reading it says so
    Py_XDECREF(PyObject_GetAttrString(reinterpret_cast<PyObject*>(n), "inputs"));
    return -1;
  }
  const int count = n->inputs;
  PyObject* few[8] = {};
  std::vector<PyObject*> many(count > 8 ? size_t(count) : 0, nullptr);
  PyObject** results = count > 8 ? many.data() : few;
  bool good = true;
  if (!simple(entry, results)) {
    PyObject* sequence = vjp(entry);
    PyObject* fast = sequence == nullptr ? nullptr : PySequence_Fast(sequence, "a gradient rule must give a sequence");
    Py_XDECREF(sequence);
    if (fast == nullptr) return -1;
    if (PySequence_Fast_GET_SIZE(fast) != count) {
      raise_error("GradientError", "backward of %s: its rule gave %zd gradients for %d inputs", primitive_name(n->primitive),
                  PySequence_Fast_GET_SIZE(fast), count);
      good = false;
    }
    for (int i = 0; good && i < count; ++i) {
      PyObject* one = PySequence_Fast_GET_ITEM(fast, i);
      if (one != Py_None) results[i] = Py_NewRef(one);
    }
    Py_DECREF(fast);
  } else {
    good = !PyErr_Occurred();
  }
  if (n->links == nullptr && good) {  // the rule released its own node
    PyErr_SetString(PyExc_RuntimeError, kReleased);
    good = false;
  }
  if (good) {
    std::vector<Link> edges(n->links, n->links + count);
    for (Link& edge : edges) Py_XINCREF(edge.target);
    if (!keep_) node_release(n);
    for (int i = 0; i < count; ++i) {
      PyObject* g = std::exchange(results[i], nullptr);
      if (good && g != nullptr && edges[size_t(i)].target != nullptr)
        good = arrive(edges[size_t(i)].target, edges[size_t(i)].index, g) == 0;
      else
        Py_XDECREF(g);
    }
    for (Link& edge : edges) Py_XDECREF(edge.target);
  }
  for (int i = 0; i < count; ++i) Py_XDECREF(results[i]);
  return good ? 0 : -1;
}

int start(Pass& pass, PyObject* output, PyObject* seed) {
  Tensor* t = as_tensor(output);
  PyObject* target = t->node != nullptr ? t->node : output;
  return pass.arrive(target, t->output_index, Py_NewRef(seed));
}

PyObject* py_backward_pass(PyObject*, PyObject* args) {
  PyObject *outputs, *seeds;
  int keep;
  if (!PyArg_ParseTuple(args, "O!O!p:backward_pass", &PyTuple_Type, &outputs, &PyTuple_Type, &seeds, &keep)) return nullptr;
  const Py_ssize_t count = PyTuple_GET_SIZE(outputs);
  Pass pass(keep != 0);
  bool good = PyTuple_GET_SIZE(seeds) == count;
  for (Py_ssize_t i = 0; good && i < count; ++i) good = is_tensor(PyTuple_GET_ITEM(outputs, i)) && is_tensor(PyTuple_GET_ITEM(seeds, i));
  if (!good) return PyErr_SetString(PyExc_TypeError, "backward_pass: needs as many seeds as outputs, all Tensors"), nullptr;
  for (Py_ssize_t i = 0; i < count; ++i)
    if (start(pass, PyTuple_GET_ITEM(outputs, i), PyTuple_GET_ITEM(seeds, i)) < 0) return nullptr;
  if (pass.run() < 0) return nullptr;
  PyObject* list = PyList_New(0);
  for (Leaf& leaf : pass.leaves()) {
    PyObject* pair = list == nullptr ? nullptr : PyTuple_Pack(2, leaf.tensor, leaf.gradient);
    if (pair == nullptr || PyList_Append(list, pair) < 0) Py_CLEAR(list);
    Py_XDECREF(pair);
  }
  return list;
}

// x.backward() on a scalar in the usual case; whatever is not usual goes to tensor.autograd.backward.
PyObject* backward(PyObject* self, PyObject* args, PyObject* kwargs) {
  Tensor* t = as_tensor(self);
  const bool usual = PyTuple_GET_SIZE(args) == 0 && (kwargs == nullptr || PyDict_GET_SIZE(kwargs) == 0) && Py_TYPE(self) == tensor_type &&
                     t->node != nullptr && t->ndim == 0 && is_float(t->dtype) && t->device == DeviceKind::cpu && !modes.checked &&
                     (t->flags & kTraced) == 0 && !outdated(t);
  if (!usual) {
    PyObject* function = from_module("tensor.autograd.backward", "backward");
    PyObject* all = function == nullptr ? nullptr : PyTuple_New(PyTuple_GET_SIZE(args) + 1);
    if (all == nullptr) {
      Py_XDECREF(function);
      return nullptr;
    }
    PyTuple_SET_ITEM(all, 0, Py_NewRef(self));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) PyTuple_SET_ITEM(all, i + 1, Py_NewRef(PyTuple_GET_ITEM(args, i)));
    PyObject* result = PyObject_Call(function, all, kwargs);
    Py_DECREF(all);
    Py_DECREF(function);
    return result;
  }
  PyObject* one = PyLong_FromLong(1);
  Tensor* seed = one == nullptr ? nullptr : scalar_tensor(one, t->dtype, t->device);
  Py_XDECREF(one);
  if (seed == nullptr) return nullptr;
  struct GradOff {
    bool before = std::exchange(modes.grad, false);
    ~GradOff() { modes.grad = before; }
  } off;
  Pass pass(false);
  const int begun = start(pass, self, as_object(seed));
  Py_DECREF(seed);
  if (begun < 0 || pass.run() < 0) return nullptr;
  std::vector<Leaf>& leaves = pass.leaves();
  for (Leaf& leaf : leaves) {  // if one fails, no .grad changes
    Tensor* g = as_tensor(leaf.gradient);
    PyObject* old = as_tensor(leaf.tensor)->grad;
    if (!is_tensor(leaf.gradient)) return PyErr_SetString(PyExc_TypeError, "backward: a gradient rule gave no Tensor"), nullptr;
    PyObject* total = nullptr;
    if (old != nullptr) {
      Py_INCREF(old);  // another thread may put its own there
      total = PyNumber_Add(old, leaf.gradient);
      Py_DECREF(old);
    } else if ((g->flags & kIsView) != 0 || Py_REFCNT(leaf.gradient) > 1 || (g->storage != nullptr && g->storage->refs > 1)) {
      total = PyObject_CallMethod(leaf.gradient, "clone", nullptr);
    } else if (requires_grad(g)) {
      total = PyObject_CallMethod(leaf.gradient, "detach", nullptr);
    } else {
      continue;
    }
    if (total == nullptr) return nullptr;
    Py_SETREF(leaf.gradient, total);
  }
  for (Leaf& leaf : leaves)
    if (PyObject_SetAttrString(leaf.tensor, "grad", leaf.gradient) < 0) return nullptr;
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"backward_pass", py_backward_pass, METH_VARARGS,
     "backward_pass($module, outputs, seeds, keep, /)\n--\n\nCarries gradients to the leaves: [(leaf, gradient)] in the order of their "
     "first arrival. keep: nodes keep what they saved."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyMethodDef backward_methods[] = {
    {"backward", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(backward)), METH_VARARGS | METH_KEYWORDS,
     "backward($self, gradient=None, *, retain_graph=False, create_graph=False)\n--\n\nAdds the gradient of the tensor, which must be "
     "one number unless gradient is given, to the .grad of each leaf it was computed from: tensor.autograd.backward."},
    {nullptr, nullptr, 0, nullptr},
};

int init_backward(PyObject* module) {
  str_vjp = PyUnicode_InternFromString("vjp");
  str_sparse_gradients = PyUnicode_InternFromString("sparse_gradients");
  str_axis = PyUnicode_InternFromString("axis");
  str_keepdims = PyUnicode_InternFromString("keepdims");
  return add_functions(module, functions);
}

}  // namespace droveway
