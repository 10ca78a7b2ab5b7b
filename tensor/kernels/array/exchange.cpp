// Memory shared with other libraries: the buffer protocol and DLPack 1.x, both ways.
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "array.hpp"
#include "caster.hpp"
#include "methods.hpp"

namespace droveway {

namespace {

// --- element types in the words of the buffer protocol

const char* const formats[kDtypes] = {"?", "b", "h", "i", "q", "B", "H", "I", "Q", "e", nullptr, "f", "d", "Zf", "Zd"};

bool format_dtype(const char* format, Py_ssize_t itemsize, Dtype* out) {
  if (format == nullptr) format = "B";
  const char order = *format;
  if (order == '@' || order == '=' || order == '<' || order == '^') ++format;
  if (order == '>' || order == '!') return false;
  const size_t length = strlen(format);
  if (length == 2 && format[0] == 'Z' && (format[1] == 'f' || format[1] == 'd')) {
    *out = format[1] == 'f' ? Dtype::c64 : Dtype::c128;
    return itemsize == Py_ssize_t(dtype_size(*out));
  }
  if (length != 1) return false;
  const int width = itemsize == 1 ? 0 : itemsize == 2 ? 1 : itemsize == 4 ? 2 : itemsize == 8 ? 3 : -1;
  if (width < 0) return false;
  if (strchr("bhilqn", *format) != nullptr)
    *out = Dtype(int(Dtype::i8) + width);
  else if (strchr("BHILQN", *format) != nullptr)
    *out = Dtype(int(Dtype::u8) + width);
  else if (*format == '?')
    *out = Dtype::boolean;
  else if (*format == 'e')
    *out = Dtype::f16;
  else if (*format == 'f')
    *out = Dtype::f32;
  else if (*format == 'd')
    *out = Dtype::f64;
  else
    return false;
  return itemsize == Py_ssize_t(dtype_size(*out));
}

bool aligned(const void* data, Dtype d) { return reinterpret_cast<uintptr_t>(data) % dtype_alignment(d) == 0; }

// Elements at byte strides that may be odd, into a tensor of ours.
Tensor* gathered(const char* data, Dtype d, int ndim, const int64_t* shape, const int64_t* byte_strides) {
  Tensor* t = tensor_empty(d, ndim, shape, DeviceKind::cpu, "asarray");
  if (t == nullptr) return nullptr;
  const size_t size = dtype_size(d);
  const int64_t n = view_size(view_of(t));
  int64_t index[kDimsMax] = {};
  char* to = t->data;
  for (int64_t i = 0; i < n; ++i, to += size) {
    const char* from = data;
    for (int k = 0; k < ndim; ++k) from += index[k] * byte_strides[k];
    memcpy(to, from, size);
    for (int k = ndim - 1; k >= 0 && ++index[k] == shape[k]; --k) index[k] = 0;
  }
  return t;
}

void release_buffer(Storage* s) {
  PyBuffer_Release(static_cast<Py_buffer*>(s->context));
  PyMem_Free(s->context);
}

// Somebody else's memory from the lowest to the highest element of the view.
Storage* storage_around(const View& v, void (*release)(Storage*), void* context) {
  const char *low, *high;
  view_extent(v, &low, &high);
  return storage_foreign(const_cast<char*>(low), size_t(high - low), nullptr, release, context);
}

// nullptr without an error: not a buffer of our element types.
PyObject* from_buffer(PyObject* value) {
  Py_buffer* buffer = static_cast<Py_buffer*>(PyMem_Malloc(sizeof(Py_buffer)));
  if (buffer == nullptr) return PyErr_NoMemory();
  bool read_only = false;
  if (PyObject_GetBuffer(value, buffer, PyBUF_FULL) != 0) {
    PyErr_Clear();
    read_only = true;
    if (PyObject_GetBuffer(value, buffer, PyBUF_FULL_RO) != 0) {
      PyErr_Clear();
      PyMem_Free(buffer);
      return nullptr;
    }
  }
  Dtype d;
  PyObject* out = nullptr;
  bool taken = false;
  if (buffer->ndim <= kDimsMax && buffer->suboffsets == nullptr && format_dtype(buffer->format, buffer->itemsize, &d)) {
    int64_t shape[kDimsMax], bytes[kDimsMax], strides[kDimsMax];
    bool whole = aligned(buffer->buf, d);
    int64_t step = buffer->itemsize;
    bool empty = false;
    for (int k = buffer->ndim - 1; k >= 0; --k) {
      shape[k] = buffer->shape != nullptr ? buffer->shape[k] : buffer->len / buffer->itemsize;
      bytes[k] = buffer->strides != nullptr ? buffer->strides[k] : step;
      step *= shape[k];
      empty = empty || shape[k] == 0;
      whole = whole && (bytes[k] % buffer->itemsize == 0 || shape[k] <= 1);
      strides[k] = shape[k] <= 1 ? 1 : bytes[k] / buffer->itemsize;
    }
    if (whole && !empty) {
      char* first = static_cast<char*>(buffer->buf);
      Storage* s = storage_around(View{first, d, buffer->ndim, shape, strides}, release_buffer, buffer);
      if (s != nullptr) {
        s->read_only = read_only || buffer->readonly;
        taken = true;
        out = as_object(tensor_over(s, first, d, buffer->ndim, shape, strides));
      }
    } else {
      out = as_object(gathered(static_cast<const char*>(buffer->buf), d, buffer->ndim, shape, bytes));
    }
  }
  if (!taken) {
    PyBuffer_Release(buffer);
    PyMem_Free(buffer);
  }
  return out;
}

// --- DLPack (dlpack.h of version 1.1)

struct DlDevice {
  int32_t type, id;
};
struct DlType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct DlTensor {
  void* data;
  DlDevice device;
  int32_t ndim;
  DlType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct DlManaged {
  DlTensor tensor;
  void* context;
  void (*deleter)(DlManaged*);
};
struct DlVersioned {
  uint32_t major, minor;
  void* context;
  void (*deleter)(DlVersioned*);
  uint64_t flags;
  DlTensor tensor;
};
constexpr uint64_t kReadOnly = 1, kCopied = 2;
constexpr int kDlCpu = 1;

DlType dl_type(Dtype d) {
  const uint8_t code = d == Dtype::boolean ? 6 : is_signed_int(d) ? 0 : is_unsigned_int(d) ? 1 : d == Dtype::bf16 ? 4 : is_complex(d) ? 5 : 2;
  return {code, uint8_t(8 * dtype_size(d)), 1};
}

bool from_dl_type(DlType type, Dtype* out) {
  for (int i = 0; i < kDtypes; ++i) {
    const DlType own = dl_type(Dtype(i));
    if (own.code == type.code && own.bits == type.bits && type.lanes == 1) {
      *out = Dtype(i);
      return true;
    }
  }
  return false;
}

void drop(void* tensor) {
  if (Py_IsInitialized() == 0) return;
  const PyGILState_STATE state = PyGILState_Ensure();
  Py_XDECREF(static_cast<PyObject*>(tensor));
  PyGILState_Release(state);
}

template <class Managed>
void end_export(Managed* m) {
  drop(m->context);
  free(m);
}

template <class Managed>
Managed* exported(Tensor* t) {  // the struct, then shape and strides
  Managed* m = static_cast<Managed*>(malloc(sizeof(Managed) + 2 * kDimsMax * sizeof(int64_t)));
  if (m == nullptr) {
    PyErr_NoMemory();
    return nullptr;
  }
  memset(static_cast<void*>(m), 0, sizeof(Managed));
  int64_t* dims = reinterpret_cast<int64_t*>(m + 1);
  memcpy(dims, t->dims, 2 * size_t(t->ndim) * sizeof(int64_t));
  m->context = Py_NewRef(as_object(t));
  m->deleter = end_export<Managed>;
  m->tensor = DlTensor{view_size(view_of(t)) == 0 ? nullptr : t->data, {kDlCpu, 0}, t->ndim, dl_type(t->dtype), dims, dims + t->ndim, 0};
  return m;
}

template <class Managed>
void end_capsule(PyObject* capsule, const char* name) {  // nobody took it
  if (!PyCapsule_IsValid(capsule, name)) return;
  Managed* m = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (m->deleter != nullptr) m->deleter(m);
}
void end_legacy(PyObject* capsule) { end_capsule<DlManaged>(capsule, "dltensor"); }
void end_versioned(PyObject* capsule) { end_capsule<DlVersioned>(capsule, "dltensor_versioned"); }

bool may_leave(Tensor* t, const char* what) {
  if ((t->flags & kTraced) != 0 || t->storage == nullptr) {
    PyErr_Format(PyExc_BufferError, "%s: a traced tensor has no values yet", what);
    return false;
  }
  if (requires_grad(t)) {
    PyErr_Format(PyExc_BufferError, "%s: the tensor requires a gradient, which another library would not follow (hint: .detach())", what);
    return false;
  }
  return true;
}

PyObject* dlpack(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"stream", "max_version", "dl_device", "copy", nullptr};
  PyObject *stream = Py_None, *max_version = Py_None, *device = Py_None, *copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__", const_cast<char**>(names), &stream, &max_version, &device, &copy))
    return nullptr;
  if (stream != Py_None) return PyErr_SetString(PyExc_BufferError, "__dlpack__: stream must be None for a tensor on the CPU"), nullptr;
  if (device != Py_None) {
    int type, id;
    if (!PyArg_ParseTuple(device, "ii:dl_device", &type, &id)) return nullptr;
    if (type != kDlCpu || id != 0) return PyErr_Format(PyExc_BufferError, "__dlpack__: the tensor lies on the CPU, device (1, 0), not (%d, %d)", type, id);
  }
  long major = 0;
  if (max_version != Py_None) {
    PyObject* first = PySequence_GetItem(max_version, 0);
    if (first == nullptr) return nullptr;
    major = PyLong_AsLong(first);
    Py_DECREF(first);
    if (major == -1 && PyErr_Occurred()) return nullptr;
  }
  Tensor* t = as_tensor(self);
  if (!may_leave(t, "__dlpack__")) return nullptr;
  PyObject* source = Py_NewRef(self);
  const bool copied = copy != Py_None && PyObject_IsTrue(copy) == 1;
  if (copied) {
    Py_DECREF(source);
    source = PyObject_CallMethod(self, "clone", nullptr);
    if (source == nullptr) return nullptr;
    t = as_tensor(source);
  }
  PyObject* capsule = nullptr;
  if (major >= 1) {
    DlVersioned* m = exported<DlVersioned>(t);
    if (m != nullptr) {
      m->major = 1;
      m->minor = 1;
      m->flags = (t->storage->read_only ? kReadOnly : 0) | (copied ? kCopied : 0);
      capsule = PyCapsule_New(m, "dltensor_versioned", end_versioned);
      if (capsule == nullptr) m->deleter(m);
    }
  } else if (t->storage->read_only) {
    PyErr_SetString(PyExc_BufferError, "__dlpack__: read-only memory cannot be handed out by a protocol before DLPack 1.0 (hint: .clone())");
  } else {
    DlManaged* m = exported<DlManaged>(t);
    if (m != nullptr) {
      capsule = PyCapsule_New(m, "dltensor", end_legacy);
      if (capsule == nullptr) m->deleter(m);
    }
  }
  Py_DECREF(source);
  return capsule;
}

PyObject* dlpack_device(PyObject*, PyObject*) { return Py_BuildValue("(ii)", kDlCpu, 0); }

template <class Managed>
void end_import(Storage* s) {
  Managed* m = static_cast<Managed*>(s->context);
  if (m->deleter != nullptr) m->deleter(m);
}

PyObject* refused(const char* format, long long number) { return PyErr_Format(PyExc_BufferError, format, number); }

// Takes the tensor over; on failure the capsule stays whole and ends its own content.
template <class Managed>
PyObject* take(PyObject* capsule, const char* name, const char* used, Managed* m, const DlTensor& dl, bool read_only) {
  Dtype d;
  if (dl.device.type != kDlCpu) return refused("from_dlpack: the memory must lie on the CPU (device type 1), got device type %lld", dl.device.type);
  if (dl.dtype.lanes != 1) return refused("from_dlpack: elements must have one lane, got %lld", dl.dtype.lanes);
  if (!from_dl_type(dl.dtype, &d)) return PyErr_Format(PyExc_BufferError, "from_dlpack: no element type of tensor has code %d and %d bits", int(dl.dtype.code), int(dl.dtype.bits));
  if (dl.ndim < 0 || dl.ndim > kDimsMax) return refused("from_dlpack: from 0 to 16 dimensions, got %lld", dl.ndim);
  int64_t strides[kDimsMax], bytes[kDimsMax], size = int64_t(dtype_size(d)), step = 1;
  bool empty = false, overflow = false;
  for (int k = dl.ndim - 1; k >= 0; --k) {
    if (dl.shape[k] < 0) return refused("from_dlpack: lengths must not be negative, got %lld", dl.shape[k]);
    strides[k] = dl.strides == nullptr ? step : dl.strides[k];
    empty = empty || dl.shape[k] == 0;
    overflow = __builtin_mul_overflow(step, dl.shape[k] > 0 ? dl.shape[k] : 1, &step) || overflow;
    overflow = __builtin_mul_overflow(strides[k], size, bytes + k) || overflow;
    int64_t reach;
    overflow = __builtin_mul_overflow(dl.shape[k] > 0 ? dl.shape[k] - 1 : 0, bytes[k], &reach) || overflow;
    overflow = overflow || reach > INT64_MAX / (2 * kDimsMax) || reach < -(INT64_MAX / (2 * kDimsMax));
  }
  overflow = __builtin_mul_overflow(step, size, &step) || overflow;
  if (overflow) return PyErr_SetString(PyExc_BufferError, "from_dlpack: the shape has more bytes than there are addresses"), nullptr;
  if (dl.data == nullptr && !empty) return PyErr_SetString(PyExc_BufferError, "from_dlpack: the data pointer is NULL"), nullptr;
  char* data = static_cast<char*>(dl.data) + dl.byte_offset;
  if (empty || !aligned(data, d)) {
    Tensor* t = empty ? tensor_empty(d, dl.ndim, dl.shape, DeviceKind::cpu, "from_dlpack") : gathered(data, d, dl.ndim, dl.shape, bytes);
    if (t == nullptr) return nullptr;
    PyCapsule_SetName(capsule, used);
    if (m->deleter != nullptr) m->deleter(m);
    return as_object(t);
  }
  (void)name;
  Storage* s = storage_around(View{data, d, dl.ndim, dl.shape, strides}, end_import<Managed>, m);
  if (s == nullptr) return nullptr;
  s->read_only = read_only;
  PyCapsule_SetName(capsule, used);
  return as_object(tensor_over(s, data, d, dl.ndim, dl.shape, strides));
}

PyObject* from_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    DlVersioned* m = static_cast<DlVersioned*>(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
    if (m->major != 1) return refused("from_dlpack: DLPack of major version 1 is understood, got %lld", m->major);
    return take(capsule, "dltensor_versioned", "used_dltensor_versioned", m, m->tensor, (m->flags & kReadOnly) != 0);
  }
  if (PyCapsule_IsValid(capsule, "dltensor")) {
    DlManaged* m = static_cast<DlManaged*>(PyCapsule_GetPointer(capsule, "dltensor"));
    return take(capsule, "dltensor", "used_dltensor", m, m->tensor, false);
  }
  if (PyCapsule_CheckExact(capsule)) {
    const char* name = PyCapsule_GetName(capsule);
    if (name != nullptr && strncmp(name, "used_", 5) == 0)
      return PyErr_SetString(PyExc_BufferError, "from_dlpack: the capsule was used before: each can be taken once"), nullptr;
    return PyErr_SetString(PyExc_BufferError, "from_dlpack: a capsule that is not DLPack's"), nullptr;
  }
  return PyErr_Format(PyExc_BufferError, "from_dlpack: __dlpack__ gave no capsule but %.100s", Py_TYPE(capsule)->tp_name);
}

PyObject* from_dlpack(PyObject* value, int copy) {
  if (PyCapsule_CheckExact(value)) return from_capsule(value);
  PyObject* method = PyObject_GetAttrString(value, "__dlpack__");
  if (method == nullptr) {
    PyErr_Clear();
    return PyErr_Format(PyExc_TypeError, "from_dlpack: needs an object with __dlpack__, got %.100s", Py_TYPE(value)->tp_name);
  }
  PyObject* nothing = PyTuple_New(0);
  PyObject* options = Py_BuildValue("{s(ii)}", "max_version", 1, 1);
  PyObject* capsule = nullptr;
  if (nothing != nullptr && options != nullptr) {
    if (copy >= 0) PyDict_SetItemString(options, "copy", copy ? Py_True : Py_False);
    capsule = PyObject_Call(method, nothing, options);
    if (capsule == nullptr && PyErr_ExceptionMatches(PyExc_TypeError)) {  // a producer of before DLPack 1.0
      PyErr_Clear();
      capsule = PyObject_CallNoArgs(method);
    }
  }
  Py_XDECREF(nothing);
  Py_XDECREF(options);
  Py_DECREF(method);
  if (capsule == nullptr) return nullptr;
  PyObject* out = from_capsule(capsule);
  Py_DECREF(capsule);
  return out;
}

PyObject* py_from_dlpack(PyObject*, PyObject* args) {
  PyObject *value, *copy = Py_None;
  if (!PyArg_ParseTuple(args, "O|O:from_dlpack", &value, &copy)) return nullptr;
  const int wanted = copy == Py_None ? -1 : PyObject_IsTrue(copy);
  PyObject* out = from_dlpack(value, wanted);
  return out;
}

// numpy's uint16 bits as bfloat16 and the reverse: the same memory under another type of the same size.
PyObject* py_bitcast(PyObject*, PyObject* args) {
  PyObject *o, *dtype;
  Dtype d;
  if (!PyArg_ParseTuple(args, "OO:bitcast", &o, &dtype) || !dtype_from(dtype, &d)) return nullptr;
  if (!is_tensor(o) || as_tensor(o)->storage == nullptr) return PyErr_SetString(PyExc_TypeError, "bitcast: needs a Tensor with a value"), nullptr;
  Tensor* t = as_tensor(o);
  if (dtype_size(d) != dtype_size(t->dtype) || dtype_alignment(d) > dtype_alignment(t->dtype))
    return raise_error("DtypeError", "bitcast: %s and %s have elements of different sizes", dtype_name(t->dtype), dtype_name(d));
  Tensor* out = tensor_view(t, t->data, t->ndim, t->shape(), t->strides());
  if (out != nullptr) out->dtype = d;
  return as_object(out);
}

// docs/formats/tensor-abi.md.
PyObject* abi_header(PyObject* self, PyObject*) {
  struct Header {
    char magic[4];
    uint16_t version;
    uint8_t dtype, ndim, device, memory_space, flags, reserved;
    uint32_t changes;
    uint64_t base;
    int64_t offset;
    uint64_t nbytes;
    int64_t dims[2 * kDimsMax];
  };
  static_assert(offsetof(Header, base) == 16 && offsetof(Header, dims) == 40);
  const Tensor* t = as_tensor(self);
  if (t->storage == nullptr) return PyErr_SetString(PyExc_TypeError, "abi_header: a traced tensor has no memory"), nullptr;
  const Storage* s = t->storage;
  Header h{{'D', 'W', 'T', '1'}, 1, uint8_t(t->dtype), t->ndim, uint8_t(t->device), uint8_t(s->space), 0, 0, s->version,
           reinterpret_cast<uint64_t>(s->data), (t->data - s->data) / int64_t(dtype_size(t->dtype)), s->nbytes, {}};
  h.flags = uint8_t((s->size_class != 255 ? 1 : 0) | ((t->flags & kIsView) != 0 ? 2 : 0) | (s->read_only ? 4 : 0));
  memcpy(h.dims, t->dims, 2 * size_t(t->ndim) * sizeof(int64_t));
  return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(&h), Py_ssize_t(40 + 16 * size_t(t->ndim)));
}

