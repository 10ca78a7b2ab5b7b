// How a plan finds out what a kernel works in.
#pragma once

namespace droveway {

// While this is set for a thread, a kernel that needs memory of its own stops when it has it: nothing is computed.
inline thread_local bool only_workspace = false;

}  // namespace droveway
