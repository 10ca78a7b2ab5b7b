// Moving elements by index: take, gather, copies in C order, indices of what is not zero. Twin: tensor/twins/indexing_ref.py.
// Nothing is computed: bits are moved as they are.
#include "kernels.hpp"

#include "fold.hpp"

namespace DW_ISA {
namespace {

using namespace lines;

struct Sixteen_bytes { uint64_t a, b; };

// Calls f with a value of the size of an element.
template <class F>
void with_size(size_t size, F f) {
  switch (size) {
    case 1: return f(uint8_t{});
    case 2: return f(uint16_t{});
    case 4: return f(uint32_t{});
    case 8: return f(uint64_t{});
    default: return f(Sixteen_bytes{});
  }
}

// The place of an index that was checked before; 0 if another thread has changed it since.
DW_INLINE int64_t place_of(int64_t index, int64_t n) {
  const int64_t place = index < 0 ? index + n : index;
  return uint64_t(place) < uint64_t(n) ? place : 0;
}

DW_INLINE int64_t index_at(const View& indices, size_t j) {
  return reinterpret_cast<const int64_t*>(indices.data)[int64_t(j) * indices.strides[0]];
}

// The elements of some dimensions of one operand, from `data`, in C order to `out`.
template <class E>
E* copy_dims(const Dims& dims, const E* data, E* out) {
  if (dims.total == 0) return out;
  const int last = dims.n - 1;
  const size_t run = size_t(dims.size[last]);
  const int64_t step = dims.stride[0][last];
  Odometer at(dims, 1, 0);
  for (size_t done = 0; done < dims.total; done += run) {
    const E* p = data + at.offset[0];
    if (step == 1) memcpy(out, p, run * sizeof(E));
    else
      for (size_t i = 0; i < run; ++i) out[i] = p[int64_t(i) * step];
    out += run;
    if (last > 0) at.advance(last - 1);
  }
  return out;
}

constexpr size_t kCopyValues = 16384;  // about as many elements make a block of work

template <class E>
struct Take {
  const View& x;
  const View& indices;
  E* out;
  Dims outer, inner;
  int64_t n, step;      // of the axis
  size_t count, group;  // indices, and how many make a block of work
};
template <class E>
void take_block(void* raw, size_t number) {
  const Take<E>& t = *static_cast<const Take<E>*>(raw);
  const size_t groups = (t.count - 1) / t.group + 1, o = number / groups, first = number % groups * t.group;
  const size_t last = t.count - first < t.group ? t.count : first + t.group;
  const Odometer at(t.outer, 1, o);
  const E* base = reinterpret_cast<const E*>(t.x.data) + at.offset[0];
  E* out = t.out + (o * t.count + first) * t.inner.total;
  const bool run = t.inner.n == 1 && (t.inner.stride[0][0] == 1 || t.inner.total == 1);
  for (size_t j = first; j < last; ++j) {
    const E* p = base + place_of(index_at(t.indices, j), t.n) * t.step;
    if (run && t.inner.total == 1) *out++ = *p;
    else if (run) {
      memcpy(out, p, t.inner.total * sizeof(E));
      out += t.inner.total;
    } else {
      out = copy_dims(t.inner, p, out);
    }
  }
}

}  // namespace

int64_t bad_index(const View& indices, int64_t n) {
  const View* views[] = {&indices};
  const Split s = split(views, 1, 0);
  Odometer at(s.kept, 1, 0);
  const int64_t* p = reinterpret_cast<const int64_t*>(indices.data);
  for (size_t i = 0; i < s.kept.total; ++i, at.next()) {
    const int64_t index = p[at.offset[0]];
    if (index < -n || index >= n) return int64_t(i);
  }
  return -1;
}

void take(const View& x, int axis, const View& indices, const View& out) {
  with_size(droveway::dtype_size(x.dtype), [&](auto element) {
    using E = decltype(element);
    Take<E> t{x, indices, reinterpret_cast<E*>(out.data), {}, {}, x.shape[axis], x.strides[axis], size_t(indices.shape[0]), 1};
    for (int d = 0; d < axis; ++d) t.outer.push(1, x.shape[d], x.strides + d);
    for (int d = axis + 1; d < x.ndim; ++d) t.inner.push(1, x.shape[d], x.strides + d);
    t.outer.finish();
    t.inner.finish();
    if (t.count == 0 || t.outer.total == 0 || t.inner.total == 0) return;
    t.group = kCopyValues / t.inner.total + 1;
    const size_t blocks = t.outer.total * ((t.count - 1) / t.group + 1);
    dw_parallel_n(blocks, take_block<E>, &t, threads_for(t.outer.total * t.count * t.inner.total * sizeof(E)));
  });
}

void gather(const View& x, int axis, const View& indices, const View& out) {
  with_size(droveway::dtype_size(x.dtype), [&](auto element) {
    using E = decltype(element);
    // Along the axis x has a stride of its own, which the index is multiplied with.
    int64_t shape[droveway::kDimsMax], strides[droveway::kDimsMax];
    for (int d = 0; d < x.ndim; ++d) {
      shape[d] = indices.shape[d];
      strides[d] = d == axis || x.shape[d] == 1 ? 0 : x.strides[d];
    }
    const View moved{x.data, x.dtype, x.ndim, shape, strides};
    const View* views[] = {&moved, &indices, &out};
    const Split s = split(views, 3, 0);
    const int64_t n = x.shape[axis], step = x.strides[axis];
    const E* p = reinterpret_cast<const E*>(x.data);
    const int64_t* where = reinterpret_cast<const int64_t*>(indices.data);
    E* y = reinterpret_cast<E*>(out.data);
    each_line(s, 3, s.kept.total * sizeof(E) * 2, [&](const int64_t* offset, size_t) {
      y[offset[2]] = p[offset[0] + place_of(where[offset[1]], n) * step];
    });
  });
}

void copy(const View& x, char* out) {
  with_size(droveway::dtype_size(x.dtype), [&](auto element) {
    using E = decltype(element);
    Dims dims;
    for (int d = 0; d < x.ndim; ++d) dims.push(1, x.shape[d], x.strides + d);
    dims.finish();
    copy_dims(dims, reinterpret_cast<const E*>(x.data), reinterpret_cast<E*>(out));
  });
}

void nonzero(const View& x, int64_t* out, size_t count) {
  const ptrdiff_t size = ptrdiff_t(droveway::dtype_size(x.dtype));
  Dims dims;  // not merged: the index of each dimension is what is asked for
  for (int d = 0; d < x.ndim; ++d) {
    dims.total *= size_t(x.shape[d]);
    dims.size[d] = x.shape[d];
    dims.stride[0][d] = x.strides[d];
  }
  dims.n = x.ndim;
  if (dims.total == 0 || dims.n == 0) return;
  const int last = dims.n - 1;
  Odometer at(dims, 1, 0);
  size_t found = 0;
  uint8_t truth[kBlock];
  for (size_t done = 0; done < dims.total && found < count;) {
    const size_t run = size_t(dims.size[last]);
    for (size_t first = 0; first < run; first += kBlock) {
      const size_t m = run - first < kBlock ? run - first : kBlock;
      load_truth(x.dtype, x.data + (at.offset[0] + int64_t(first) * dims.stride[0][last]) * size, dims.stride[0][last], m, truth);
      for (size_t i = 0; i < m && found < count; ++i) {
        if (!truth[i]) continue;
        for (int d = 0; d < last; ++d) out[size_t(d) * count + found] = at.index[d];
        out[size_t(last) * count + found] = int64_t(first + i);
        ++found;
      }
    }
    done += run;
    if (last > 0) at.advance(last - 1);
  }
}

}  // namespace DW_ISA
