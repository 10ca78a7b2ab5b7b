// Memory of tensors, and moves of elements inside it.
#include <stdlib.h>
#include <string.h>

#include "array.hpp"
#include "budget.hpp"
#include "elementwise.hpp"
#include "elementwise_ops.hpp"
#include "pages.hpp"

namespace droveway {

namespace {

// Small blocks (the Storage in front of its data) are kept for the next small tensor. Classes: data of 64 … 2048 bytes.
constexpr int kClasses = 6;
constexpr int kKeptMax = 64;  // blocks a class: 64 · (128 + 2048) bytes at most
constexpr size_t kHeader = 128;
static_assert(sizeof(Storage) <= kHeader);
struct FreeList {
  Storage* blocks[kKeptMax];
  int count;
};
FreeList kept[kClasses + 1];
constexpr uint8_t kInPages = 254;  // a size class: its data are pages of their own

int class_of(size_t nbytes) {
  if (nbytes <= 64) return 1;
  if (nbytes > 2048) return 0;
  return 64 - __builtin_clzll((nbytes - 1) >> 6) + 1;
}

// Blocks of middle size that were given back, the newest last, for requests of the same size.
constexpr size_t kMiddleBytes = size_t{1} << 20;
constexpr int kMiddleMax = 16;
struct Middle {
  char* data;
  size_t nbytes;
};
Middle middle[kMiddleMax];
int middle_count;
size_t middle_bytes;

void drop_middle(int i) {
  middle_bytes -= middle[i].nbytes;
  --middle_count;
  for (; i < middle_count; ++i) middle[i] = middle[i + 1];
}

char* take_middle(size_t nbytes) {
  for (int i = middle_count - 1; i >= 0; --i) {
    if (middle[i].nbytes != nbytes) continue;
    char* data = middle[i].data;
    drop_middle(i);
    return data;
  }
  char* data = static_cast<char*>(aligned_alloc(64, nbytes));
  while (data == nullptr && middle_count > 0) {
    free(middle[0].data);
    drop_middle(0);
    data = static_cast<char*>(aligned_alloc(64, nbytes));
  }
  return data;
}

void give_middle(char* data, size_t nbytes) {
  if (nbytes > kMiddleBytes / 4) return free(data);  // pages were not to be had
  while (middle_count == kMiddleMax || middle_bytes + nbytes > kMiddleBytes) {
    free(middle[0].data);
    drop_middle(0);
  }
  middle[middle_count++] = {data, nbytes};
  middle_bytes += nbytes;
}

}  // namespace

Storage* storage_new(size_t nbytes, const char* label, Dtype dtype, int ndim, const int64_t* shape) {
  Charge* charges;
  if (charge_active(int64_t(nbytes), label, dtype, ndim, shape, &charges) < 0) return nullptr;
  const int size_class = class_of(nbytes);
  bool in_pages = false;
  Storage* s;
  if (size_class != 0 && kept[size_class].count > 0) {
    s = kept[size_class].blocks[--kept[size_class].count];
  } else if (size_class != 0) {
    s = static_cast<Storage*>(aligned_alloc(64, kHeader + (size_t{32} << size_class)));
    if (s != nullptr) s->data = reinterpret_cast<char*>(s) + kHeader;
  } else {
    s = static_cast<Storage*>(malloc(sizeof(Storage)));
    if (s != nullptr) {
      in_pages = nbytes >= kPagesMin && (s->data = pages_take(nbytes)) != nullptr;
      if (!in_pages) s->data = take_middle((nbytes + 63) & ~size_t{63});
      if (s->data == nullptr) {
        free(s);
        s = nullptr;
      }
    }
  }
  if (s == nullptr) {
    release_charges(charges);
    PyErr_Format(PyExc_MemoryError, "%s: %zu bytes are not to be had", label, nbytes);
    return nullptr;
  }
  s->refs = 1;
  s->version = 0;
  s->nbytes = nbytes;
  s->device = DeviceKind::cpu;
  s->space = MemorySpace::host;
  s->size_class = in_pages ? kInPages : uint8_t(size_class);
  s->read_only = false;
  s->histories = 0;
  s->owner = nullptr;
  s->release = nullptr;
  s->context = nullptr;
  s->charges = charges;
  return s;
}

void storage_free(Storage* s) {
  if (s->charges != nullptr) release_charges(s->charges);
  if (s->size_class == 255) {
    if (s->release != nullptr)
      s->release(s);
    else
      Py_XDECREF(s->owner);
    free(s);
  } else if (s->size_class == kInPages) {
    pages_give(s->data, s->nbytes);
    free(s);
  } else if (s->size_class == 0) {
    give_middle(s->data, (s->nbytes + 63) & ~size_t{63});
    free(s);
  } else if (kept[s->size_class].count < kKeptMax) {
    kept[s->size_class].blocks[kept[s->size_class].count++] = s;
  } else {
    free(s);
  }
}

size_t storage_trim() {
  size_t bytes = middle_bytes + pages_trim();
  while (middle_count > 0) {
    free(middle[middle_count - 1].data);
    drop_middle(middle_count - 1);
  }
  for (int c = 1; c <= kClasses; ++c)
    while (kept[c].count > 0) {
      free(kept[c].blocks[--kept[c].count]);
      bytes += kHeader + (size_t{32} << c);
    }
  return bytes;
}

Storage* storage_foreign(char* data, size_t nbytes, PyObject* owner, void (*release)(Storage*), void* context) {
  Storage* s = static_cast<Storage*>(malloc(sizeof(Storage)));
  if (s == nullptr) {
    PyErr_NoMemory();
    return nullptr;
  }
  *s = Storage{};
  s->refs = 1;
  s->data = data;
  s->nbytes = nbytes;
  s->size_class = 255;
  s->owner = owner;
  s->release = release;
  s->context = context;
  return s;
}

namespace {

struct Walk {  // a move with its dimensions sorted and merged, the last one innermost
  int ndim;
  int64_t shape[kDimsMax];
  int64_t to[kDimsMax], from[kDimsMax];  // strides
};

Walk plan(const View& dst, const View& src) {
  Walk w;
  w.ndim = 0;
  int order[kDimsMax];
  for (int d = 0; d < dst.ndim; ++d)
    if (dst.shape[d] != 1) order[w.ndim++] = d;
  for (int i = 1; i < w.ndim; ++i) {  // stable insertion sort by |stride| of dst, the largest first
    const int d = order[i];
    int j = i;
    for (; j > 0 && llabs(dst.strides[order[j - 1]]) < llabs(dst.strides[d]); --j) order[j] = order[j - 1];
    order[j] = d;
  }
  int n = 0;
  for (int i = 0; i < w.ndim; ++i) {
    const int d = order[i];
    if (n > 0 && w.to[n - 1] == dst.strides[d] * dst.shape[d] && w.from[n - 1] == src.strides[d] * dst.shape[d]) {
      w.shape[n - 1] *= dst.shape[d];
      w.to[n - 1] = dst.strides[d];
      w.from[n - 1] = src.strides[d];
    } else {
      w.shape[n] = dst.shape[d];
      w.to[n] = dst.strides[d];
      w.from[n] = src.strides[d];
      ++n;
    }
  }
  w.ndim = n;
  return w;
}

struct Pair {
  uint64_t a, b;
};

// One or two inner dimensions: rows × columns elements. Where the source is contiguous the other way round, in tiles.
template <class T>
void move_plane(T* to, const T* from, int64_t rows, int64_t to_row, int64_t from_row, int64_t columns, int64_t to_step,
                int64_t from_step) {
  if (to_step == 1 && from_step == 1) {
    for (int64_t r = 0; r < rows; ++r) memcpy(to + r * to_row, from + r * from_row, size_t(columns) * sizeof(T));
    return;
  }
  if (to_step == 1 && from_step == 0) {
    for (int64_t r = 0; r < rows; ++r) {
      const T value = from[r * from_row];
      T* row = to + r * to_row;
      for (int64_t c = 0; c < columns; ++c) row[c] = value;
    }
    return;
  }
  constexpr int64_t kTile = 32;
  if (llabs(from_row) < llabs(from_step) && rows >= 8 && columns >= 8) {
    for (int64_t r0 = 0; r0 < rows; r0 += kTile)
      for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
        const int64_t r1 = r0 + kTile < rows ? r0 + kTile : rows, c1 = c0 + kTile < columns ? c0 + kTile : columns;
        for (int64_t r = r0; r < r1; ++r)
          for (int64_t c = c0; c < c1; ++c) to[r * to_row + c * to_step] = from[r * from_row + c * from_step];
      }
    return;
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) to[r * to_row + c * to_step] = from[r * from_row + c * from_step];
}

template <class T>
void move(const Walk& w, char* to, const char* from) {
  const int planes = w.ndim > 2 ? w.ndim - 2 : 0;
  const int64_t rows = w.ndim >= 2 ? w.shape[w.ndim - 2] : 1, columns = w.ndim >= 1 ? w.shape[w.ndim - 1] : 1;
  const int64_t to_row = w.ndim >= 2 ? w.to[w.ndim - 2] : 0, from_row = w.ndim >= 2 ? w.from[w.ndim - 2] : 0;
  const int64_t to_step = w.ndim >= 1 ? w.to[w.ndim - 1] : 1, from_step = w.ndim >= 1 ? w.from[w.ndim - 1] : 1;
  int64_t index[kDimsMax] = {};
  for (;;) {
    move_plane(reinterpret_cast<T*>(to), reinterpret_cast<const T*>(from), rows, to_row, from_row, columns, to_step, from_step);
    int d = planes - 1;
    for (; d >= 0; --d) {
      to += w.to[d] * int64_t(sizeof(T));
      from += w.from[d] * int64_t(sizeof(T));
      if (++index[d] < w.shape[d]) break;
      to -= w.to[d] * w.shape[d] * int64_t(sizeof(T));
      from -= w.from[d] * w.shape[d] * int64_t(sizeof(T));
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

}  // namespace

constexpr int64_t kTurnedMin = 4096;  // elements; fewer stay in the cache whatever their order

void copy_elements(const View& dst, const View& src) {
  if (view_size(dst) == 0) return;
  const int last = src.ndim - 1;
  const bool turned = last > 0 && src.strides[last] != 1 && src.strides[last] != 0;
  if (turned && view_size(dst) >= kTurnedMin && run_elementwise(op_copy, dst, &src, 1)) return;  // in tiles
  const Walk w = plan(dst, src);
  switch (dtype_size(dst.dtype)) {
    case 1: return move<uint8_t>(w, dst.data, src.data);
    case 2: return move<uint16_t>(w, dst.data, src.data);
    case 4: return move<uint32_t>(w, dst.data, src.data);
    case 8:
      if (dtype_alignment(dst.dtype) == 4) {
        struct Half {
          uint32_t a, b;
        };
        return move<Half>(w, dst.data, src.data);
      }
      return move<uint64_t>(w, dst.data, src.data);
    default: return move<Pair>(w, dst.data, src.data);
  }
}

void fill_elements(const View& dst, const void* element) {
  static const int64_t zeros[kDimsMax] = {};
  bool zero = true;
  for (size_t i = 0; i < dtype_size(dst.dtype); ++i) zero = zero && static_cast<const char*>(element)[i] == 0;
  if (zero && view_contiguous(dst)) {
    memset(dst.data, 0, size_t(view_size(dst)) * dtype_size(dst.dtype));
    return;
  }
  alignas(16) char value[16];
  memcpy(value, element, dtype_size(dst.dtype));
  copy_elements(dst, View{value, dst.dtype, dst.ndim, dst.shape, zeros});
}

}  // namespace droveway
