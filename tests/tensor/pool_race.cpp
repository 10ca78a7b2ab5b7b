// Regions from several threads, nested regions and changing numbers of threads, for the thread sanitizer:
// tests/sanitize.sh compiles this file together with the pool.
#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include "droveway/parallel.hpp"

namespace {

void add_block(void* context, size_t block) {
  auto* total = static_cast<std::atomic<size_t>*>(context);
  total->fetch_add(block);
  dw_parallel(3, [](void* inner, size_t) { static_cast<std::atomic<size_t>*>(inner)->fetch_add(1); }, context);
}

size_t region(size_t blocks) {
  std::atomic<size_t> total{0};
  dw_parallel(blocks, add_block, &total);
  return total;
}

bool check(size_t rounds) {
  for (size_t i = 0; i < rounds; ++i)
    if (region(40) != 780 + 3 * 40) return false;
  return true;
}

}  // namespace

int main() {
  for (int threads : {1, 2, 3, 7}) {
    dw_set_threads(threads);
    if (!check(300)) return 1;
  }
  std::atomic<bool> good{true};
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) callers.emplace_back([&] { good = check(300) && good; });
  for (std::thread& caller : callers) caller.join();
  std::printf("pool: %d workers, %s\n", dw_workers_started(), good ? "every block ran once" : "BLOCKS LOST");
  return good ? 0 : 1;
}
