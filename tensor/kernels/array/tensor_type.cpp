// The type object of tensors: making, ending, attributes and the methods that are written in C.
#include "tensor.hpp"

#include <stddef.h>
#include <initializer_list>
#include <string.h>

#include "array.hpp"
#include "members.hpp"
#include "methods.hpp"
#include "node.hpp"

namespace droveway {

PyTypeObject* tensor_type;

namespace {

// A bare object: no storage, dims ready for ndim dimensions. `type` is tensor_type or a subtype.
Tensor* bare(PyTypeObject* type, Dtype dtype, int ndim, DeviceKind device) {
  Tensor* t = type == tensor_type ? PyObject_New(Tensor, tensor_type) : reinterpret_cast<Tensor*>(type->tp_alloc(type, 0));
  if (t == nullptr) return nullptr;
  t->storage = nullptr;
  t->data = nullptr;
  t->dims = t->inline_dims;
  t->dtype = dtype;
  t->device = device;
  t->ndim = uint8_t(ndim);
  t->flags = 0;
  t->output_index = 0;
  t->node = nullptr;
  t->grad = nullptr;
  t->weakrefs = nullptr;
  if (ndim > kDimsInline) {
    t->dims = static_cast<int64_t*>(PyMem_Malloc(2 * size_t(ndim) * sizeof(int64_t)));
    if (t->dims == nullptr) {
      t->dims = t->inline_dims;
      t->ndim = 0;
      Py_DECREF(t);
      PyErr_NoMemory();
      return nullptr;
    }
  }
  return t;
}

// The bytes of all elements, as if lengths of 0 were 1. False: more than there are addresses.
bool bytes_of(Dtype dtype, int ndim, const int64_t* shape, int64_t* nbytes, bool* empty) {
  *nbytes = int64_t(dtype_size(dtype));
  *empty = false;
  bool overflow = false;
  for (int d = 0; d < ndim; ++d) {
    if (shape[d] == 0)
      *empty = true;
    else
      overflow = __builtin_mul_overflow(*nbytes, shape[d], nbytes) || overflow;
  }
  return !overflow && *nbytes <= INT64_MAX - 64;
}

void too_large(const char* label, Dtype dtype, int ndim, const int64_t* shape) {
  PyObject* tuple = shape_tuple(ndim, shape);
  if (tuple != nullptr)
    raise_error("ShapeError", "%s: a tensor %s%R has more bytes than there are addresses", label, dtype_name(dtype), tuple);
  Py_XDECREF(tuple);
}

void contiguous_strides(int ndim, const int64_t* shape, int64_t* strides) {
  uint64_t step = 1;
  for (int d = ndim - 1; d >= 0; --d) {
    strides[d] = int64_t(step);
    step *= uint64_t(shape[d] > 0 ? shape[d] : 1);
  }
}

constexpr int kDeepest = 32;
thread_local int depth;        // of ends of tensors inside ends of tensors
thread_local Tensor* waiting;  // dead ones that were too deep, linked through `weakrefs`

void end(Tensor* t) {
  PyTypeObject* type = Py_TYPE(as_object(t));
  Py_XDECREF(t->node);
  Py_XDECREF(t->grad);
  if (t->storage != nullptr) storage_decref(t->storage);
  if (t->dims != t->inline_dims) PyMem_Free(t->dims);
  type->tp_free(as_object(t));
  Py_DECREF(type);
}

void tensor_dealloc(PyObject* self) {
  Tensor* t = as_tensor(self);
  if (t->weakrefs != nullptr) PyObject_ClearWeakRefs(self);
  if (t->grad == nullptr && (t->storage == nullptr || t->storage->size_class != 255)) return end(t);
  // Tensors that hold a gradient that holds … , or memory of a buffer of a tensor of …: a long chain ends in a loop.
  if (depth >= kDeepest) {
    t->weakrefs = reinterpret_cast<PyObject*>(waiting);
    waiting = t;
    return;
  }
  ++depth;
  end(t);
  if (depth == 1) {
    while (waiting != nullptr) {
      Tensor* next = waiting;
      waiting = reinterpret_cast<Tensor*>(next->weakrefs);
      next->weakrefs = nullptr;
      end(next);
    }
  }
  --depth;
}

PyObject* alias_as(PyTypeObject* type, const Tensor* base, bool traced = false) {
  if (base->storage == nullptr && !traced) {
    PyErr_SetString(PyExc_TypeError, "alias: a traced tensor has no elements that another tensor could look at");
    return nullptr;
  }
  Tensor* t = bare(type, base->dtype, base->ndim, base->device);
  if (t == nullptr) return nullptr;
  memcpy(t->dims, base->dims, 2 * size_t(base->ndim) * sizeof(int64_t));
  t->data = base->data;
  t->storage = base->storage;
  if (t->storage != nullptr) storage_incref(t->storage);
  return as_object(t);
}

PyObject* tensor_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"value", "traced", nullptr};
  PyObject* value;
  int traced = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$p:Tensor", const_cast<char**>(names), &value, &traced)) return nullptr;
  if (type == tensor_type) return asarray(value, nullptr, nullptr, -1);
  PyObject* made;
  if (is_tensor(value)) {
    made = alias_as(type, as_tensor(value), traced != 0);
  } else if (is_spec(value) || (traced && PyObject_HasAttrString(value, "dtype"))) {
    Spec s;
    if (!spec_read(value, &s)) return nullptr;
    if (!traced) {
      PyErr_SetString(PyExc_TypeError, "Tensor: only a traced tensor can be made of a Spec");
      return nullptr;
    }
    if (!shape_fits("Tensor", s.dtype, s.ndim, s.shape)) return nullptr;
    Tensor* t = bare(type, s.dtype, s.ndim, s.device);
    if (t == nullptr) return nullptr;
    memcpy(t->dims, s.shape, size_t(s.ndim) * sizeof(int64_t));
    contiguous_strides(s.ndim, t->shape(), t->strides());
    made = as_object(t);
  } else {
    PyObject* plain_tensor = asarray(value, nullptr, nullptr, -1);
    if (plain_tensor == nullptr) return nullptr;
    made = alias_as(type, as_tensor(plain_tensor));
    Py_DECREF(plain_tensor);
  }
  if (made != nullptr && traced) as_tensor(made)->flags |= kTraced;
  return made;
}

