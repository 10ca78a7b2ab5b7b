// What a kernel sees of a tensor: an address, a type, a shape and signed strides. No Python here.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "dtype.hpp"

namespace droveway {

constexpr int kDimsMax = 16;

struct View {
  char* data;  // of the element with all indices 0
  Dtype dtype;
  int ndim;  // 0 … kDimsMax
  const int64_t* shape;    // each ≥ 0; the product of all fits in int64 together with the size of an element
  const int64_t* strides;  // in elements, signed; 0 for broadcast dimensions
};

[[maybe_unused]] static inline int64_t view_size(const View& v) {
  int64_t n = 1;
  for (int d = 0; d < v.ndim; ++d) n *= v.shape[d];
  return n;
}

// Whether the elements lie in C order without gaps. Strides of dimensions of size 1 do not matter; an empty view is contiguous.
[[maybe_unused]] static inline bool view_contiguous(const View& v) {
  int64_t expected = 1;
  bool yes = true;
  for (int d = v.ndim - 1; d >= 0; --d) {
    if (v.shape[d] == 0) return true;
    if (v.shape[d] != 1 && v.strides[d] != expected) yes = false;
    expected *= v.shape[d];
  }
  return yes;
}

// The bytes between the first and one past the last element that the view touches, as addresses. Empty: low == high.
[[maybe_unused]] static inline void view_extent(const View& v, const char** low, const char** high) {
  int64_t below = 0, above = 0;
  for (int d = 0; d < v.ndim; ++d) {
    if (v.shape[d] == 0) {
      *low = *high = v.data;
      return;
    }
    const int64_t reach = (v.shape[d] - 1) * v.strides[d];
    (reach < 0 ? below : above) += reach;
  }
  const int64_t size = int64_t(dtype_size(v.dtype));
  *low = v.data + below * size;
  *high = v.data + (above + 1) * size;
}

[[maybe_unused]] static inline bool views_may_overlap(const View& a, const View& b) {
  const char *a_low, *a_high, *b_low, *b_high;
  view_extent(a, &a_low, &a_high);
  view_extent(b, &b_low, &b_high);
  return a_low < b_high && b_low < a_high;
}

// Whether both are the same elements at the same indices: then a kernel that reads index i before it writes index i is safe.
[[maybe_unused]] static inline bool views_equal(const View& a, const View& b) {
  if (a.data != b.data || a.dtype != b.dtype || a.ndim != b.ndim) return false;
  for (int d = 0; d < a.ndim; ++d)
    if (a.shape[d] != b.shape[d] || (a.shape[d] > 1 && a.strides[d] != b.strides[d])) return false;
  return true;
}

}  // namespace droveway
