// The best k rows of one query while a scan runs, in the order of keys descending, then ids ascending (vector/topk.py).
//
// Up to kHeapRows they are a heap with the worst row at its root. Beyond, rows are collected in twice the room, and when it is
// full the better half stays: a heap of thousands would cost more than the scan. Either way the answer is the same.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "droveway/lanes.hpp"

namespace DW_ISA {

constexpr size_t kHeapRows = 128;

struct Rows {
  double* keys;
  uint64_t* ids;

  static DW_INLINE bool worse(double key, uint64_t id, double other_key, uint64_t other_id) {
    return key < other_key || (key == other_key && id > other_id);
  }
  DW_INLINE bool worse(size_t i, size_t j) const { return worse(keys[i], ids[i], keys[j], ids[j]); }
  DW_INLINE void set(size_t i, double key, uint64_t id) const {
    keys[i] = key;
    ids[i] = id;
  }
  DW_INLINE void copy(size_t to, size_t from) const { set(to, keys[from], ids[from]); }
  DW_INLINE void swap(size_t i, size_t j) const {
    const double key = keys[i];
    const uint64_t id = ids[i];
    copy(i, j);
    set(j, key, id);
  }
  // Lets a row sink from `at` in a heap of `size` until both below it are better than it.
  void sink(size_t at, double key, uint64_t id, size_t size) const {
    for (;;) {
      size_t below = 2 * at + 1;
      if (below >= size) break;
      if (below + 1 < size && worse(below + 1, below)) ++below;
      if (!worse(keys[below], ids[below], key, id)) break;
      copy(at, below);
      at = below;
    }
    set(at, key, id);
  }
  void rise(size_t at, double key, uint64_t id) const {
    for (; at != 0 && worse(key, id, keys[(at - 1) / 2], ids[(at - 1) / 2]); at = (at - 1) / 2) copy(at, (at - 1) / 2);
    set(at, key, id);
  }
  // A heap becomes a list, best first.
  void sort_heap(size_t size) const {
    for (; size > 1; --size) {
      const double key = keys[size - 1];
      const uint64_t id = ids[size - 1];
      copy(size - 1, 0);
      sink(0, key, id, size - 1);
    }
  }
  void sort(size_t size) const {
    for (size_t i = size / 2; i-- > 0;) sink(i, keys[i], ids[i], size);
    sort_heap(size);
  }
  // Puts the best `wanted` rows first, the worst of them last among these (Hoare's selection; no two rows are equal).
  // Where the pivots are bad again and again, what is left is sorted.
  void select(size_t size, size_t wanted) const {
    size_t low = 0, high = size;  // the place wanted − 1 lies in between
    for (int rounds = 0; high - low > 1; ++rounds) {
      if (rounds == 64 || high - low < 16) {
        Rows{keys + low, ids + low}.sort(high - low);
        return;
      }
      const size_t middle = low + (high - low) / 2, last = high - 1;
      if (worse(low, middle)) swap(low, middle);
      if (worse(middle, last)) swap(middle, last);
      if (worse(low, middle)) swap(low, middle);
      const double key = keys[middle];
      const uint64_t id = ids[middle];
      size_t i = low, j = last;  // the best of the three is first and the worst last: both searches stop
      for (;;) {
        while (worse(key, id, keys[i], ids[i])) ++i;
        while (worse(keys[j], ids[j], key, id)) --j;
        if (i >= j) break;
        swap(i++, j--);
      }
      if (wanted - 1 <= j) high = j + 1;
      else low = j + 1;
    }
  }
};

struct Best {
  Rows rows;
  size_t count, k;
  double threshold;  // no key below it can enter; −inf until k rows are there

  static size_t room(size_t k) { return k <= kHeapRows ? k : 2 * k; }
  void start(double* keys, uint64_t* ids, size_t size) {
    rows = {keys, ids};
    count = 0;
    k = size;
    threshold = f64_of(0xFFF0000000000000ull);
  }
  void offer(double key, uint64_t id) {
    if (k > kHeapRows) {
      if (count == 2 * k) keep_best();
      rows.set(count++, key, id);
      return;
    }
    if (count < k) rows.rise(count++, key, id);
    else if (Rows::worse(rows.keys[0], rows.ids[0], key, id)) rows.sink(0, key, id, k);
    if (count == k) threshold = rows.keys[0];
  }
  // Best first; what is beyond k is gone.
  void sort() {
    if (k <= kHeapRows) {
      rows.sort_heap(count);
      return;
    }
    if (count > k) keep_best();
    rows.sort(count);
  }

 private:
  void keep_best() {
    rows.select(count, k);
    count = k;
    threshold = rows.keys[k - 1];
  }
};

}  // namespace DW_ISA
