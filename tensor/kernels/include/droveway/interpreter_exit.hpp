// Threads of ours when the interpreter ends. CPython before 3.14 ends a daemon thread that comes back for the
// interpreter's lock by unwinding its stack: through C++ that terminates the process, or runs destructors that touch
// Python objects without the lock. Here such a thread stands still instead, as it does from 3.14 on.
#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

namespace droveway {

[[noreturn]] inline void stand_still() {
  for (;;) pause();
}

// Calls what may wait for the interpreter's lock.
template <class Call>
auto unless_interpreter_ends(Call call) {
#ifdef __GLIBCXX__
  try {
    return call();
  } catch (abi::__forced_unwind&) {
    stand_still();
  }
#else
  return call();
#endif
}

// The interpreter's lock, given up for as long as this lives.
class InterpreterUnlocked {
 public:
  InterpreterUnlocked() : state_(PyEval_SaveThread()) {}
  InterpreterUnlocked(const InterpreterUnlocked&) = delete;
  InterpreterUnlocked& operator=(const InterpreterUnlocked&) = delete;
  ~InterpreterUnlocked() {
    unless_interpreter_ends([this] { PyEval_RestoreThread(state_); });
  }

 private:
  PyThreadState* state_;
};

}  // namespace droveway
