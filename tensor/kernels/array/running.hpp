// Long kernels run without Python's lock and stop between blocks at Ctrl-C.
#pragma once
#include "tensor.hpp"

#include "droveway/interpreter_exit.hpp"
#include "droveway/parallel.hpp"

namespace droveway {

bool interrupt_asked();  // asked between blocks; every 20 ms lets signal handlers run

// False with the handler's exception set if one was raised: then the output is partly written.
template <class Work>
bool run_unlocked(Work work) {
  bool stopped;
  {
    InterpreterUnlocked unlocked;
    dw_interrupt_set(interrupt_asked);
    work();
    stopped = dw_interrupt_clear();
  }
  return !stopped;
}

constexpr int64_t kLongBytes = 1 << 18;  // less is moved in microseconds
inline bool takes_long(const View& v) { return view_size(v) * int64_t(dtype_size(v.dtype)) >= kLongBytes; }

// copy_elements and fill_elements that let other threads run where they take long. False as above.
inline bool copy_running(const View& dst, const View& src) {
  if (takes_long(dst)) return run_unlocked([&] { copy_elements(dst, src); });
  copy_elements(dst, src);
  return true;
}
inline bool fill_running(const View& dst, const void* element) {
  if (takes_long(dst)) return run_unlocked([&] { fill_elements(dst, element); });
  fill_elements(dst, element);
  return true;
}

}  // namespace droveway
