// The thread pool: a region is a counter of blocks that the caller and the workers pull from.
//
// One 32-bit word holds the region's state: bit 31 open, bits 16–30 workers that joined, bits 0–15 workers still
// running. A worker enters by adding itself to both counts while the region is open; the caller closes it and waits
// for the last count to fall to zero. Idle workers sleep on `epoch`, which every region increments.
//
// All state is plain static data without destructors: workers may outlive static destruction.
#include "droveway/interrupt.hpp"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#define DW_ISA pool_environment
#include "droveway/fpenv.hpp"

namespace {

constexpr int kThreadsMax = 1024;
constexpr int kSpins = 400;  // pauses before sleeping: a few microseconds
constexpr uint32_t kOpen = 1u << 31;
constexpr uint32_t kJoined = 1u << 16;
constexpr uint32_t kJoinedMask = 0x7FFFu << 16;
constexpr uint32_t kRunningMask = 0xFFFFu;

struct Region {
  dw_block_fn fn;
  void* context;
  size_t blocks;
};

pthread_mutex_t region_lock = PTHREAD_MUTEX_INITIALIZER;  // one region has the workers; others run on their caller alone
Region region;                                            // written under the lock while the region is closed
std::atomic<size_t> next_block{0};
std::atomic<uint32_t> workers_allowed{0};
std::atomic<uint32_t> state{0};
std::atomic<uint32_t> epoch{0};
std::atomic<int> threads{0};  // 0: not yet asked
std::atomic<int> workers{0};
std::atomic<bool> fork_handlers{false};

thread_local bool inside_region = false;
thread_local dw_interrupt_fn interrupt_hook = nullptr;
// A hook runs signal handlers, which may call kernels with hooks of their own: the outer one comes back afterwards.
constexpr int kHooksKept = 8;
thread_local dw_interrupt_fn outer_hooks[kHooksKept];
thread_local int hooks_set = 0;
thread_local bool interrupted = false;

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}
void futex_wake(std::atomic<uint32_t>& word, int count) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}
void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  asm volatile("yield");
#endif
}

bool join() {
  uint32_t s = state.load(std::memory_order_acquire);
  while ((s & kOpen) != 0 && ((s & kJoinedMask) >> 16) < workers_allowed.load(std::memory_order_relaxed)) {
    if (state.compare_exchange_weak(s, s + kJoined + 1, std::memory_order_acq_rel)) return true;
  }
  return false;
}

void leave() {
  const uint32_t s = state.fetch_sub(1, std::memory_order_acq_rel) - 1;
  if ((s & kOpen) == 0 && (s & kRunningMask) == 0) futex_wake(state, 1);
}

void* worker(void*) {
  pool_environment::FpGuard environment;  // the thread that started us may have had another one
  inside_region = true;
  uint32_t seen = epoch.load(std::memory_order_acquire) - 1;  // a region may be open already
  for (;;) {
    for (int i = 0; i < kSpins && epoch.load(std::memory_order_acquire) == seen; ++i) pause_briefly();
    while (epoch.load(std::memory_order_acquire) == seen) futex_wait(epoch, seen);
    seen = epoch.load(std::memory_order_acquire);
    if (!join()) continue;
    const Region work = region;
    for (;;) {
      const size_t b = next_block.fetch_add(1, std::memory_order_relaxed);
      if (b >= work.blocks) break;
      work.fn(work.context, b);
    }
    leave();
  }
  return nullptr;
}

// The workers did not come along into the child, and neither did whoever held the lock: start afresh. Nothing is
// taken before the fork, because the thread that runs a region may be waiting for what the forking thread holds
// (Python's lock, in the interrupt hook).
void after_fork_child() {
  pthread_mutex_init(&region_lock, nullptr);
  state.store(0);
  workers.store(0);
  inside_region = false;
}

void register_fork_handler() {
  if (!fork_handlers.exchange(true)) pthread_atfork(nullptr, nullptr, after_fork_child);
}

// Called under the lock. A thread that cannot be started is one fewer: results do not depend on it.
void start_workers(int wanted) {
  register_fork_handler();
  while (workers.load(std::memory_order_relaxed) < wanted) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, size_t{1} << 20);
    pthread_t thread;
    const int failed = pthread_create(&thread, &attributes, worker, nullptr);
    pthread_attr_destroy(&attributes);
    if (failed != 0) return;
    workers.fetch_add(1, std::memory_order_relaxed);
  }
}

