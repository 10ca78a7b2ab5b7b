// Node: one recorded operation.
#pragma once
#include "spec.hpp"
#include "tensor.hpp"

namespace droveway {

// One input or output of a recorded operation.
struct Link {
  PyObject* value;     // Tensor if the gradient reads it (an output: an alias without history), else its Spec
  PyObject* target;    // input: the Node or leaf Tensor that its gradient goes to, or nullptr
  uint32_t index;      // which output of the target
  uint32_t version;    // of the value's storage when it was saved
};

struct Node {
  PyObject_HEAD
  PyObject* primitive;  // nullptr after release()
  PyObject* params;     // dict or None
  uint64_t sequence;
  int inputs, outputs;
  Node* pending;  // next in the list of nodes that wait for their end
  Link* links;    // inputs, then outputs
  Link inline_links[3];
};

void node_release(Node* n);  // lets go of all that it saved, and of the nodes before it

inline bool is_node(PyObject* o) { return Py_TYPE(o) == node_type; }
inline Node* as_node(PyObject* o) { return reinterpret_cast<Node*>(o); }

}  // namespace droveway
