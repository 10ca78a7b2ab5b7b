// Methods and slots of Tensor, by the file that defines them.
#pragma once
#include <Python.h>

namespace droveway {

extern PyMethodDef creation_methods[];
extern PyMethodDef view_methods[];
extern PyMethodDef indexing_methods[];
extern PyMethodDef exchange_methods[];
extern PyMethodDef dlpack_methods[];
extern PyMethodDef apply_methods[];
extern PyMethodDef backward_methods[];
extern PyMethodDef sum_methods[];

PyObject* get_transposed(PyObject* self, void*);
PyObject* get_matrix_transposed(PyObject* self, void*);
Py_ssize_t tensor_length(PyObject* self);
PyObject* tensor_iterate(PyObject* self);
PyObject* tensor_sequence_item(PyObject* self, Py_ssize_t i);
int tensor_contains(PyObject* self, PyObject* value);

}  // namespace droveway