// --- attributes

PyObject* get_shape(PyObject* self, void*) { return shape_tuple(as_tensor(self)->ndim, as_tensor(self)->shape()); }
PyObject* get_strides(PyObject* self, void*) { return shape_tuple(as_tensor(self)->ndim, as_tensor(self)->strides()); }
PyObject* get_dtype(PyObject* self, void*) { return Py_NewRef(dtype_object(as_tensor(self)->dtype)); }
PyObject* get_device(PyObject* self, void*) { return Py_XNewRef(device_object(as_tensor(self)->device)); }
PyObject* get_ndim(PyObject* self, void*) { return PyLong_FromLong(as_tensor(self)->ndim); }
PyObject* get_size(PyObject* self, void*) { return PyLong_FromLongLong(view_size(view_of(as_tensor(self)))); }
PyObject* get_itemsize(PyObject* self, void*) { return PyLong_FromSize_t(dtype_size(as_tensor(self)->dtype)); }
PyObject* get_nbytes(PyObject* self, void*) {
  return PyLong_FromLongLong(view_size(view_of(as_tensor(self))) * int64_t(dtype_size(as_tensor(self)->dtype)));
}
PyObject* get_requires_grad(PyObject* self, void*) { return PyBool_FromLong(requires_grad(as_tensor(self))); }
PyObject* get_is_leaf(PyObject* self, void*) { return PyBool_FromLong(as_tensor(self)->node == nullptr); }
PyObject* get_is_view(PyObject* self, void*) { return PyBool_FromLong((as_tensor(self)->flags & kIsView) != 0); }
PyObject* get_traced(PyObject* self, void*) { return PyBool_FromLong((as_tensor(self)->flags & kTraced) != 0); }
PyObject* get_node(PyObject* self, void*) {
  PyObject* node = as_tensor(self)->node;
  return Py_NewRef(node == nullptr ? Py_None : node);
}
PyObject* get_output_index(PyObject* self, void*) { return PyLong_FromUnsignedLong(as_tensor(self)->output_index); }
PyObject* get_grad(PyObject* self, void*) {
  PyObject* grad = as_tensor(self)->grad;
  return Py_NewRef(grad == nullptr ? Py_None : grad);
}

