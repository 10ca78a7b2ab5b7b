// The one pool of threads of the process. Work is a number of fixed blocks; whoever is free takes the next block,
// and which thread runs a block never reaches a result.
#pragma once
#include <stddef.h>

#define DW_POOL_API __attribute__((visibility("default")))

extern "C" {

using dw_block_fn = void (*)(void* context, size_t block);

// Runs fn(context, b) for every b < blocks and returns when all are done. Called inside a block it runs serially.
// Every block runs in the standard floating-point environment (see fpenv.hpp). fn must not throw.
DW_POOL_API void dw_parallel(size_t blocks, dw_block_fn fn, void* context);

// As dw_parallel, on at most max_threads threads.
DW_POOL_API void dw_parallel_n(size_t blocks, dw_block_fn fn, void* context, int max_threads);

// Threads in use, the calling one included; 1 ≤ n ≤ 1024. Workers are started by the first region that needs them.
DW_POOL_API int dw_threads();
DW_POOL_API void dw_set_threads(int n);
DW_POOL_API int dw_workers_started();

// Reads DROVEWAY_THREADS. nullptr, or one sentence that says what is wrong (it lives until the next call).
DW_POOL_API const char* dw_pool_configure();

// While a hook is set, the calling thread asks it between its blocks; once it answers true the remaining blocks of
// all its regions are left out, and what they should have written is undefined. dw_interrupt_clear removes the hook
// and says whether that happened.
using dw_interrupt_fn = bool (*)();
DW_POOL_API void dw_interrupt_set(dw_interrupt_fn hook);
DW_POOL_API bool dw_interrupt_clear();
}
