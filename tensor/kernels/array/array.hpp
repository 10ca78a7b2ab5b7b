// What the files of this folder share among themselves: initialisers, the dispatcher, modes.
#pragma once
#include "spec.hpp"
#include "tensor.hpp"

namespace droveway {

// Each adds its types and functions to the module; −1 with an error set.
int init_dtype(PyObject* module);
int init_spec(PyObject* module);
int init_budget(PyObject* module);
int init_tensor(PyObject* module);
int init_creation(PyObject* module);
int init_views(PyObject* module);
int init_indexing(PyObject* module);
int init_rows(PyObject* module);
int init_assignment(PyObject* module);
int init_node(PyObject* module);
int init_apply(PyObject* module);
int init_exchange(PyObject* module);
int init_dlpack(PyObject* module);
int init_backward(PyObject* module);
int init_sum(PyObject* module);
int init_array(PyObject* module);  // all of them

int add_type(PyObject* module, const char* name, PyType_Spec* spec, PyTypeObject** out);
int add_functions(PyObject* module, PyMethodDef* functions);

// tensor.errors and other modules of ours, imported when they are first needed; borrowed attribute, or nullptr.
PyObject* from_module(const char* module, const char* name);  // new reference
PyObject* call_python(const char* module, const char* name, PyObject* const* arguments, size_t count);

struct Modes {
  bool grad = true;      // whether operations are recorded
  bool checked = false;  // tensor.checked()
  PyObject* noted = nullptr;  // list or nullptr: with gradients off, inputs that want them are appended to it
};
extern thread_local Modes modes;
uint64_t tape_sequence();  // the number that the next node gets
int note_inputs(Tensor* const* inputs, int count);

// apply(primitive, inputs, params): see apply.cpp. `inputs` is a tuple, `params` a dict or Py_None; all borrowed.
PyObject* apply_primitive(PyObject* primitive, PyObject* inputs, PyObject* params);

// The row of that name in tensor.primitives.registry, kept for later calls; borrowed.
PyObject* row(const char* name);
PyObject* row_if_loaded(const char* name);  // nullptr without error where row() has not been asked for it yet
// The row of an elementwise operation; borrowed.
PyObject* elementwise_row(int op);

// The elementwise operation on tensors that have a loop (apply checks that); primitive nullptr: looked up if it is recorded.
PyObject* apply_elementwise(PyObject* primitive, int op, Tensor* const* inputs, int count, PyObject* params, Dtype result);

// Whether the inputs may go straight to the loops, and the dtype of the result. May set an error (of params).
bool direct_elementwise(int op, Tensor* const* inputs, int count, PyObject* params, Dtype* result);

// Writes op(inputs) into out, which has the result's dtype and the broadcast shape. −1 with an error set.
int run_elementwise_into(int op, const View& out, const View* inputs, int count);

// Nodes. record() gives `out` its history if gradients are on and one of the inputs wants them. Inputs: Tensors.
bool wants_record(Tensor* const* inputs, int count);
// Whether t is a view that was made before its base got a new history in place: its elements are no longer of its own one.
bool outdated(const Tensor* t);
int require_current(const Tensor* t, const char* what);  // GradientError if it is
void renew_history(Tensor* t);                           // after t's node has been replaced in place
uint32_t keeps_of(PyObject* primitive, Tensor* const* inputs, int count);  // what of such a call its gradient reads
int record(PyObject* primitive, Tensor* const* inputs, int count, PyObject* params, Tensor* const* outs, int out_count);

inline bool plain(const Tensor* t) {  // nobody traces it, nobody wants gradients of it
  return (t->flags & (kTraced | kRequiresGrad)) == 0 && t->node == nullptr;
}

int optional_truth(PyObject* o);  // 0 or 1; −1 for None; −2 with an error set

// Python numbers.
bool is_scalar(PyObject* o);                               // bool, int, float or complex itself
bool scalar_fits_kind(PyObject* o, Dtype d);               // bool to bool, int to numbers, float to float and complex, …
int scalar_into(PyObject* o, Dtype d, void* element);      // OverflowError if it does not fit
PyObject* element_as_python(const void* element, Dtype d);
Tensor* scalar_tensor(PyObject* o, Dtype d, DeviceKind device);
Dtype default_dtype(PyObject* o);                          // that a Python number becomes
inline bool is_list(PyObject* o) { return PyList_Check(o) || PyTuple_Check(o); }
PyObject* from_lists(PyObject* value, const Dtype* wanted, PyObject* device, DeviceKind kind);  // lists of numbers and arrays

PyObject* tensor_subscript(PyObject* self, PyObject* key);
int tensor_assign(PyObject* self, PyObject* key, PyObject* value);
int in_place_allowed(Tensor* t, bool result_wants_grad, const char* what);
// target's elements = value, cast and broadcast; `check` asks in_place_allowed first.
int assign_into(Tensor* target, PyObject* value, const char* what, bool check = true);

extern PyType_Slot operator_slots[];
extern const int operator_slot_count;
PyObject* tensor_compare(PyObject* a, PyObject* b, int op);

int buffer_get(PyObject* self, Py_buffer* view, int flags);
void buffer_release(PyObject* self, Py_buffer* view);
PyObject* tensor_item(PyObject* self);
PyObject* tensor_complex(PyObject* self, PyObject*);
PyObject* from_foreign(PyObject* value, int copy);  // of a buffer, DLPack or __array__ object: its own dtype
PyObject* asarray(PyObject* value, PyObject* dtype, PyObject* device, int copy);  // copy: 1, 0, or −1 for None

}  // namespace droveway
