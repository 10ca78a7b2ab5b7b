// A gate that many threads may wait at, and a function that opens many gates at once. Included by module.cpp only.
//
// threading.Lock could do it, one by one and with the interpreter's lock held: each waiter that it wakes runs into that
// lock at once and sleeps again. Here all gates are opened while nobody holds it, and each waiter takes it in passing.
//
// The interpreter ends threads, at its own end, by unwinding them from where they take its lock again. So nothing here
// has a destructor or a nanobind frame around that place, which must not throw.
#pragma once
#include <Python.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <new>

namespace droveway {

struct GateObject {
  PyObject_HEAD
  std::atomic<uint32_t> open;  // 0 or 1; a kernel futex
};

static_assert(sizeof(std::atomic<uint32_t>) == 4 && std::atomic<uint32_t>::is_always_lock_free);

inline PyTypeObject* gate_type = nullptr;

inline long futex(std::atomic<uint32_t>& word, int operation, uint32_t value) {
  return syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation, value, nullptr, nullptr, 0);
}

inline PyObject* gate_new(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* object = type->tp_alloc(type, 0);
  if (object != nullptr) new (&reinterpret_cast<GateObject*>(object)->open) std::atomic<uint32_t>(0);
  return object;
}

inline void gate_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

inline PyObject* gate_wait(PyObject* self, PyObject*) {
  std::atomic<uint32_t>& open = reinterpret_cast<GateObject*>(self)->open;
  while (open.load(std::memory_order_acquire) == 0) {
    bool interrupted = false;
    Py_BEGIN_ALLOW_THREADS
    interrupted = futex(open, FUTEX_WAIT_PRIVATE, 0) != 0 && errno == EINTR;
    Py_END_ALLOW_THREADS
    if (interrupted && PyErr_CheckSignals() != 0) return nullptr;
  }
  Py_RETURN_NONE;
}

inline PyObject* open_gates(PyObject*, PyObject* gates) {
  PyObject* held = PySequence_Tuple(gates);
  if (held == nullptr) return nullptr;
  const Py_ssize_t count = PyTuple_GET_SIZE(held);
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (Py_TYPE(PyTuple_GET_ITEM(held, i)) == gate_type) continue;
    Py_DECREF(held);
    PyErr_SetString(PyExc_TypeError, "open_gates: every item must be a Gate");
    return nullptr;
  }
  Py_BEGIN_ALLOW_THREADS
  for (Py_ssize_t i = 0; i < count; ++i) {
    std::atomic<uint32_t>& open = reinterpret_cast<GateObject*>(PyTuple_GET_ITEM(held, i))->open;
    if (open.exchange(1, std::memory_order_release) == 0) futex(open, FUTEX_WAKE_PRIVATE, INT_MAX);
  }
  Py_END_ALLOW_THREADS
  Py_DECREF(held);
  Py_RETURN_NONE;
}

// Adds the class Gate and the function open_gates to a module; false with an error set.
inline bool add_gates(PyObject* module) {
  static PyMethodDef methods[] = {
      {"wait", gate_wait, METH_NOARGS, "wait($self, /)\n--\n\nReturn once the gate is open; signals are handled."},
      {nullptr, nullptr, 0, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(gate_new)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(gate_dealloc)},
                                {Py_tp_methods, methods},
                                {Py_tp_doc, const_cast<char*>("A gate, shut when it is made; once open it stays so.")},
                                {0, nullptr}};
  static PyType_Spec spec = {"storage._kernels.Gate", int(sizeof(GateObject)), 0, Py_TPFLAGS_DEFAULT, slots};
  static PyMethodDef functions[] = {
      {"open_gates", open_gates, METH_O,
       "open_gates(gates, /)\n--\n\nOpen gates and wake who waits there, without the interpreter's lock."},
      {nullptr, nullptr, 0, nullptr}};
  PyObject* type = PyType_FromSpec(&spec);
  if (type == nullptr) return false;
  gate_type = reinterpret_cast<PyTypeObject*>(type);
  return PyModule_AddObjectRef(module, "Gate", type) == 0 && PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace droveway
