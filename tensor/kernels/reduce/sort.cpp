// Sorting along an axis, the k first of an order, places in a sorted vector, groups of equal values.
// Twin: tensor/twins/sort_ref.py. Keys: keys.hpp. Elements are moved, not made again: a −0 or a NaN's payload survives.
#include "kernels.hpp"

#include "fold.hpp"
#include "keys.hpp"

namespace DW_ISA {
namespace {

using namespace lines;
using droveway::Dtype;
using droveway::SortJob;

// Lines are shared out to as many groups as have a workspace of their own.
constexpr size_t kGroupsMax = 8;
constexpr size_t kSharedLineMax = 65536;  // longer lines are sorted one after another, to keep the workspace small

size_t groups_of(size_t lines, size_t n) { return n > kSharedLineMax ? 1 : lines < kGroupsMax ? lines : kGroupsMax; }

template <class Kind> struct PairOf { using P = NarrowPair; };
template <class B, B s, B i> struct PairOf<FloatBits<B, uint64_t, s, i>> { using P = WidePair; };
template <class B, B s> struct PairOf<IntegerBits<B, uint64_t, s>> { using P = WidePair; };

template <class Kind>
struct Lines {
  const SortJob& job;
  const Split& s;
  size_t groups;
  char* workspace;
};

template <class Kind>
void sort_group(void* raw, size_t group) {
  using Bits = typename Kind::Bits;
  using P = typename PairOf<Kind>::P;
  const Lines<Kind>& l = *static_cast<const Lines<Kind>*>(raw);
  const SortJob& job = l.job;
  const size_t n = l.s.line.total, k = job.k < n ? job.k : n;
  P* const pairs = reinterpret_cast<P*>(l.workspace) + 2 * n * group;
  const int64_t step = l.s.line.stride[0][0];
  const int64_t value_step = job.values != nullptr ? job.values->strides[job.axis] : 0;
  const int64_t index_step = job.indices != nullptr ? job.indices->strides[job.axis] : 0;
  for (size_t i = group; i < l.s.kept.total; i += l.groups) {
    const Odometer at(l.s.kept, 3, i);
    const Bits* x = reinterpret_cast<const Bits*>(job.x.data) + at.offset[0];
    for (size_t j = 0; j < n; ++j) pairs[j] = P::make(Kind::key(x[int64_t(j) * step], job.descending), j);
    if (k == 0) continue;
    if (k < n) select_pairs(pairs, pairs + n, n, k);
    // Selection leaves no order of places: then they are sorted too.
    const P* sorted = k == n ? sort_pairs(pairs, pairs + n, k) : sort_pairs<P, 0>(pairs, pairs + n, k);
    if (job.values != nullptr) {
      Bits* y = reinterpret_cast<Bits*>(job.values->data) + at.offset[1];
      for (size_t j = 0; j < k; ++j) y[int64_t(j) * value_step] = x[int64_t(sorted[j].place()) * step];
    }
    if (job.indices != nullptr) {
      int64_t* y = reinterpret_cast<int64_t*>(job.indices->data) + at.offset[2];
      for (size_t j = 0; j < k; ++j) y[int64_t(j) * index_step] = int64_t(sorted[j].place());
    }
  }
}

// How many sorted elements come before the value: those below it, or, from the right, those not above it.
template <class Kind>
void search(const View& sorted, const View& values, bool right, const View& out) {
  using Bits = typename Kind::Bits;
  const Bits* x = reinterpret_cast<const Bits*>(sorted.data);
  const int64_t step = sorted.strides[0];
  const size_t n = size_t(sorted.shape[0]);
  const View* views[] = {&values, &out};
  const Split s = split(views, 2, 0);
  each_line(s, 2, s.kept.total * 64, [&](const int64_t* offset, size_t) {
    const auto key = Kind::key(reinterpret_cast<const Bits*>(values.data)[offset[0]], false);
    size_t low = 0, high = n;
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      const auto here = Kind::key(x[int64_t(middle) * step], false);
      if (right ? here <= key : here < key) low = middle + 1;
      else high = middle;
    }
    reinterpret_cast<int64_t*>(out.data)[offset[1]] = int64_t(low);
  });
}

// Whether two elements are one value: +0 and −0 are, NaN and NaN are not.
template <class Kind>
DW_INLINE bool same(typename Kind::Bits a, typename Kind::Bits b) {
  return !Kind::is_nan(a) && Kind::key(a, false) == Kind::key(b, false);
}

template <class Equal>
size_t group_runs(const int64_t* order, size_t n, int64_t* first, int64_t* inverse, int64_t* counts, Equal equal) {
  size_t groups = 0;
  for (size_t i = 0; i < n; ++i) {
    if (i == 0 || !equal(order[i - 1], order[i])) {
      first[groups] = order[i];
      counts[groups] = 0;
      ++groups;
    }
    ++counts[groups - 1];
    inverse[order[i]] = int64_t(groups - 1);
  }
  return groups;
}

}  // namespace