int set_grad(PyObject* self, PyObject* value, void*) {
  Tensor* t = as_tensor(self);
  if (value == nullptr || value == Py_None) {
    Py_CLEAR(t->grad);
    return 0;
  }
  if (!is_tensor(value)) {
    PyErr_Format(PyExc_TypeError, "grad: must be a Tensor or None, got %.100s", Py_TYPE(value)->tp_name);
    return -1;
  }
  const Tensor* g = as_tensor(value);
  if (g->ndim != t->ndim || memcmp(g->dims, t->dims, size_t(t->ndim) * sizeof(int64_t)) != 0) {
    PyObject *want = get_shape(self, nullptr), *got = get_shape(value, nullptr);
    if (want != nullptr && got != nullptr) raise_error("ShapeError", "grad: must have the tensor's shape %R, got %R", want, got);
    Py_XDECREF(want);
    Py_XDECREF(got);
    return -1;
  }
  if (g->dtype != t->dtype) {
    raise_error("DtypeError", "grad: must be %s as the tensor is, got %s", dtype_name(t->dtype), dtype_name(g->dtype));
    return -1;
  }
  if (value == self) {
    PyErr_SetString(PyExc_ValueError, "grad: a tensor cannot be its own gradient");
    return -1;
  }
  PyObject* old = t->grad;
  t->grad = Py_NewRef(value);
  Py_XDECREF(old);
  return 0;
}

PyObject* get_version(PyObject* self, void*) {
  const Storage* s = as_tensor(self)->storage;
  return PyLong_FromUnsignedLong(s == nullptr ? 0 : s->version);
}
PyObject* get_data_address(PyObject* self, void*) { return PyLong_FromVoidPtr(as_tensor(self)->data); }
PyObject* get_read_only(PyObject* self, void*) {
  const Storage* s = as_tensor(self)->storage;
  return PyBool_FromLong(s != nullptr && s->read_only);
}
PyObject* get_shared(PyObject* self, void*) {
  const Storage* s = as_tensor(self)->storage;
  return PyBool_FromLong(s != nullptr && s->refs > 1);
}
PyObject* get_memory_space(PyObject* self, void*) {
  PyObject* type = from_module("tensor.device", "MemorySpace");
  if (type == nullptr) return nullptr;
  static const char* const names[] = {"host", "device", "shared", "sram", "dram", "vram"};
  const Storage* s = as_tensor(self)->storage;
  PyObject* space = PyObject_GetAttrString(type, names[s == nullptr ? 0 : int(s->space)]);
  Py_DECREF(type);
  return space;
}

