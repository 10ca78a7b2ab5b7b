#include "droveway/parallel.hpp"

#include <stdlib.h>

namespace {
int threads = 1;
}

extern "C" {
void dw_parallel_n(size_t blocks, dw_block_fn fn, void* context, int) {
  for (size_t b = 0; b < blocks; ++b) fn(context, b);
}
void dw_parallel(size_t blocks, dw_block_fn fn, void* context) { dw_parallel_n(blocks, fn, context, threads); }
int dw_threads() { return threads; }
void dw_set_threads(int n) { threads = n; }
const char* dw_pool_configure() {
  const char* text = getenv("DROVEWAY_THREADS");
  if (text == nullptr) return nullptr;
  char* end = nullptr;
  const long n = strtol(text, &end, 10);
  if (end == text || *end != '\0' || n < 1 || n > 1024) return "DROVEWAY_THREADS must be a whole number from 1 to 1024";
  threads = int(n);
  return nullptr;
}
}
