// Updates of rows: the last one set, or all that go to a row combined. Twin: tensor/twins/indexing_ref.py.
//
// What goes to one row is combined in the order of the updates and in the shape of a sum (fold.hpp): a row's result depends
// on its own updates only, and a segment's sum is `sum` of its values.
#include "kernels.hpp"

#include "columns.hpp"
#include "keys.hpp"

namespace DW_ISA {
namespace {

using namespace lines;
using droveway::Combine;
using droveway::Dtype;
using droveway::ScatterJob;

// A run of updates of one row.
template <class T>
struct Rows {
  const ScatterJob& job;
  const NarrowPair* run;
  size_t m;
  const char* update(size_t i) const {
    return job.updates + run[i].place() * job.width * droveway::dtype_size(job.dtype);
  }
};

// Joins present values of a block as Tile::fold does, for one column.
template <class T, class Op>
DW_INLINE T fold_values(T* v, size_t present) {
  for (size_t l = 0; l < 16; ++l) {
    if (l + 16 < present) v[l] = Op::template join<T>(v[l], v[l + 16]);
    if (l + 48 < present) v[l + 32] = Op::template join<T>(v[l + 32], v[l + 48]);
    if (l + 32 < present) v[l] = Op::template join<T>(v[l], v[l + 32]);
  }
  for (size_t half = 8; half > 0; half /= 2)
    for (size_t l = 0; l < half && l + half < present; ++l) v[l] = Op::template join<T>(v[l], v[l + half]);
  return v[0];
}

template <class T, class Op>
T combine_values(const Rows<T>& rows) {
  T v[64], x;
  Tree<T, JoinOf<T, Op>> tree;
  for (size_t first = 0; first < rows.m; first += kBlock) {
    const size_t m = rows.m - first < kBlock ? rows.m - first : kBlock;
    for (size_t i = 0; i < m; ++i) {
      load_run(rows.job.dtype, rows.update(first + i), 1, 1, &x);
      v[i % 64] = i < 64 ? Op::template first<T>(x) : Op::template step<T>(v[i % 64], x);
    }
    const T value = fold_values<T, Op>(v, m < 64 ? m : 64);
    if (rows.m <= kBlock) return value;
    tree.push(value);
  }
  return tree.total();
}

template <class T>
DW_INLINE T finish_value(Combine combine, T value, size_t n) {
  if constexpr (kFloating<T>) return canonical(combine == Combine::mean ? value / T(n) : value);
  else return combine == Combine::mean ? (n == 0 ? T(0) : value / T(n)) : value;
}

template <class T, class Op>
void combine_run(const Rows<T>& rows, char* out) {
  const ScatterJob& job = rows.job;
  const size_t size = droveway::dtype_size(job.dtype), n = rows.m + (job.include_out ? 1 : 0);
  if (job.width == 1) {
    T value = combine_values<T, Op>(rows);
    if (job.include_out) {
      T old;
      load_run(job.dtype, out, 1, 1, &old);
      value = Op::template join<T>(old, value);
    }
    value = finish_value(job.combine, value, n);
    store_run(job.dtype, out, 1, 1, &value);
    return;
  }
  for (size_t start = 0; start < job.width; start += kTile) {
    const size_t w = job.width - start < kTile ? job.width - start : kTile;
    Tile<T, Op> tile;
    T local[kTile], old[kTile];
    const auto row = [&](size_t i) -> const T* {
      const char* p = rows.update(i) + start * size;
      if (job.dtype == kNative<T>) return reinterpret_cast<const T*>(p);
      load_run(job.dtype, p, 1, w, local);
      return local;
    };
    for (size_t first = 0; first < rows.m; first += kBlock) {
      const size_t m = rows.m - first < kBlock ? rows.m - first : kBlock;
      for (size_t i = 0; i < m; ++i) {
        if (i < kTile) first_row<T, Op>(tile.partial[i], row(first + i), w);
        else step_row<T, Op>(tile.partial[i % kTile], row(first + i), w);
      }
      tile.fold(m, w);
      tile.push(w);
    }
    const T* total = tile.total(w);
    if (job.include_out) load_run(job.dtype, out + start * size, 1, w, old);
    for (size_t c = 0; c < w; ++c) {
      const T value = job.include_out ? Op::template join<T>(old[c], total[c]) : total[c];
      local[c] = finish_value(job.combine, value, n);
    }
    store_run(job.dtype, out + start * size, 1, w, local);
  }
}

template <class T, class Op>
void combine_all(const ScatterJob& job, const NarrowPair* sorted) {
  const size_t row_bytes = job.width * droveway::dtype_size(job.dtype);
  struct Context {
    const ScatterJob& job;
    const NarrowPair* sorted;
    size_t row_bytes, per_block;
  } context{job, sorted, row_bytes, kLineValues / (job.width + 1) + 1};
  // A block of work is a range of updates; it does the runs that begin in it.
  dw_parallel_n((job.count - 1) / context.per_block + 1, [](void* raw, size_t b) {
        const Context& c = *static_cast<const Context*>(raw);
        const auto row = [&](size_t i) { return size_t(c.sorted[i].word >> 32); };
        size_t i = b * c.per_block;
        const size_t end = c.job.count - i < c.per_block ? c.job.count : i + c.per_block;
        while (i > 0 && i < end && row(i) == row(i - 1)) ++i;
        while (i < end) {
          size_t last = i + 1;
          while (last < c.job.count && row(last) == row(i)) ++last;
          combine_run<T, Op>(Rows<T>{c.job, c.sorted + i, last - i}, c.job.out + row(i) * c.row_bytes);
          i = last;
        }
      }, &context, threads_for(job.count * row_bytes));
}

template <class T>
void combine_as(const ScatterJob& job, const NarrowPair* sorted) {
  switch (job.combine) {
    case Combine::prod: return combine_all<T, ProductOp>(job, sorted);
    case Combine::max: return combine_all<T, ExtremeOp<true>>(job, sorted);
    case Combine::min: return combine_all<T, ExtremeOp<false>>(job, sorted);
    default: return combine_all<T, SumOp>(job, sorted);
  }
}

}  // namespace

size_t scatter_workspace(const ScatterJob& job) {
  return job.combine == Combine::set ? 0 : 2 * job.count * sizeof(NarrowPair);
}

void scatter(const ScatterJob& job, void* workspace) {
  FpGuard guard;
  if (job.count == 0 || job.width == 0) return;
  const size_t row_bytes = job.width * droveway::dtype_size(job.dtype);
  if (job.combine == Combine::set) {
    for (size_t i = 0; i < job.count; ++i)
      memcpy(job.out + size_t(job.destinations[i]) * row_bytes, job.updates + i * row_bytes, row_bytes);
    return;
  }
  NarrowPair* pairs = static_cast<NarrowPair*>(workspace);
  for (size_t i = 0; i < job.count; ++i) pairs[i] = NarrowPair::make(uint32_t(job.destinations[i]), i);
  const NarrowPair* sorted = sort_pairs(pairs, pairs + job.count, job.count);
  if (job.dtype == Dtype::f64) combine_as<double>(job, sorted);
  else if (job.dtype >= Dtype::f16) combine_as<float>(job, sorted);
  else if (job.dtype <= Dtype::i64) combine_as<int64_t>(job, sorted);
  else combine_as<uint64_t>(job, sorted);
}

}  // namespace DW_ISA