size_t sort_workspace(const SortJob& job) {
  size_t lines = 1;
  for (int d = 0; d < job.x.ndim; ++d)
    if (d != job.axis) lines *= size_t(job.x.shape[d]);
  const size_t n = size_t(job.x.shape[job.axis]);
  return groups_of(lines, n) * 2 * n * (droveway::dtype_size(job.x.dtype) == 8 ? sizeof(WidePair) : sizeof(NarrowPair));
}

void sort(const SortJob& job, void* workspace) {
  FpGuard guard;
  const View x_like{nullptr, job.x.dtype, job.x.ndim, job.x.shape, job.x.strides};
  // Results may be shorter along the axis: only their strides matter here.
  const View values{nullptr, job.x.dtype, job.x.ndim, job.x.shape, job.values != nullptr ? job.values->strides : job.x.strides};
  const View indices{nullptr, Dtype::i64, job.x.ndim, job.x.shape, job.indices != nullptr ? job.indices->strides : job.x.strides};
  const View* views[] = {&x_like, &values, &indices};
  const Split s = split(views, 3, uint32_t{1} << job.axis);
  if (s.kept.total == 0 || s.line.total == 0) return;
  with_kind(job.x.dtype, [&](auto kind) {
    using Kind = decltype(kind);
    Lines<Kind> lines{job, s, groups_of(s.kept.total, s.line.total), static_cast<char*>(workspace)};
    dw_parallel_n(lines.groups, sort_group<Kind>, &lines, threads_for(s.kept.total * s.line.total * 16));
  });
}

void searchsorted(const View& sorted, const View& values, bool right, const View& out) {
  FpGuard guard;
  with_kind(sorted.dtype, [&](auto kind) { search<decltype(kind)>(sorted, values, right, out); });
}

size_t unique_groups(const View& x, const int64_t* order, int64_t* first, int64_t* inverse, int64_t* counts) {
  FpGuard guard;
  const size_t n = size_t(x.shape[0]);
  const int64_t step = x.strides[0];
  size_t groups = 0;
  if (x.dtype >= Dtype::c64) {
    const auto parts = [&](auto kind) {
      using Bits = typename decltype(kind)::Bits;
      const Bits* p = reinterpret_cast<const Bits*>(x.data);
      groups = group_runs(order, n, first, inverse, counts, [&](int64_t a, int64_t b) {
        return same<decltype(kind)>(p[2 * a * step], p[2 * b * step]) && same<decltype(kind)>(p[2 * a * step + 1], p[2 * b * step + 1]);
      });
    };
    with_kind(x.dtype == Dtype::c64 ? Dtype::f32 : Dtype::f64, parts);
    return groups;
  }
  with_kind(x.dtype, [&](auto kind) {
    using Bits = typename decltype(kind)::Bits;
    const Bits* p = reinterpret_cast<const Bits*>(x.data);
    groups = group_runs(order, n, first, inverse, counts,
                        [&](int64_t a, int64_t b) { return same<decltype(kind)>(p[a * step], p[b * step]); });
  });
  return groups;
}

}  // namespace DW_ISA
