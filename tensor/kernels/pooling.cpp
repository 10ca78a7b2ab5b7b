// Pooling and its gradients (tensor/twins/pooling_ref.py is the readable twin). A block of work is a plane.
//
// A window's inputs are taken row after row. Where windows lie regularly the lanes of a vector are neighbouring outputs;
// at the edges each output is computed by itself, in the same order.
#include "droveway/fpenv.hpp"
#include "droveway/lanes.hpp"
#include "droveway/parallel.hpp"
#include "kernels.hpp"
#include "pooling_pairs.hpp"

namespace DW_ISA {
namespace {

using droveway::Dtype;

constexpr int64_t kParallelElements = int64_t{1} << 16;

template <class T>
struct Work {
  const Pooling* pooling;
  const T* in;
  T* out;
  int32_t* index;
  const int32_t* index_in;
};

template <class T>
const T* plane_of(const Pooling& p, const T* x, size_t plane) {
  return x + int64_t(plane) / p.channels * p.plane_step[0] + int64_t(plane) % p.channels * p.plane_step[1];
}

// The larger of best and v: the first of equal ones, +0 above −0, the first NaN above all.
template <class T>
DW_INLINE T both_bits(T a, T b) {
  if constexpr (sizeof(T) == 4) return f32_of(bits1(a) & bits1(b));
  else return f64_of(bits1(a) & bits1(b));
}
template <class T>
DW_INLINE void take_larger(T& best, int32_t& at, T v, int32_t place) {
  const bool larger = !(v <= best) && best == best;
  const T equal = v == best ? both_bits(v, best) : best;
  at = larger ? place : at;
  best = larger ? v : equal;
}

template <class T>
void max_one(const Pooling& p, const T* plane, int64_t y, int64_t x, T* out, int32_t* index) {
  T best = T(0);
  int32_t at = -1;
  for (int64_t i = p.y.first[y]; i < p.y.end[y]; i += p.y.dilation) {
    for (int64_t j = p.x.first[x]; j < p.x.end[x]; j += p.x.dilation) {
      const T v = plane[i * p.row_step + j * p.column_step];
      const int32_t place = int32_t(i * p.x.input + j);
      if (at < 0) {
        best = v;
        at = place;
      } else {
        take_larger(best, at, v, place);
      }
    }
  }
  *out = canonical(best);
  *index = at;
}

// The n inputs from p, `step` elements apart; lanes beyond hold anything.
template <class T>
DW_INLINE Lanes<T> load_every(const T* p, int64_t step, size_t n) {
  using V = Lanes<T>;
  constexpr size_t w = size_t(V::width);
  if (step == 1) return V::load_partial(p, n, T(0));
  if (step == 2) {
    const size_t reach = 2 * n - 1;
    const V a = V::load_partial(p, reach, T(0)), b = reach > w ? V::load_partial(p + w, reach - w, T(0)) : V::zero();
    return evens(a, b);
  }
  T local[w];
  for (size_t l = 0; l < w; ++l) local[l] = l < n ? p[int64_t(l) * step] : T(0);
  return V::load(local);
}

// Up to one vector of neighbouring outputs.
template <class T>
void max_chunk(const Pooling& p, const T* plane, int64_t y, int64_t x, int64_t n, T* out, int32_t* index) {
  using V = Lanes<T>;
  using Place = Places<T>;
  V best = V::zero();
  Place at = Place::zero();
  bool first = true;
  const int64_t step = p.x.stride * p.column_step;
  for (int64_t i = p.y.first[y]; i < p.y.end[y]; i += p.y.dilation) {
    for (int64_t k = 0; k < p.x.taps; ++k) {
      const int64_t j = p.x.first[x] + k * p.x.dilation;
      const V v = load_every(plane + i * p.row_step + j * p.column_step, step, size_t(n));
      const Place place = Place::set1(Word<T>(i * p.x.input + j));
      if (first) {
        best = v;
        at = place;
        first = false;
        continue;
      }
      const auto larger = (!le(v, best)) & eq(best, best);
      best = select(larger, v, select(eq(v, best), both_bits(v, best), best));
      at = select(larger, place, at);
    }
  }
  store_partial(out, size_t(n), canonical(best));
  Word<T> places[V::width];
  store(places, at);
  for (int64_t o = 0; o < n; ++o) index[o] = int32_t(int64_t(places[o]) + o * p.x.stride);
}

// Calls one(x) for outputs at the edges and chunk(x, n) for regular ones, n up to a vector's width.
template <class T, class One, class Chunk>
void each_output(const PoolWindows& w, One one, Chunk chunk) {
  int64_t x = 0;
  for (; x < w.regular && x < w.output; ++x) one(x);
  while (x < w.regular_end) {
    const int64_t n = w.regular_end - x < Lanes<T>::width ? w.regular_end - x : Lanes<T>::width;
    chunk(x, n);
    x += n;
  }
  for (; x < w.output; ++x) one(x);
}

template <class T>
void max_plane(void* context, size_t block) {
  const auto& work = *static_cast<const Work<T>*>(context);
  const Pooling& p = *work.pooling;
  const T* plane = plane_of(p, work.in, block);
  T* out = work.out + int64_t(block) * p.y.output * p.x.output;
  int32_t* index = work.index + int64_t(block) * p.y.output * p.x.output;
  if (in_pairs(p)) return max_pairs<T>({plane, p.row_step, p.y.output, p.x.output, 0, p.x.input}, out, index);
  for (int64_t y = 0; y < p.y.output; ++y, out += p.x.output, index += p.x.output) {
    each_output<T>(p.x, [&](int64_t x) { max_one(p, plane, y, x, out + x, index + x); },
                [&](int64_t x, int64_t n) { max_chunk(p, plane, y, x, n, out + x, index + x); });
  }
}

int64_t count(const PoolWindows& w, int64_t o) { return (w.end[o] - w.first[o] + w.dilation - 1) / w.dilation; }
template <class T>
T divisor(const Pooling& p, int64_t y, int64_t x) {
  return p.divisor != 0 ? T(p.divisor) : T(count(p.y, y) * count(p.x, x));
}

template <class T>
void average_plane(void* context, size_t block) {
  const auto& work = *static_cast<const Work<T>*>(context);
  const Pooling& p = *work.pooling;
  const T* plane = plane_of(p, work.in, block);
  T* out = work.out + int64_t(block) * p.y.output * p.x.output;
  const int64_t step = p.x.stride * p.column_step;
  for (int64_t y = 0; y < p.y.output; ++y, out += p.x.output) {
    each_output<T>(
        p.x,
        [&](int64_t x) {
          T sum = T(0);
          for (int64_t i = p.y.first[y]; i < p.y.end[y]; i += p.y.dilation)
            for (int64_t j = p.x.first[x]; j < p.x.end[x]; j += p.x.dilation)
              sum = sum + plane[i * p.row_step + j * p.column_step];
          out[x] = canonical(sum / divisor<T>(p, y, x));
        },
        [&](int64_t x, int64_t n) {
          using V = Lanes<T>;
          V sum = V::zero();
          for (int64_t i = p.y.first[y]; i < p.y.end[y]; i += p.y.dilation) {
            for (int64_t tap = 0; tap < p.x.taps; ++tap) {
              const T* from = plane + i * p.row_step + (p.x.first[x] + tap * p.x.dilation) * p.column_step;
              sum = sum + load_every(from, step, size_t(n));
            }
          }
          store_partial(out + x, size_t(n), canonical(sum / V::set1(divisor<T>(p, y, x))));
        });
  }
}

// Gradients lie in contiguous planes; each input adds up what comes from its windows, in their order.
template <class T>
void finish_plane(T* plane, int64_t n) {
  for (int64_t i = 0; i < n; ++i) plane[i] = canonical(plane[i]);
}

template <class T>
void average_gradient_plane(void* context, size_t block) {
  const auto& work = *static_cast<const Work<T>*>(context);
  const Pooling& p = *work.pooling;
  const T* gradient = plane_of(p, work.in, block);  // plane_step, row_step, column_step are those of the gradient
  const int64_t n = p.y.input * p.x.input;
  T* out = work.out + int64_t(block) * n;
  memset(out, 0, size_t(n) * sizeof(T));
  for (int64_t y = 0; y < p.y.output; ++y) {
    for (int64_t x = 0; x < p.x.output; ++x) {
      const T share = gradient[y * p.row_step + x * p.column_step] / divisor<T>(p, y, x);
      for (int64_t i = p.y.first[y]; i < p.y.end[y]; i += p.y.dilation)
        for (int64_t j = p.x.first[x]; j < p.x.end[x]; j += p.x.dilation) out[i * p.x.input + j] += share;
    }
  }
  finish_plane(out, n);
}

template <class T>
void scatter_plane(void* context, size_t block) {
  const auto& work = *static_cast<const Work<T>*>(context);
  const Pooling& p = *work.pooling;
  const T* gradient = plane_of(p, work.in, block);
  const int32_t* index = work.index_in + int64_t(block) * p.y.output * p.x.output;
  const int64_t n = p.y.input * p.x.input;
  T* out = work.out + int64_t(block) * n;
  if (scatter_pairs(p, gradient, index, out)) return;
  memset(out, 0, size_t(n) * sizeof(T));
  for (int64_t y = 0; y < p.y.output; ++y)
    for (int64_t x = 0; x < p.x.output; ++x) {
      const int64_t at = *index++;
      if (uint64_t(at) < uint64_t(n)) out[at] += gradient[y * p.row_step + x * p.column_step];
    }
  finish_plane(out, n);
}

template <class T>
void gather_plane(void* context, size_t block) {
  const auto& work = *static_cast<const Work<T>*>(context);
  const Pooling& p = *work.pooling;
  const T* plane = plane_of(p, work.in, block);
  const int64_t outputs = p.y.output * p.x.output, n = p.y.input * p.x.input;
  const int32_t* index = work.index_in + int64_t(block) * outputs;
  T* out = work.out + int64_t(block) * outputs;
  for (int64_t o = 0; o < outputs; ++o) {
    const int64_t at = index[o];
    out[o] = uint64_t(at) < uint64_t(n) ? plane[at / p.x.input * p.row_step + at % p.x.input * p.column_step] : T(0);
  }
}

template <class T>
void run(const Pooling& p, dw_block_fn plane, const void* in, void* out, int32_t* index, const int32_t* index_in) {
  FpGuard guard;
  Work<T> work{&p, static_cast<const T*>(in), static_cast<T*>(out), index, index_in};
  const int64_t planes = p.images * p.channels;
  const int threads = planes * p.y.input * p.x.input < kParallelElements ? 1 : 1024;
  dw_parallel_n(size_t(planes), plane, &work, threads);
}

}  // namespace

#define DW_POOL(PLANE, IN, OUT, INDEX, INDEX_IN)                                                       \
  if (p.dtype == Dtype::f64) run<double>(p, PLANE<double>, IN, OUT, INDEX, INDEX_IN);                  \
  else run<float>(p, PLANE<float>, IN, OUT, INDEX, INDEX_IN);

void max_pool(const droveway::Pooling& p, const void* x, void* out, int32_t* index) {
  DW_POOL(max_plane, x, out, index, nullptr)
}
void average_pool(const droveway::Pooling& p, const void* x, void* out) {
  DW_POOL(average_plane, x, out, nullptr, nullptr)
}
void average_pool_gradient(const droveway::Pooling& p, const void* g, void* out) {
  DW_POOL(average_gradient_plane, g, out, nullptr, nullptr)
}
void pool_scatter(const droveway::Pooling& p, const void* g, const int32_t* index, void* out) {
  DW_POOL(scatter_plane, g, out, nullptr, index)
}
void pool_gather(const droveway::Pooling& p, const void* x, const int32_t* index, void* out) {
  DW_POOL(gather_plane, x, out, nullptr, index)
}
#undef DW_POOL

}  // namespace DW_ISA
