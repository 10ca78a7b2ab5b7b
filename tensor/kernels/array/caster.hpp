// Arguments of bindings: `In` is anything that can be read as a View (a Tensor, without any call into Python; a numpy
// array or another buffer), `Out` the same for a kernel to write. Both keep what they look at alive and in place.
//
//     m.def("softmax", [](const In& x, const Out& out, int axis) { … x.view() … }, …);
//
// A Tensor that is traced, or read-only as Out, is refused.
#pragma once
#include "tensor.hpp"

#include <nanobind/nanobind.h>

#include <utility>

namespace droveway {

// A Py_buffer's memory as dims; false, with no error set, where the buffer holds no element type of ours.
bool buffer_dims(const Py_buffer& buffer, Dtype* dtype, int* ndim, int64_t* dims);

class Operand {
 public:
  Operand() = default;
  Operand(const Operand&) = delete;
  Operand& operator=(const Operand&) = delete;
  Operand(Operand&& other) noexcept { *this = std::move(other); }
  Operand& operator=(Operand&& other) noexcept {
    reset();
    tensor_ = std::exchange(other.tensor_, nullptr);
    buffer_ = std::exchange(other.buffer_, nullptr);
    dtype_ = other.dtype_;
    ndim_ = other.ndim_;
    for (int d = 0; d < 2 * ndim_; ++d) dims_[d] = other.dims_[d];
    return *this;
  }
  ~Operand() { reset(); }

  View view() const {
    if (tensor_ != nullptr) return view_of(tensor_);
    return {static_cast<char*>(buffer_->buf), dtype_, ndim_, dims_, dims_ + ndim_};
  }
  Tensor* tensor() const { return tensor_; }  // nullptr for another buffer

  bool load(PyObject* o, bool writable) noexcept {
    reset();
    if (is_tensor(o)) {
      Tensor* t = as_tensor(o);
      if (t->storage == nullptr || (t->flags & kTraced) != 0 || (writable && t->storage->read_only)) return false;
      Py_INCREF(o);
      tensor_ = t;
      return true;
    }
    if (!PyObject_CheckBuffer(o)) return false;
    buffer_ = new Py_buffer;
    if (PyObject_GetBuffer(o, buffer_, writable ? PyBUF_FULL : PyBUF_FULL_RO) != 0) {
      PyErr_Clear();
      delete std::exchange(buffer_, nullptr);
      return false;
    }
    return buffer_dims(*buffer_, &dtype_, &ndim_, dims_);
  }

 private:
  void reset() noexcept {
    Py_XDECREF(as_object(std::exchange(tensor_, nullptr)));
    if (buffer_ != nullptr) {
      PyBuffer_Release(buffer_);
      delete std::exchange(buffer_, nullptr);
    }
  }

  Tensor* tensor_ = nullptr;
  Py_buffer* buffer_ = nullptr;
  Dtype dtype_ = Dtype::u8;
  int ndim_ = 0;
  int64_t dims_[2 * kDimsMax];
};

class In : public Operand {};
class Out : public Operand {};

}  // namespace droveway

namespace nanobind::detail {

template <> struct type_caster<droveway::In> {
  NB_TYPE_CASTER(droveway::In, const_name("object"))
  bool from_python(handle src, uint8_t, cleanup_list*) noexcept { return value.load(src.ptr(), false); }
};

template <> struct type_caster<droveway::Out> {
  NB_TYPE_CASTER(droveway::Out, const_name("object"))
  bool from_python(handle src, uint8_t, cleanup_list*) noexcept { return value.load(src.ptr(), true); }
};

}  // namespace nanobind::detail
