// Large blocks of memory in pages of their own, and the few of them that are kept for the next request.
#pragma once
#include <stddef.h>

namespace droveway {

constexpr size_t kPagesMin = size_t{64} << 10;  // bytes; below, whole pages would waste more than they give back

// Undefined content, aligned to a page; nullptr where the system has none.
char* pages_take(size_t nbytes);
void pages_give(char* data, size_t nbytes);

// Hands what is kept back to the system; how many bytes that were.
size_t pages_trim();

}  // namespace droveway
