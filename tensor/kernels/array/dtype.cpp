// The element types as Python objects, and errors and modules that the other files ask for.
#include <stdarg.h>
#include <initializer_list>
#include <string.h>

#include "array.hpp"

namespace droveway {

PyTypeObject* dtype_type;
thread_local Modes modes;

namespace {

struct DtypeObject {
  PyObject_HEAD
  Dtype code;
  PyObject* name;
};

PyObject* objects[kDtypes];

Dtype code_of(PyObject* o) { return reinterpret_cast<DtypeObject*>(o)->code; }

PyObject* dtype_repr(PyObject* self) { return PyUnicode_FromFormat("tensor.%s", dtype_name(code_of(self))); }
PyObject* dtype_str(PyObject* self) { return Py_NewRef(reinterpret_cast<DtypeObject*>(self)->name); }
Py_hash_t dtype_hash(PyObject* self) { return PyObject_Hash(reinterpret_cast<DtypeObject*>(self)->name); }

PyObject* dtype_compare(PyObject* a, PyObject* b, int op) {
  if (op != Py_EQ && op != Py_NE) Py_RETURN_NOTIMPLEMENTED;
  bool equal;
  if (Py_TYPE(b) == dtype_type)
    equal = a == b;
  else if (PyUnicode_Check(b))
    equal = PyUnicode_Compare(reinterpret_cast<DtypeObject*>(a)->name, b) == 0;
  else
    Py_RETURN_NOTIMPLEMENTED;
  return PyBool_FromLong(equal == (op == Py_EQ));
}

PyObject* dtype_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"name", nullptr};
  PyObject* name;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:Dtype", const_cast<char**>(names), &name)) return nullptr;
  Dtype d;
  if (!dtype_from(name, &d)) return nullptr;
  return Py_NewRef(objects[int(d)]);
}

PyObject* dtype_get_name(PyObject* self, void*) { return Py_NewRef(reinterpret_cast<DtypeObject*>(self)->name); }
PyObject* dtype_get_itemsize(PyObject* self, void*) { return PyLong_FromSize_t(dtype_size(code_of(self))); }
PyObject* dtype_get_code(PyObject* self, void*) { return PyLong_FromLong(long(code_of(self))); }
PyObject* dtype_get_kind(PyObject* self, void*) {
  const Dtype d = code_of(self);
  return PyUnicode_FromString(d == Dtype::boolean      ? "bool"
                              : is_signed_int(d)   ? "signed integer"
                              : is_unsigned_int(d) ? "unsigned integer"
                              : is_complex(d)      ? "complex floating"
                                                   : "real floating");
}
PyObject* dtype_reduce(PyObject* self, PyObject*) {
  return Py_BuildValue("O(O)", reinterpret_cast<PyObject*>(dtype_type), reinterpret_cast<DtypeObject*>(self)->name);
}

