// The best k rows of one query while a scan runs: a heap with the worst row at its root, in the order of keys descending,
// then ids ascending (vector/topk.py).
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "droveway/lanes.hpp"

namespace DW_ISA {

struct Best {
  double* keys;
  uint64_t* ids;
  size_t count;
  size_t k;
  double threshold;  // no key below it can enter: −inf until k rows are there, then the worst one's key

  void start(double* key_memory, uint64_t* id_memory, size_t size) {
    keys = key_memory;
    ids = id_memory;
    count = 0;
    k = size;
    threshold = f64_of(0xFFF0000000000000ull);
  }
  static DW_INLINE bool worse(double key, uint64_t id, double other_key, uint64_t other_id) {
    return key < other_key || (key == other_key && id > other_id);
  }
  // The place of a row that sinks from `at` until both below it are better than it.
  void sink(size_t at, double key, uint64_t id, size_t size) {
    for (;;) {
      size_t below = 2 * at + 1;
      if (below >= size) break;
      if (below + 1 < size && worse(keys[below + 1], ids[below + 1], keys[below], ids[below])) ++below;
      if (!worse(keys[below], ids[below], key, id)) break;
      keys[at] = keys[below];
      ids[at] = ids[below];
      at = below;
    }
    keys[at] = key;
    ids[at] = id;
  }
  void offer(double key, uint64_t id) {
    if (count < k) {
      size_t at = count++;
      while (at != 0 && worse(key, id, keys[(at - 1) / 2], ids[(at - 1) / 2])) {
        keys[at] = keys[(at - 1) / 2];
        ids[at] = ids[(at - 1) / 2];
        at = (at - 1) / 2;
      }
      keys[at] = key;
      ids[at] = id;
    } else if (worse(keys[0], ids[0], key, id)) {
      sink(0, key, id, k);
    }
    if (count == k) threshold = keys[0];
  }
  // Best first.
  void sort() {
    for (size_t size = count; size > 1; --size) {
      const double key = keys[size - 1];
      const uint64_t id = ids[size - 1];
      keys[size - 1] = keys[0];
      ids[size - 1] = ids[0];
      sink(0, key, id, size - 1);
    }
  }
};

}  // namespace DW_ISA
