// DLPack 1.x, both ways.
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "array.hpp"
#include "exchange.hpp"
#include "methods.hpp"

namespace droveway {

namespace {

// --- dlpack.h of version 1.1

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
PyObject* dlpack(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"stream", "max_version", "dl_device", "copy", nullptr};
  PyObject *stream = Py_None, *max_version = Py_None, *device = Py_None, *copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__", const_cast<char**>(names), &stream, &max_version, &device, &copy))
    return nullptr;
  if (stream != Py_None) return PyErr_SetString(PyExc_BufferError, "__dlpack__: stream must be None for a tensor on the CPU"), nullptr;
  if (device != Py_None) {
    int type, id;
    if (!PyTuple_Check(device)) return PyErr_Format(PyExc_TypeError, "__dlpack__: dl_device must be a pair of ints, got %R", device);
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
  const int wanted = optional_truth(copy);
  if (wanted < -1) return Py_DECREF(source), nullptr;
  const bool copied = wanted == 1;
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
  if (m->deleter == nullptr) return;
  PyObject *type, *value, *traceback;  // tensors end while errors are on their way, and a deleter may be Python
  PyErr_Fetch(&type, &value, &traceback);
  m->deleter(m);
  PyErr_Restore(type, value, traceback);
}

PyObject* refused(const char* format, long long number) { return PyErr_Format(PyExc_BufferError, format, number); }

// Takes the tensor over; on failure the capsule stays whole and ends its own content.
template <class Managed>
PyObject* take(PyObject* capsule, const char* used, Managed* m, const DlTensor& dl, bool read_only, int copy) {
  Dtype d;
  if (dl.device.type != kDlCpu) return refused("from_dlpack: the memory must lie on the CPU (device type 1), got device type %lld", dl.device.type);
  if (dl.dtype.lanes != 1) return refused("from_dlpack: elements must have one lane, got %lld", dl.dtype.lanes);
  if (!from_dl_type(dl.dtype, &d)) return PyErr_Format(PyExc_BufferError, "from_dlpack: no element type of tensor has code %d and %d bits", int(dl.dtype.code), int(dl.dtype.bits));
  if (dl.ndim < 0 || dl.ndim > kDimsMax) return refused("from_dlpack: from 0 to 16 dimensions, got %lld", dl.ndim);
  if (dl.ndim > 0 && dl.shape == nullptr) return refused("from_dlpack: the shape is NULL for %lld dimensions", dl.ndim);
  int64_t strides[kDimsMax], bytes[kDimsMax], size = int64_t(dtype_size(d)), step = 1;
  bool empty = false, overflow = false;
  for (int k = dl.ndim - 1; k >= 0; --k) {
    if (dl.shape[k] < 0) return refused("from_dlpack: lengths must not be negative, got %lld", dl.shape[k]);
    strides[k] = dl.strides == nullptr ? step : dl.shape[k] == 1 ? 1 : dl.strides[k];
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
  const bool in_place = !empty && usable_in_place(View{data, d, dl.ndim, dl.shape, strides});
  if (!in_place && !empty && copy == 0)
    return PyErr_SetString(PyExc_BufferError, "from_dlpack: elements that are not aligned, or booleans that are not 0 and 1, cannot become a tensor without a copy"), nullptr;
  if (!in_place || copy == 1) {
    Tensor* t = empty ? tensor_empty(d, dl.ndim, dl.shape, DeviceKind::cpu, "from_dlpack") : gathered(data, d, dl.ndim, dl.shape, bytes, "from_dlpack");
    if (t == nullptr) return nullptr;
    PyCapsule_SetName(capsule, used);
    if (m->deleter != nullptr) m->deleter(m);
    return as_object(t);
  }
  Storage* s = storage_around(View{data, d, dl.ndim, dl.shape, strides}, end_import<Managed>, m);
  if (s == nullptr) return nullptr;
  s->read_only = read_only;
  PyCapsule_SetName(capsule, used);
  return as_object(tensor_over(s, data, d, dl.ndim, dl.shape, strides));
}

PyObject* from_capsule(PyObject* capsule, int copy) {
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    DlVersioned* m = static_cast<DlVersioned*>(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
    if (m->major != 1) return refused("from_dlpack: DLPack of major version 1 is understood, got %lld", m->major);
    return take(capsule, "used_dltensor_versioned", m, m->tensor, (m->flags & kReadOnly) != 0, (m->flags & kCopied) != 0 && copy == 1 ? -1 : copy);
  }
  if (PyCapsule_IsValid(capsule, "dltensor")) {
    DlManaged* m = static_cast<DlManaged*>(PyCapsule_GetPointer(capsule, "dltensor"));
    return take(capsule, "used_dltensor", m, m->tensor, false, copy);
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
  if (PyCapsule_CheckExact(value)) return from_capsule(value, copy);
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
  PyObject* out = from_capsule(capsule, copy);
  Py_DECREF(capsule);
  return out;
}

PyObject* py_from_dlpack(PyObject*, PyObject* args) {
  PyObject *value, *copy = Py_None;
  if (!PyArg_ParseTuple(args, "O|O:from_dlpack", &value, &copy)) return nullptr;
  const int wanted = optional_truth(copy);
  return wanted < -1 ? nullptr : from_dlpack(value, wanted);
}

PyMethodDef functions[] = {
    {"from_dlpack", py_from_dlpack, METH_VARARGS, "from_dlpack($module, x, copy=None, /)\n--\n\nA Tensor over the memory of a DLPack object."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

#define DW_KEYWORDS(function) reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function)), METH_VARARGS | METH_KEYWORDS
PyMethodDef dlpack_methods[] = {
    {"__dlpack__", DW_KEYWORDS(dlpack), "__dlpack__($self, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\nA DLPack capsule of the same memory."},
    {"__dlpack_device__", dlpack_device, METH_NOARGS, "__dlpack_device__($self, /)\n--\n\n(1, 0): the CPU."},
    {nullptr, nullptr, 0, nullptr},
};
#undef DW_KEYWORDS

int init_dlpack(PyObject* module) { return add_functions(module, functions); }

}  // namespace droveway