PyObject* numpy_method(PyObject* self, PyObject*) { return call_python("tensor.numpy_bridge", "to_numpy", &self, 1); }

PyObject* array_method(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"dtype", "copy", nullptr};
  PyObject *dtype = Py_None, *copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:__array__", const_cast<char**>(names), &dtype, &copy)) return nullptr;
  PyObject* arguments[] = {self, dtype, copy};
  return call_python("tensor.numpy_bridge", "to_numpy", arguments, 3);
}

PyObject* array_namespace(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"api_version", nullptr};
  PyObject* version = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$O:__array_namespace__", const_cast<char**>(names), &version)) return nullptr;
  if (version != Py_None && (!PyUnicode_Check(version) || (PyUnicode_CompareWithASCIIString(version, "2024.12") != 0 &&
                                                            PyUnicode_CompareWithASCIIString(version, "2023.12") != 0 &&
                                                            PyUnicode_CompareWithASCIIString(version, "2022.12") != 0 &&
                                                            PyUnicode_CompareWithASCIIString(version, "2021.12") != 0)))
    return PyErr_Format(PyExc_ValueError, "__array_namespace__: versions up to 2024.12 are known, got %R", version);
  return PyImport_ImportModule("tensor");
}

PyObject* reduce(PyObject* self, PyObject*) { return call_python("tensor.numpy_bridge", "reduced", &self, 1); }