PyGetSetDef tensor_getset[] = {
    {"shape", get_shape, nullptr, "The lengths of the dimensions.", nullptr},
    {"strides", get_strides, nullptr, "Steps between neighbours along each dimension, in elements; they may be negative or 0.", nullptr},
    {"dtype", get_dtype, nullptr, "The element type.", nullptr},
    {"device", get_device, nullptr, "The device that computes with it.", nullptr},
    {"memory_space", get_memory_space, nullptr, "The memory space its storage lies in.", nullptr},
    {"ndim", get_ndim, nullptr, "The number of dimensions.", nullptr},
    {"size", get_size, nullptr, "The number of elements.", nullptr},
    {"itemsize", get_itemsize, nullptr, "Bytes of one element.", nullptr},
    {"nbytes", get_nbytes, nullptr, "Bytes of all elements.", nullptr},
    {"T", get_transposed, nullptr, "The transpose of a matrix, as a view.", nullptr},
    {"mT", get_matrix_transposed, nullptr, "The last two dimensions exchanged, as a view.", nullptr},
    {"requires_grad", get_requires_grad, nullptr, "Whether gradients flow to it.", nullptr},
    {"is_leaf", get_is_leaf, nullptr, "Whether no recorded operation made it.", nullptr},
    {"is_view", get_is_view, nullptr, "Whether a view operation made it.", nullptr},
    {"is_shared", get_shared, nullptr, "Whether another tensor or export looks at the same storage.", nullptr},
    {"is_read_only", get_read_only, nullptr, "Whether its storage must not be written.", nullptr},
    {"is_traced", get_traced, nullptr, "Whether its operations go to a transformation instead of a kernel.", nullptr},
    {"node", get_node, nullptr, "The recorded operation that made it, or None.", nullptr},
    {"output_index", get_output_index, nullptr, "Which result of `node` it is.", nullptr},
    {"grad", get_grad, set_grad, "The gradient that backward left here, or None.", nullptr},
    {"version", get_version, nullptr, "How often its storage has been changed in place.", nullptr},
    {"data_address", get_data_address, nullptr, "The address of the first element.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMemberDef tensor_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Tensor, weakrefs), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

// --- methods

PyObject* detach(PyObject* self, PyObject*) {
  Tensor* t = as_tensor(self);
  if ((t->flags & kTraced) != 0) return call_python("tensor.autograd.trace", "detach_traced", &self, 1);
  PyObject* result = alias_as(tensor_type, t);
  if (result != nullptr) as_tensor(result)->flags |= kIsView;
  return result;
}

PyObject* requires_grad_(PyObject* self, PyObject* args) {
  int wanted = 1;
  if (!PyArg_ParseTuple(args, "|p:requires_grad_", &wanted)) return nullptr;
  Tensor* t = as_tensor(self);
  if (wanted && !is_float(t->dtype) && !is_complex(t->dtype))
    return raise_error("DtypeError", "requires_grad_: only tensors of float and complex types have gradients, this is %s",
                       dtype_name(t->dtype));
  if (!wanted && t->node != nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "requires_grad_(False): the tensor is the result of a recorded operation (hint: .detach())");
    return nullptr;
  }
  if (wanted)
    t->flags |= kRequiresGrad;
  else
    t->flags &= uint8_t(~kRequiresGrad);
  return Py_NewRef(self);
}

PyObject* is_contiguous(PyObject* self, PyObject*) { return PyBool_FromLong(view_contiguous(view_of(as_tensor(self)))); }

Py_hash_t tensor_hash(PyObject* self) {
  const uintptr_t p = reinterpret_cast<uintptr_t>(self);
  return Py_hash_t((p >> 4) | (p << (8 * sizeof p - 4)));
}

PyObject* tensor_repr(PyObject* self) { return call_python("tensor.printing", "text", &self, 1); }

PyMethodDef own_methods[] = {
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, "Tensor[kind, rank], for annotations: tensor/typed.py."},
    {"detach", detach, METH_NOARGS, "detach($self, /)\n--\n\nThe same elements without history: no gradient flows through."},
    {"requires_grad_", requires_grad_, METH_VARARGS,
     "requires_grad_($self, requires_grad=True, /)\n--\n\nFrom here on operations are recorded, and backward leaves .grad here; "
     "returns the tensor."},
    {"is_contiguous", is_contiguous, METH_NOARGS, "is_contiguous($self, /)\n--\n\nWhether the elements lie in C order without gaps."},
    {nullptr, nullptr, 0, nullptr},
};

PyObject* py_alias(PyObject*, PyObject* o) {
  if (!is_tensor(o)) {
    PyErr_Format(PyExc_TypeError, "alias: needs a Tensor, got %.100s", Py_TYPE(o)->tp_name);
    return nullptr;
  }
  return alias_as(tensor_type, as_tensor(o));
}

PyObject* py_empty(PyObject*, PyObject* args) {
  PyObject *shape, *dtype, *device = nullptr, *label = nullptr;
  if (!PyArg_ParseTuple(args, "OO|OU:empty", &shape, &dtype, &device, &label)) return nullptr;
  int64_t dims[kDimsMax];
  int ndim;
  Dtype d;
  DeviceKind kind;
  if (!shape_from(shape, dims, &ndim, "empty") || !dtype_from(dtype, &d) || !device_from(device, &kind)) return nullptr;
  const char* text = "tensor";
  if (label != nullptr) {  // interned names live as long as the process
    Py_INCREF(label);
    PyUnicode_InternInPlace(&label);
    text = PyUnicode_AsUTF8(label);
  }
  return text == nullptr ? nullptr : as_object(tensor_empty(d, ndim, dims, kind, text));
}