bool stop_requested() {
  if (interrupt_hook != nullptr && !interrupted) interrupted = interrupt_hook();
  return interrupted;
}

int cpus_allowed() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    const int n = CPU_COUNT(&set);
    return n < 1 ? 1 : n > kThreadsMax ? kThreadsMax : n;
  }
  return 1;
}

}  // namespace

extern "C" {

int dw_threads() {
  int n = threads.load(std::memory_order_relaxed);
  if (n == 0) {
    n = cpus_allowed();
    threads.store(n, std::memory_order_relaxed);
  }
  return n;
}

void dw_set_threads(int n) { threads.store(n < 1 ? 1 : n > kThreadsMax ? kThreadsMax : n, std::memory_order_relaxed); }

int dw_workers_started() { return workers.load(std::memory_order_relaxed); }

void dw_parallel_n(size_t blocks, dw_block_fn fn, void* context, int max_threads) {
  if (blocks == 0 || interrupted) return;  // what an interrupted region left undone must not lead this one's workers
  pool_environment::FpGuard environment;
  size_t n = size_t(dw_threads());
  if (max_threads >= 1 && size_t(max_threads) < n) n = size_t(max_threads);
  if (blocks < n) n = blocks;
  // Nobody waits for the lock: its holder may be waiting, in the interrupt hook, for Python's lock, which we may have.
  if (n <= 1 || inside_region || pthread_mutex_trylock(&region_lock) != 0) {
    for (size_t b = 0; b < blocks && !stop_requested(); ++b) fn(context, b);
    return;
  }

  inside_region = true;
  start_workers(int(n) - 1);
  region = Region{fn, context, blocks};
  next_block.store(0, std::memory_order_relaxed);
  workers_allowed.store(uint32_t(n - 1), std::memory_order_relaxed);
  state.store(kOpen, std::memory_order_release);
  epoch.fetch_add(1, std::memory_order_acq_rel);
  futex_wake(epoch, int(n) - 1);

  for (;;) {
    const size_t b = next_block.fetch_add(1, std::memory_order_relaxed);
    if (b >= blocks) break;
    if (stop_requested()) {
      next_block.store(blocks, std::memory_order_relaxed);
      break;
    }
    fn(context, b);
  }

  uint32_t s = state.fetch_and(~kOpen, std::memory_order_acq_rel) & ~kOpen;
  for (int i = 0; i < kSpins && (s & kRunningMask) != 0; ++i) {
    pause_briefly();
    s = state.load(std::memory_order_acquire);
  }
  while ((s & kRunningMask) != 0) {
    futex_wait(state, s);
    s = state.load(std::memory_order_acquire);
  }
  inside_region = false;
  pthread_mutex_unlock(&region_lock);
}

void dw_parallel(size_t blocks, dw_block_fn fn, void* context) { dw_parallel_n(blocks, fn, context, kThreadsMax); }

void dw_interrupt_set(dw_interrupt_fn hook) {
  if (hooks_set < kHooksKept) outer_hooks[hooks_set] = interrupt_hook;
  ++hooks_set;
  interrupt_hook = hook;
  interrupted = false;
}

bool dw_interrupt_clear() {
  const bool was = interrupted;
  --hooks_set;
  interrupt_hook = hooks_set < kHooksKept ? outer_hooks[hooks_set] : nullptr;
  interrupted = false;
  return was;
}

bool dw_stop_requested() { return stop_requested(); }

const char* dw_pool_configure() {
  // At import, not in the first region: a fork by another thread between taking the lock and registering would leave
  // the child with a lock that nobody holds.
  register_fork_handler();
  static char text[160];
  const char* value = getenv("DROVEWAY_THREADS");
  if (value == nullptr || *value == '\0') return nullptr;
  long n = 0;
  const size_t digits = strspn(value, "0123456789");
  if (digits == strlen(value) && digits <= 4) n = strtol(value, nullptr, 10);
  if (n < 1 || n > kThreadsMax) {
    snprintf(text, sizeof text, "DROVEWAY_THREADS=%.40s is not a number of threads: expected a whole number from 1 to %d",
             value, kThreadsMax);
    return text;
  }
  threads.store(int(n), std::memory_order_relaxed);
  return nullptr;
}
}