PyMethodDef functions[] = {
    {"from_dlpack", py_from_dlpack, METH_VARARGS, "from_dlpack($module, x, copy=None, /)\n--\n\nA Tensor over the memory of a DLPack object."},
    {"bitcast", py_bitcast, METH_VARARGS, "bitcast($module, x, dtype, /)\n--\n\nThe same memory under another type of elements of the same size."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyObject* from_foreign(PyObject* value, int copy) {
  PyObject* out = nullptr;
  const bool masked = PyObject_HasAttrString(value, "mask");
  if (!masked && PyObject_CheckBuffer(value)) out = from_buffer(value);
  if (out == nullptr && !PyErr_Occurred()) {
    PyObject* arguments[] = {value};
    out = call_python("tensor.numpy_bridge", "from_array_like", arguments, 1);
  }
  if (out == nullptr || copy != 1) return out;
  Tensor* t = as_tensor(out);
  if (t->storage->size_class != 255) return out;  // a copy it is
  PyObject* own = PyObject_CallMethod(out, "clone", nullptr);
  Py_DECREF(out);
  return own;
}

bool buffer_dims(const Py_buffer& buffer, Dtype* dtype, int* ndim, int64_t* dims) {
  if (buffer.ndim > kDimsMax || buffer.suboffsets != nullptr || !format_dtype(buffer.format, buffer.itemsize, dtype)) return false;
  if (!aligned(buffer.buf, *dtype)) return false;
  *ndim = buffer.ndim;
  for (int k = 0; k < buffer.ndim; ++k) {
    dims[k] = buffer.shape[k];
    if (buffer.strides[k] % buffer.itemsize != 0) return false;
    dims[buffer.ndim + k] = buffer.strides[k] / buffer.itemsize;
  }
  return true;
}

int buffer_get(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  Tensor* t = as_tensor(self);
  if (!may_leave(t, "buffer")) return -1;
  if (formats[int(t->dtype)] == nullptr) {
    PyErr_SetString(PyExc_BufferError, "buffer: the buffer protocol has no bfloat16 (hint: .to(tensor.float32), or tensor.bitcast)");
    return -1;
  }
  if ((flags & PyBUF_WRITABLE) != 0 && t->storage->read_only) {
    PyErr_SetString(PyExc_BufferError, "buffer: the tensor looks at read-only memory");
    return -1;
  }
  const View v = view_of(t);
  const bool in_order = view_contiguous(v);
  const bool wants_strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES;
  bool fortran = false;
  if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS) {
    int64_t shape[kDimsMax], strides[kDimsMax];
    for (int k = 0; k < v.ndim; ++k) {
      shape[k] = v.shape[v.ndim - 1 - k];
      strides[k] = v.strides[v.ndim - 1 - k];
    }
    fortran = view_contiguous(View{v.data, v.dtype, v.ndim, shape, strides});
  }
  const bool needs_order = !wants_strides || (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS;
  const bool any = (flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS;
  const bool needs_fortran = (flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS;
  if ((needs_order && !in_order) || (needs_fortran && !fortran) || (any && !in_order && !fortran)) {
    PyErr_SetString(PyExc_BufferError, "buffer: the tensor does not lie in the order that is asked for (hint: .contiguous())");
    return -1;
  }
  Py_ssize_t* dims = static_cast<Py_ssize_t*>(PyMem_Malloc(2 * size_t(t->ndim + 1) * sizeof(Py_ssize_t)));
  if (dims == nullptr) {
    PyErr_NoMemory();
    return -1;
  }
  const Py_ssize_t size = Py_ssize_t(dtype_size(t->dtype));
  Py_ssize_t step = size;
  for (int k = t->ndim - 1; k >= 0; --k) {
    dims[k] = t->shape()[k];
    dims[t->ndim + k] = in_order ? step : t->strides()[k] * size;
    step *= dims[k] > 0 ? dims[k] : 1;
  }
  view->buf = t->data;
  view->obj = Py_NewRef(self);
  view->len = view_size(v) * size;
  view->readonly = t->storage->read_only;
  view->itemsize = size;
  view->format = (flags & PyBUF_FORMAT) != 0 ? const_cast<char*>(formats[int(t->dtype)]) : nullptr;
  view->ndim = t->ndim;
  view->shape = (flags & PyBUF_ND) != 0 ? dims : nullptr;
  view->strides = wants_strides ? dims + t->ndim : nullptr;
  view->suboffsets = nullptr;
  view->internal = dims;
  if (view->shape == nullptr) view->ndim = 1;
  storage_incref(t->storage);
  return 0;
}

void buffer_release(PyObject* self, Py_buffer* view) {
  PyMem_Free(view->internal);
  storage_decref(as_tensor(self)->storage);
}

#define DW_KEYWORDS(function) reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function)), METH_VARARGS | METH_KEYWORDS
PyMethodDef exchange_methods[] = {
    {"__dlpack__", DW_KEYWORDS(dlpack), "__dlpack__($self, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\nA DLPack capsule of the same memory."},
    {"__dlpack_device__", dlpack_device, METH_NOARGS, "__dlpack_device__($self, /)\n--\n\n(1, 0): the CPU."},
    {"__array__", DW_KEYWORDS(array_method), "__array__($self, dtype=None, copy=None)\n--\n\nThe elements as a numpy array, of the same memory where that is possible."},
    {"__array_namespace__", DW_KEYWORDS(array_namespace), "__array_namespace__($self, *, api_version=None)\n--\n\nThe module tensor."},
    {"abi_header", abi_header, METH_NOARGS, "abi_header($self, /)\n--\n\nWhere the elements lie, as the bytes of docs/formats/tensor-abi.md."},
    {"numpy", numpy_method, METH_NOARGS, "numpy($self, /)\n--\n\nA numpy array over the same memory."},
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
#undef DW_KEYWORDS

int init_exchange(PyObject* module) { return add_functions(module, functions); }

}  // namespace droveway
