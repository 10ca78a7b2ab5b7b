// Memory that a kernel works in, for the time of one call: it counts in the active budgets.
#pragma once
#include <nanobind/nanobind.h>

#include "array/tensor.hpp"

namespace droveway {

// Where a plan asks how much a kernel works in, the call ends here: see workspace_of.
inline thread_local int64_t* workspace_answer = nullptr;

class Workspace {
 public:
  // Raises BudgetExceeded or MemoryError; `label` is a literal. Made and destroyed with Python's lock held.
  Workspace(size_t nbytes, const char* label) {
    if (workspace_answer != nullptr) {
      *workspace_answer = int64_t(nbytes);
      throw nanobind::value_error("a plan asked for the workspace");
    }
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
