// Memory that a kernel works in, for the time of one call: it counts in the active budgets.
#pragma once
#include <nanobind/nanobind.h>

#include "array/tensor.hpp"
#include "only_workspace.hpp"

namespace droveway {

class Workspace {
 public:
  // Raises BudgetExceeded or MemoryError; `label` is a literal. Made and destroyed with Python's lock held.
  Workspace(size_t nbytes, const char* label) {
    if (nbytes == 0) return;
    storage_ = storage_new(nbytes, label);
    if (storage_ == nullptr) nanobind::raise_python_error();
  }
  ~Workspace() {
    if (storage_ != nullptr) storage_decref(storage_);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  char* data() const { return storage_ != nullptr ? storage_->data : nullptr; }

 private:
  Storage* storage_ = nullptr;
};

}  // namespace droveway
