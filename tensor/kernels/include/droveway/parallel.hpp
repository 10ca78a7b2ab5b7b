// The one pool of threads of the process. Work is a number of fixed blocks; whoever is free takes the next block,
// and which thread runs a block never reaches a result.
#pragma once
#include <stddef.h>

extern "C" {

using dw_block_fn = void (*)(void* context, size_t block);

// Runs fn(context, b) for every b < blocks and returns when all are done. Called inside a block it runs serially.
__attribute__((visibility("default"))) void dw_parallel(size_t blocks, dw_block_fn fn, void* context);

// As dw_parallel, on at most max_threads threads (self-test and benchmarks).
__attribute__((visibility("default"))) void dw_parallel_n(size_t blocks, dw_block_fn fn, void* context, int max_threads);

// Threads in use; 1 ≤ n ≤ 1024.
__attribute__((visibility("default"))) int dw_threads();
__attribute__((visibility("default"))) void dw_set_threads(int n);

// Reads DROVEWAY_THREADS once. nullptr, or one sentence that says what is wrong.
__attribute__((visibility("default"))) const char* dw_pool_configure();
}
