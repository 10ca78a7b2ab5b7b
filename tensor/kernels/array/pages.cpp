// A block that is given back is kept, up to kKeptBytes: a step of training asks for the same ones again, and fresh pages
// cost more than most of what is computed in them. What is kept hardly makes the process larger: a request that finds no
// block large enough gets fresh pages only while all that is mapped stays within a half, at most kSlackBytes, of the
// most that was ever in use; then it grows the largest block, and no more pages come from the system than go back to it.
// What no request needed during kWindow requests goes back.
// All functions are called with Python's lock held.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "pages.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define DW_WATCHED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DW_WATCHED
#endif
#endif

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

namespace droveway {

namespace {

#ifdef DW_WATCHED
constexpr bool kWatched = true;
#else
constexpr bool kWatched = false;
#endif
constexpr size_t kKeptBytes = size_t{256} << 20;
constexpr size_t kSlackBytes = size_t{4} << 20;  // without any, blocks of one step's sizes are cut and grown again in each
constexpr int kKeptMax = 64;
constexpr int kWindow = 4096;  // requests; a few steps of training, which come back to the most in use
struct Block {
  char* data;
  size_t nbytes;  // whole pages
};
Block kept[kKeptMax];  // the newest last; no two of them touch
int count;
size_t kept_bytes, used_bytes, most_used_bytes;
int requests;
size_t never_needed;  // the least that was kept during this window

size_t whole_pages(size_t nbytes) {
  static const size_t page = size_t(sysconf(_SC_PAGESIZE));
  return (nbytes + page - 1) & ~(page - 1);
}

void forget(int i) {
  kept_bytes -= kept[i].nbytes;
  --count;
  memmove(kept + i, kept + i + 1, size_t(count - i) * sizeof(Block));
}

// Hands at least `nbytes` of what is kept back to the system, the oldest first, or all.
void shed(size_t nbytes) {
  while (nbytes > 0 && count > 0) {
    const size_t part = nbytes < kept[0].nbytes ? nbytes : kept[0].nbytes;
    munmap(kept[0].data, part);
    nbytes -= part;
    kept_bytes -= part;
    kept[0].data += part;
    kept[0].nbytes -= part;
    if (kept[0].nbytes == 0) forget(0);
  }
}

// Grows the largest block, which is smaller than n, where the system can move pages; or nullptr.
char* grown(int i, size_t n) {
#ifdef MREMAP_MAYMOVE
  const Block b = kept[i];
  forget(i);
  const size_t missing = n - b.nbytes;
  shed(missing);
  void* moved = mremap(b.data, b.nbytes, n, MREMAP_MAYMOVE);
  if (moved != MAP_FAILED) return static_cast<char*>(moved);
  munmap(b.data, b.nbytes);  // it lay in more than one mapping
#else
  (void)i;
  shed(n);
#endif
  return nullptr;
}

}  // namespace

namespace {

char* take(size_t n) {
  int larger = -1, largest = -1;
  for (int i = count - 1; i >= 0; --i) {
    const size_t size = kept[i].nbytes;
    if (size == n) {
      char* data = kept[i].data;
      forget(i);
      return data;
    }
    if (size > n && (larger < 0 || size < kept[larger].nbytes)) larger = i;
    if (largest < 0 || size > kept[largest].nbytes) largest = i;
  }
  if (larger >= 0) {
    Block& b = kept[larger];
    char* data = b.data;
    b.data += n;
    b.nbytes -= n;
    kept_bytes -= n;
    return data;
  }
  const size_t slack = most_used_bytes / 2 < kSlackBytes ? most_used_bytes / 2 : kSlackBytes;
  if (largest >= 0 && used_bytes + kept_bytes + n > most_used_bytes + slack)
    if (char* data = grown(largest, n)) return data;
  void* fresh = mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fresh == MAP_FAILED && count > 0) {
    pages_trim();
    fresh = mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  return fresh == MAP_FAILED ? nullptr : static_cast<char*>(fresh);
}

}  // namespace

char* pages_take(size_t nbytes) {
  if (kWatched) return nullptr;  // the allocator, which sees what is used after it was freed, gives it
  const size_t n = whole_pages(nbytes);
  if (n < nbytes) return nullptr;
  char* data = take(n);
  if (data != nullptr) used_bytes += n;
  if (used_bytes > most_used_bytes) most_used_bytes = used_bytes;
  if (kept_bytes < never_needed) never_needed = kept_bytes;
  if (++requests == kWindow) {
    shed(never_needed);
    never_needed = kept_bytes;
    requests = 0;
  }
  return data;
}

void pages_give(char* data, size_t nbytes) {
  size_t n = whole_pages(nbytes);
  used_bytes -= n;
  if (n > kKeptBytes) {
    munmap(data, n);
    return;
  }
  if (kept_bytes + n > kKeptBytes) shed(kept_bytes + n - kKeptBytes);
  for (int i = count - 1; i >= 0; --i) {  // joined with its neighbours
    const Block b = kept[i];
    if (b.data + b.nbytes != data && data + n != b.data) continue;
    if (b.data < data) data = b.data;
    n += b.nbytes;
    forget(i);
  }
  if (count == kKeptMax) shed(kept[0].nbytes);
  kept[count++] = {data, n};
  kept_bytes += n;
}

size_t pages_trim() {
  const size_t before = kept_bytes;
  shed(before);
  return before;
}

}  // namespace droveway
