// Spec: what is known of a tensor without its elements.
#pragma once
#include "tensor.hpp"

namespace droveway {

struct Spec {
  PyObject_HEAD
  Dtype dtype;
  DeviceKind device;
  uint8_t ndim;
  int64_t shape[kDimsMax];
};

inline bool is_spec(PyObject* o) { return Py_TYPE(o) == spec_type; }
inline Spec* as_spec(PyObject* o) { return reinterpret_cast<Spec*>(o); }
PyObject* spec_new(Dtype dtype, int ndim, const int64_t* shape, DeviceKind device);

// Reads shape, dtype and device of a Spec, a Tensor or anything with such attributes.
bool spec_read(PyObject* o, Spec* out);

PyObject* device_object(DeviceKind d);  // borrowed: tensor.device.Device

}  // namespace droveway
