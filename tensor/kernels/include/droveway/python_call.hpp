// How a binding calls a kernel: without Python's lock, stopped by Ctrl-C between two blocks.
// Included by module.cpp only.
#pragma once
#include <nanobind/nanobind.h>

#include <time.h>

#include "droveway/interpreter_exit.hpp"
#include "droveway/parallel.hpp"

namespace droveway {

// Asked between blocks on the calling thread; every 20 ms it takes Python's lock and lets signal handlers run.
inline bool interrupt_requested() {
  static thread_local long last_ms = 0;
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  const long ms = long(now.tv_sec) * 1000 + now.tv_nsec / 1000000;
  if (ms - last_ms < 20) return false;
  last_ms = ms;
  return unless_interpreter_ends([] {
    nanobind::gil_scoped_acquire lock;
    return PyErr_CheckSignals() != 0;
  });
}

// Runs work() without Python's lock. Raises what a signal handler raised (KeyboardInterrupt) if one did: the output
// is then partly written.
template <class Work>
void call_kernel(Work work) {
  bool stopped;
  {
    InterpreterUnlocked unlocked;
    dw_interrupt_set(interrupt_requested);
    work();
    stopped = dw_interrupt_clear();
  }
  if (stopped) nanobind::raise_python_error();
}

}  // namespace droveway
