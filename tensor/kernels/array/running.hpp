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

}  // namespace droveway