PyMethodDef functions[] = {
    {"alias", py_alias, METH_O, "alias($module, x, /)\n--\n\nA new Tensor over the same elements, without history."},
    {"empty", py_empty, METH_VARARGS,
     "empty($module, shape, dtype, device=None, label='tensor', /)\n--\n\nA Tensor of undefined content in C order."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool shape_fits(const char* label, Dtype dtype, int ndim, const int64_t* shape) {
  int64_t nbytes;
  bool empty;
  if (bytes_of(dtype, ndim, shape, &nbytes, &empty)) return true;
  too_large(label, dtype, ndim, shape);
  return false;
}

Tensor* tensor_empty(Dtype dtype, int ndim, const int64_t* shape, DeviceKind device, const char* label) {
  int64_t nbytes;
  bool empty;
  if (!bytes_of(dtype, ndim, shape, &nbytes, &empty)) return too_large(label, dtype, ndim, shape), nullptr;
  Storage* s = storage_new(empty ? 0 : size_t(nbytes), label, dtype, ndim, shape);
  if (s == nullptr) return nullptr;
  s->device = device;
  Tensor* t = bare(tensor_type, dtype, ndim, device);
  if (t == nullptr) {
    storage_decref(s);
    return nullptr;
  }
  t->storage = s;
  t->data = s->data;
  int64_t step = 1;
  for (int d = ndim - 1; d >= 0; --d) {
    t->dims[d] = shape[d];
    t->dims[ndim + d] = step;
    step *= shape[d] > 0 ? shape[d] : 1;
  }
  return t;
}

Tensor* tensor_over(Storage* storage, char* data, Dtype dtype, int ndim, const int64_t* shape, const int64_t* strides) {
  Tensor* t = bare(tensor_type, dtype, ndim, storage->device);
  if (t == nullptr) {
    storage_decref(storage);
    return nullptr;
  }
  t->storage = storage;
  t->data = data;
  for (int d = 0; d < ndim; ++d) {
    t->dims[d] = shape[d];
    t->dims[ndim + d] = strides[d];
  }
  return t;
}

Tensor* tensor_view(const Tensor* base, char* data, int ndim, const int64_t* shape, const int64_t* strides) {
  storage_incref(base->storage);
  Tensor* t = tensor_over(base->storage, data, base->dtype, ndim, shape, strides);
  if (t == nullptr) return nullptr;
  t->device = base->device;
  t->flags = kIsView;
  return t;
}

Tensor* tensor_alias(const Tensor* t, bool with_history) {
  Tensor* other = as_tensor(alias_as(tensor_type, t));
  if (other == nullptr || !with_history) return other;
  other->node = Py_XNewRef(t->node);
  other->output_index = t->output_index;
  other->flags |= t->flags & kRequiresGrad;
  return other;
}

int init_tensor(PyObject* module) {
  // All methods stand in one table, made of the tables of the files that define them.
  static PyMethodDef methods[64];
  int n = 0;
  for (PyMethodDef* table : {own_methods, creation_methods, view_methods, indexing_methods, exchange_methods, dlpack_methods, apply_methods, backward_methods, sum_methods})
    for (PyMethodDef* m = table; m->ml_name != nullptr; ++m) methods[n++] = *m;
  static PyType_Slot slots[80];
  int k = 0;
  const PyType_Slot own[] = {
      {Py_tp_doc, const_cast<char*>("Tensor(value)\n--\n\nAn array of one element type with a history for gradients; "
                                    "`tensor.asarray` and its like make one.")},
      {Py_tp_new, reinterpret_cast<void*>(tensor_new)},
      {Py_tp_dealloc, reinterpret_cast<void*>(tensor_dealloc)},
      {Py_tp_hash, reinterpret_cast<void*>(tensor_hash)},
      {Py_tp_repr, reinterpret_cast<void*>(tensor_repr)},
      {Py_tp_richcompare, reinterpret_cast<void*>(tensor_compare)},
      {Py_tp_getset, tensor_getset},
      {Py_tp_members, tensor_members},
      {Py_tp_methods, methods},
      {Py_mp_subscript, reinterpret_cast<void*>(tensor_subscript)},
      {Py_mp_ass_subscript, reinterpret_cast<void*>(tensor_assign)},
      {Py_mp_length, reinterpret_cast<void*>(tensor_length)},
      {Py_tp_iter, reinterpret_cast<void*>(tensor_iterate)},
      {Py_sq_item, reinterpret_cast<void*>(tensor_sequence_item)},
      {Py_sq_contains, reinterpret_cast<void*>(tensor_contains)},
      {Py_bf_getbuffer, reinterpret_cast<void*>(buffer_get)},
      {Py_bf_releasebuffer, reinterpret_cast<void*>(buffer_release)},
  };
  for (const PyType_Slot& slot : own) slots[k++] = slot;
  for (int i = 0; i < operator_slot_count; ++i) slots[k++] = operator_slots[i];
  slots[k] = {0, nullptr};
  static PyType_Spec spec = {"tensor._kernels.Tensor", sizeof(Tensor), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  if (add_type(module, "Tensor", &spec, &tensor_type) < 0) return -1;
  if (PyObject_SetAttrString(reinterpret_cast<PyObject*>(tensor_type), "__array_ufunc__", Py_None) < 0) return -1;
  return add_functions(module, functions);
}

}  // namespace droveway
