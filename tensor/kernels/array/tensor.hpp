// The tensor object: one owner of memory (Storage), and any number of tensors that look at it.
// Everything here is called with Python's lock held. Functions that return a PyObject* return a new reference, or
// nullptr with a Python error set.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "dtype.hpp"
#include "view.hpp"

namespace droveway {

struct Charge;  // budget.hpp

enum class MemorySpace : uint8_t { host, device, shared, sram, dram, vram };

struct Storage {
  uint32_t refs;      // tensors, exports and kernels that look at it
  uint32_t version;   // counts changes in place
  char* data;         // aligned to 64 bytes where we own it
  size_t nbytes;
  DeviceKind device;
  MemorySpace space;
  uint8_t size_class; // 0: of the allocator; 1 …: a small block of a free list; 254: pages; 255: somebody else's
  bool read_only;
  uint32_t histories;                 // counts changes in place that were recorded
  PyObject* owner;                    // somebody else's memory: kept until released
  void (*release)(Storage* storage);  // how; nullptr: Py_XDECREF(owner)
  void* context;                      // for release
  Charge* charges;                    // what it counts in the active memory budgets
};

enum TensorFlags : uint8_t {
  kRequiresGrad = 1,  // a leaf that collects gradients, or has a node
  kIsView = 2,        // made by a view operation: may share its storage
  kTraced = 4,        // a Tracer: operations go to tensor.autograd.trace
};

constexpr int kDimsInline = 6;

struct Tensor {
  PyObject_HEAD
  Storage* storage;  // nullptr for a tracer without value
  char* data;        // of the element with all indices 0
  int64_t* dims;     // shape, then strides: inline_dims, or memory of its own
  Dtype dtype;
  DeviceKind device;
  uint8_t ndim;
  uint8_t flags;
  uint32_t output_index;  // which output of `node` it is
  PyObject* node;         // Node or nullptr
  PyObject* grad;         // Tensor or nullptr
  PyObject* weakrefs;
  int64_t inline_dims[2 * kDimsInline];

  const int64_t* shape() const { return dims; }
  const int64_t* strides() const { return dims + ndim; }
  int64_t* shape() { return dims; }
  int64_t* strides() { return dims + ndim; }
};

extern PyTypeObject* tensor_type;
extern PyTypeObject* spec_type;
extern PyTypeObject* dtype_type;
extern PyTypeObject* node_type;

inline bool is_tensor(PyObject* o) { return Py_TYPE(o) == tensor_type || PyType_IsSubtype(Py_TYPE(o), tensor_type); }
inline Tensor* as_tensor(PyObject* o) { return reinterpret_cast<Tensor*>(o); }
inline PyObject* as_object(Tensor* t) { return reinterpret_cast<PyObject*>(t); }

inline View view_of(const Tensor* t) { return {t->data, t->dtype, t->ndim, t->shape(), t->strides()}; }
inline bool requires_grad(const Tensor* t) { return (t->flags & kRequiresGrad) != 0 || t->node != nullptr; }

// A tensor of the shape with undefined content, C order, counted in the active budgets under `label` (its text must
// outlive the tensor: a literal or an interned name). Raises ShapeError for sizes that overflow, BudgetExceeded, MemoryError.
Tensor* tensor_empty(Dtype dtype, int ndim, const int64_t* shape, DeviceKind device, const char* label);

// Whether so many elements have addresses, their product without the lengths of 0; ShapeError (`label: …`) if not.
bool shape_fits(const char* label, Dtype dtype, int ndim, const int64_t* shape);

// A tensor that looks at base's storage. Takes no history along.
Tensor* tensor_view(const Tensor* base, char* data, int ndim, const int64_t* shape, const int64_t* strides);

// Another plain tensor for the same elements, with the same history or none.
Tensor* tensor_alias(const Tensor* t, bool with_history);

// A tensor over a storage; takes over the caller's reference to it, also in failure.
Tensor* tensor_over(Storage* storage, char* data, Dtype dtype, int ndim, const int64_t* shape, const int64_t* strides);

// A 64-byte aligned storage of undefined content; a buffer that counts in the budgets (a kernel's workspace is one too).
Storage* storage_new(size_t nbytes, const char* label, Dtype dtype = Dtype::u8, int ndim = -1, const int64_t* shape = nullptr);
inline void storage_incref(Storage* s) { ++s->refs; }
void storage_free(Storage* s);
size_t storage_trim();  // hands back what is kept of freed storages; how many bytes that were
// Over somebody else's memory. Takes over the reference to owner; `release` (or a decref of owner) ends it.
Storage* storage_foreign(char* data, size_t nbytes, PyObject* owner, void (*release)(Storage*), void* context);
inline void storage_decref(Storage* s) {
  if (--s->refs == 0) storage_free(s);
}

// dst's elements = src's (same dtype and shape, any strides; no overlap). Data movement: bits are kept.
void copy_elements(const View& dst, const View& src);

// Fills from one element's bytes.
void fill_elements(const View& dst, const void* element);

// Errors of tensor.errors, printf-like (PyErr_Format's codes); return nullptr.
PyObject* raise_error(const char* kind, const char* format, ...);  // kind: "ShapeError", "DtypeError", "ReadOnlyError", …

PyObject* dtype_object(Dtype d);                     // borrowed
bool dtype_from(PyObject* o, Dtype* out);            // Dtype object or its name, or numpy dtype; sets DtypeError
PyObject* shape_tuple(int ndim, const int64_t* shape);
bool shape_from(PyObject* o, int64_t* shape, int* ndim, const char* function);  // int or sequence of ints, each ≥ 0
// The items of an iterable as a tuple that nobody changes; ShapeError if they are more than a tensor has dimensions.
PyObject* few_items(PyObject* o, const char* function);
bool device_from(PyObject* o, DeviceKind* out);      // nullptr or None: cpu

}  // namespace droveway