PyGetSetDef dtype_getset[] = {
    {"name", dtype_get_name, nullptr, "The name: 'float32'.", nullptr},
    {"itemsize", dtype_get_itemsize, nullptr, "Bytes of one element.", nullptr},
    {"code", dtype_get_code, nullptr, "The number of the type in docs/formats/tensor-abi.md.", nullptr},
    {"kind", dtype_get_kind, nullptr, "The kind, in the words of the array API standard.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyMethodDef dtype_methods[] = {
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, nullptr},
    {"__reduce__", dtype_reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot dtype_slots[] = {
    {Py_tp_doc, const_cast<char*>("Dtype(name)\n--\n\nAn element type; there is one object for each: tensor.float32, …")},
    {Py_tp_new, reinterpret_cast<void*>(dtype_new)},
    {Py_tp_repr, reinterpret_cast<void*>(dtype_repr)},
    {Py_tp_str, reinterpret_cast<void*>(dtype_str)},
    {Py_tp_hash, reinterpret_cast<void*>(dtype_hash)},
    {Py_tp_richcompare, reinterpret_cast<void*>(dtype_compare)},
    {Py_tp_getset, dtype_getset},
    {Py_tp_methods, dtype_methods},
    {0, nullptr},
};
PyType_Spec dtype_spec = {"tensor._kernels.Dtype", sizeof(DtypeObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
                          dtype_slots};

}  // namespace

int add_type(PyObject* module, const char* name, PyType_Spec* spec, PyTypeObject** out) {
  PyObject* type = PyType_FromModuleAndSpec(module, spec, nullptr);
  if (type == nullptr) return -1;
  *out = reinterpret_cast<PyTypeObject*>(type);
  return PyModule_AddObjectRef(module, name, type);
}

int add_functions(PyObject* module, PyMethodDef* functions) { return PyModule_AddFunctions(module, functions); }

PyObject* from_module(const char* module, const char* name) {
  PyObject* m = PyImport_ImportModule(module);
  if (m == nullptr) return nullptr;
  PyObject* value = PyObject_GetAttrString(m, name);
  Py_DECREF(m);
  return value;
}

PyObject* call_python(const char* module, const char* name, PyObject* const* arguments, size_t count) {
  PyObject* function = from_module(module, name);
  if (function == nullptr) return nullptr;
  PyObject* result = PyObject_Vectorcall(function, arguments, count, nullptr);
  Py_DECREF(function);
  return result;
}

int optional_truth(PyObject* o) {
  if (o == Py_None) return -1;
  const int yes = PyObject_IsTrue(o);
  return yes < 0 ? -2 : yes;
}

PyObject* raise_error(const char* kind, const char* format, ...) {
  PyObject* type = from_module("tensor.errors", kind);
  if (type == nullptr) return nullptr;
  va_list arguments;
  va_start(arguments, format);
  PyErr_FormatV(type, format, arguments);
  va_end(arguments);
  Py_DECREF(type);
  return nullptr;
}

PyObject* dtype_object(Dtype d) { return objects[int(d)]; }

bool dtype_from(PyObject* o, Dtype* out) {
  if (Py_TYPE(o) == dtype_type) {
    *out = code_of(o);
    return true;
  }
  PyObject* name = nullptr;
  if (PyUnicode_Check(o))
    name = Py_NewRef(o);
  else if (o == reinterpret_cast<PyObject*>(&PyFloat_Type))
    name = PyUnicode_FromString("float32");
  else if (o == reinterpret_cast<PyObject*>(&PyLong_Type))
    name = PyUnicode_FromString("int64");
  else if (o == reinterpret_cast<PyObject*>(&PyBool_Type))
    name = PyUnicode_FromString("bool");
  else if (o == reinterpret_cast<PyObject*>(&PyComplex_Type))
    name = PyUnicode_FromString("complex64");
  else if (PyType_Check(o))  // numpy.float32 and its like
    name = PyObject_GetAttrString(o, "__name__");
  else
    name = PyObject_GetAttrString(o, "name");  // numpy.dtype
  if (name != nullptr && PyUnicode_Check(name)) {
    for (int i = 0; i < kDtypes; ++i) {
      if (PyUnicode_CompareWithASCIIString(name, dtype_name(Dtype(i))) == 0) {
        *out = Dtype(i);
        Py_DECREF(name);
        return true;
      }
    }
  }
  Py_XDECREF(name);
  PyErr_Clear();
  raise_error("DtypeError", "dtype must be one of tensor's element types (tensor.float32, 'int64', ...), got %R", o);
  return false;
}

int init_dtype(PyObject* module) {
  if (add_type(module, "Dtype", &dtype_spec, &dtype_type) < 0) return -1;
  PyObject* all = PyTuple_New(kDtypes);
  if (all == nullptr) return -1;
  for (int i = 0; i < kDtypes; ++i) {
    DtypeObject* d = PyObject_New(DtypeObject, dtype_type);
    if (d == nullptr) return -1;
    d->code = Dtype(i);
    d->name = PyUnicode_InternFromString(dtype_name(Dtype(i)));
    objects[i] = reinterpret_cast<PyObject*>(d);
    PyTuple_SET_ITEM(all, i, Py_NewRef(objects[i]));
  }
  const int done = PyModule_AddObjectRef(module, "DTYPES", all);
  Py_DECREF(all);
  return done;
}

int init_array(PyObject* module) {
  using Init = int (*)(PyObject*);
  for (Init init : {Init(init_dtype), Init(init_spec), Init(init_budget), Init(init_tensor), Init(init_creation), Init(init_views),
                    Init(init_indexing), Init(init_rows), Init(init_assignment), Init(init_node), Init(init_apply),
                    Init(init_exchange), Init(init_dlpack),
                    Init(init_backward), Init(init_sum)})
    if (init(module) < 0) return -1;
  return 0;
}

}  // namespace droveway
