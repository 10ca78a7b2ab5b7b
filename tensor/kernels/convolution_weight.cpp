// The gradient of a convolution's weights: a product whose k runs over all outputs of all images, in blocks of 256.
//
// The lanes of a tile are output channels, its rows taps of input channels, both read where the images lie laid out;
// the gradients of the outputs are packed pixel after pixel. A tile comes back for each group of images that is laid
// out, so that its chains and its sums of blocks live in memory between.
#include "convolution_planes.hpp"
#include "droveway/fpenv.hpp"
#include "droveway/parallel.hpp"

namespace DW_ISA {
namespace {

using droveway::WeightGradient;

// Output channels are cut into vectors of lanes.
template <class T>
int64_t lane_groups(const WeightGradient& w) {
  return (w.outputs + kColumns<T> - 1) / kColumns<T>;
}

template <class T>
struct Work {
  const WeightGradient* gradient;
  Planes planes;
  int64_t depth;          // rows of the product: inputs · taps
  int64_t image, images;  // laid out now
  ptrdiff_t* offset;      // [depth]
  T* plane;               // [images][groups · inputs][planes]
  T* packed;              // [images][groups][lane groups][pixels][kColumns]
  T* chain;               // [groups][lane groups][depth][kColumns]: the block that is being summed
  T* total;               // the same shape: sums of whole blocks
};

template <class T>
void prepare(void* context, size_t block) {
  const auto& work = *static_cast<const Work<T>*>(context);
  const WeightGradient& w = *work.gradient;
  const ptrdiff_t size = ptrdiff_t(dtype_size(w.dtype));
  const int64_t image = int64_t(block) / w.groups, group = int64_t(block) % w.groups;
  for (int64_t i = 0; i < w.inputs; ++i) {
    const int64_t channel = group * w.inputs + i;
    const int64_t at = (work.image + image) * w.image_step[0] + channel * w.image_step[1];
    lay_out(work.plane + size_t((image * w.groups + group) * w.inputs + i) * work.planes.size(), work.planes, w.y, w.x,
            static_cast<const char*>(w.image) + at * size, w.dtype, w.image_step[2], w.image_step[3],
            work.image == 0);
  }
  const int64_t pixels = w.y.output * w.x.output;
  for (int64_t lanes = 0; lanes < lane_groups<T>(w); ++lanes) {
    T* to = work.packed + size_t(((image * w.groups + group) * lane_groups<T>(w) + lanes) * pixels) * size_t(kColumns<T>);
    const int64_t channel = group * w.outputs + lanes * kColumns<T>;
    const size_t count = least(size_t(kColumns<T>), size_t(w.outputs - lanes * kColumns<T>));
    const int64_t at = (work.image + image) * w.gradient_step[0] + channel * w.gradient_step[1];
    const char* from = static_cast<const char*>(w.gradient) + at * size;
    const bool one_run = w.gradient_step[2] == w.x.output * w.gradient_step[3];
    if (one_run) {
      const Factor plane{from, w.dtype, w.gradient_step[1], w.gradient_step[3]};
      pack_factor(to, size_t(kColumns<T>), plane, 0, 0, count, size_t(pixels));
    }
    for (int64_t y = 0; y < w.y.output && !one_run; ++y) {
      const Factor row{from + y * w.gradient_step[2] * size, w.dtype, w.gradient_step[1], w.gradient_step[3]};
      pack_factor(to + y * w.x.output * kColumns<T>, size_t(kColumns<T>), row, 0, 0, count, size_t(w.x.output));
    }
  }
}

template <class T>
struct Taps {
  const T* plane;           // of the group in the image, at the output where the run begins
  const ptrdiff_t* offset;  // of the tile's rows
  const T* b;               // packed gradients from there on
};

// Adds `count` products to each chain of a tile. `vectors` of the lanes are used.
template <class T, int rows, int vectors>
DW_INLINE void run_tile(Lanes<T> (&sum)[rows * vectors], const Taps<T>& t, size_t count) {
  using V = Lanes<T>;
  const T* p[rows];
  repeat<rows>([&](auto i) DW_LAMBDA { p[i] = t.plane + t.offset[i]; });
  const T* b = t.b;
  for (size_t x = 0; x < count; ++x, b += kColumns<T>) {
    V column[vectors];
    repeat<vectors>([&](auto j) DW_LAMBDA { column[j] = V::load(b + j * V::width); });
    repeat<rows>([&](auto i) DW_LAMBDA {
      const V factor = V::set1(p[i][x]);
      repeat<vectors>([&](auto j) DW_LAMBDA { sum[i * vectors + j] = fma(factor, column[j], sum[i * vectors + j]); });
    });
  }
}

// One tile over all images laid out now: k goes on where the last call left it.
template <class T, int rows, int vectors>
__attribute__((noinline)) void gradient_tile(const Work<T>& work, int64_t group, int64_t lanes, int64_t row) {
  using V = Lanes<T>;
  const WeightGradient& w = *work.gradient;
  const int64_t pixels = w.y.output * w.x.output;
  const size_t state = size_t(((group * lane_groups<T>(w) + lanes) * work.depth + row) * kColumns<T>);
  T* chain = work.chain + state;
  T* total = work.total + state;
  V sum[rows * vectors];
  repeat<rows>([&](auto i) DW_LAMBDA {
    repeat<vectors>([&](auto j) DW_LAMBDA { sum[i * vectors + j] = V::load(chain + i * kColumns<T> + j * V::width); });
  });
  int64_t k = work.image * pixels;
  for (int64_t image = 0; image < work.images; ++image) {
    const T* plane = work.plane + size_t((image * w.groups + group) * w.inputs) * work.planes.size();
    const T* b = work.packed + size_t(((image * w.groups + group) * lane_groups<T>(w) + lanes) * pixels) * size_t(kColumns<T>);
    for (int64_t y = 0; y < w.y.output; ++y) {
      for (int64_t x = 0; x < w.x.output;) {
        const int64_t left = int64_t(kDepth) - k % int64_t(kDepth);  // to the end of the block
        const int64_t count = left < w.x.output - x ? left : w.x.output - x;
        run_tile<T, rows, vectors>(sum, {plane + y * work.planes.pitch + x, work.offset + row, b}, size_t(count));
        x += count;
        k += count;
        b += count * kColumns<T>;
        if (k % int64_t(kDepth) != 0) continue;
        const bool first = k == int64_t(kDepth);
        repeat<rows>([&](auto i) DW_LAMBDA {
          repeat<vectors>([&](auto j) DW_LAMBDA {
            T* to = total + i * kColumns<T> + j * V::width;
            const V value = sum[i * vectors + j];
            store(to, first ? value : V::load(to) + value);
            sum[i * vectors + j] = V::zero();
          });
        });
      }
    }
  }
  repeat<rows>([&](auto i) DW_LAMBDA {
    repeat<vectors>([&](auto j) DW_LAMBDA { store(chain + i * kColumns<T> + j * V::width, sum[i * vectors + j]); });
  });
}

template <class T, int vectors, class = typename MakeIndices<kRows>::type>
struct GradientTiles;
template <class T, int vectors, int... I>
struct GradientTiles<T, vectors, Indices<I...>> {
  static constexpr void (*of_height[])(const Work<T>&, int64_t, int64_t, int64_t) = {gradient_tile<T, I + 1, vectors>...};
};

template <class T>
void multiply(void* context, size_t block) {
  const auto& work = *static_cast<const Work<T>*>(context);
  const WeightGradient& w = *work.gradient;
  const int64_t count = panels(work.depth), panel = int64_t(block) % count;
  const int64_t lanes = int64_t(block) / count % lane_groups<T>(w), group = int64_t(block) / count / lane_groups<T>(w);
  const int64_t row = row_of(panel, work.depth), rows = row_of(panel + 1, work.depth) - row;
  if (w.outputs - lanes * kColumns<T> <= Lanes<T>::width) GradientTiles<T, 1>::of_height[rows - 1](work, group, lanes, row);
  else GradientTiles<T, kVectors>::of_height[rows - 1](work, group, lanes, row);
}

// The last block is added, NaN made canonical, and each output channel's weights gathered from the lanes.
template <class T>
void take_out(const Work<T>& work) {
  const WeightGradient& w = *work.gradient;
  const size_t size = dtype_size(w.dtype);
  const int64_t k = w.images * w.y.output * w.x.output;
  const bool rest = k % int64_t(kDepth) != 0, whole = k >= int64_t(kDepth);
  for (int64_t o = 0; o < w.groups * w.outputs; ++o) {
    const int64_t group = o / w.outputs, channel = o % w.outputs;
    const size_t state = size_t((group * lane_groups<T>(w) + channel / kColumns<T>) * work.depth * kColumns<T>);
    const T* chain = work.chain + state + channel % kColumns<T>;
    const T* total = work.total + state + channel % kColumns<T>;
    char* out = static_cast<char*>(w.out) + size_t(o * work.depth) * size;
    for (int64_t row = 0; row < work.depth; ++row, out += size) {
      const ptrdiff_t at = row * kColumns<T>;
      T value = whole ? total[at] : chain[at];
      if (whole && rest) value = value + chain[at];
      value = canonical(value);
      if (sum_dtype(w.dtype) == w.dtype) memcpy(out, &value, sizeof(T));
      else cast(int(Dtype::f32), int(w.dtype))({.out = out, .in = {&value, nullptr, nullptr}, .n = 1, .op = droveway::op_cast});
    }
  }
}

template <class T>
struct Layout {
  size_t offset, chain, total, plane, packed, bytes;
  int64_t images;
  explicit Layout(const WeightGradient& w) {
    const Planes planes(w.y, w.x);
    const size_t depth = size_t(w.inputs * w.y.taps * w.x.taps);
    const size_t lanes = size_t(w.groups * lane_groups<T>(w)) * size_t(kColumns<T>) * sizeof(T);
    const size_t plane_bytes = planes.size() * size_t(w.groups * w.inputs) * sizeof(T);
    const size_t packed_bytes = size_t(w.y.output * w.x.output) * lanes;
    const int64_t fitting = int64_t(kImagesBytes / (plane_bytes + packed_bytes + 1));
    images = fitting < 1 ? 1 : fitting < w.images ? fitting : w.images;
    offset = 0;
    chain = offset + aligned(depth * sizeof(ptrdiff_t));
    total = chain + aligned(depth * lanes);
    plane = total + aligned(depth * lanes);
    packed = plane + aligned(size_t(images) * plane_bytes);
    bytes = packed + aligned(size_t(images) * packed_bytes);
  }
};

template <class T>
void run(const WeightGradient& w, char* workspace) {
  const Layout<T> layout(w);
  Work<T> work{&w, Planes(w.y, w.x), w.inputs * w.y.taps * w.x.taps, 0, 0, nullptr, nullptr, nullptr, nullptr, nullptr};
  work.offset = reinterpret_cast<ptrdiff_t*>(workspace + layout.offset);
  work.chain = reinterpret_cast<T*>(workspace + layout.chain);
  work.total = reinterpret_cast<T*>(workspace + layout.total);
  work.plane = reinterpret_cast<T*>(workspace + layout.plane);
  work.packed = reinterpret_cast<T*>(workspace + layout.packed);
  memset(workspace + layout.chain, 0, layout.plane - layout.chain);
  tap_offsets(work.offset, work.planes, w.y, w.x, w.inputs);
  const double flops = double(w.images * w.groups * w.outputs) * double(work.depth) * double(w.y.output * w.x.output);
  const int threads = flops < kParallelFlops ? 1 : 1024;
  const size_t tiles = size_t(w.groups * lane_groups<T>(w) * panels(work.depth));
  for (work.image = 0; work.image < w.images; work.image += layout.images) {
    work.images = layout.images < w.images - work.image ? layout.images : w.images - work.image;
    dw_parallel_n(size_t(work.images * w.groups), prepare<T>, &work, threads);
    dw_parallel_n(tiles, multiply<T>, &work, threads);
  }
  take_out(work);
}

bool is_empty(const WeightGradient& w) { return w.groups * w.outputs * w.inputs * w.y.taps * w.x.taps == 0; }

}  // namespace

size_t weight_gradient_workspace(const droveway::WeightGradient& w) {
  if (is_empty(w)) return 0;
  return sum_dtype(w.dtype) == Dtype::f64 ? Layout<double>(w).bytes : Layout<float>(w).bytes;
}

void weight_gradient(const droveway::WeightGradient& w, void* workspace) {
  if (is_empty(w)) return;
  FpGuard guard;
  if (sum_dtype(w.dtype) == Dtype::f64) run<double>(w, static_cast<char*>(workspace));
  else run<float>(w, static_cast<char*>(workspace));
}

}  // namespace DW_ISA
