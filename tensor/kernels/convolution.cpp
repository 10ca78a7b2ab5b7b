// Convolutions without patches in memory: the tiles of matrix products, whose columns are read where the image lies
// (tensor/twins/convolution_ref.py is the readable twin).
//
// A vector is a run of outputs of one row; the input under tap k of the same outputs is a run too, at a fixed offset.
// So a tile is that of a product whose row k of B lies at offset[k]. Where rows are short a run goes on over the gap
// between two rows, and what it computes there is thrown away. Images are laid out (convolution_planes.hpp) some
// at a time, as many as fit the second-level cache.
#include "convolution_planes.hpp"
#include "convolution_spread.hpp"
#include "droveway/fpenv.hpp"
#include "droveway/parallel.hpp"
#include "pooling_pairs.hpp"

namespace DW_ISA {
namespace {

using droveway::Convolution;

constexpr size_t kSlack = 64;                     // elements behind the planes that a vector may read
constexpr int64_t kRowsPerBlock = 8;  // rows of outputs
template <class T>
constexpr int64_t kPooledWidth = droveway::kPooledRowBytes / int64_t(sizeof(T));

// The columns of a tile: each vector has a place of its own, and all move by offset[k].
template <class T>
struct Windows {
  const T* p[kVectors];
  const ptrdiff_t* offset;
  DW_INLINE Lanes<T> load(int j) const { return Lanes<T>::load(p[j] + *offset); }
  DW_INLINE void next() { ++offset; }
};

// As many outputs of two rows as half a vector holds.
template <class T>
struct HalfWindows {
  const T* p[2 * kVectors];
  const ptrdiff_t* offset;
  DW_INLINE Lanes<T> load(int j) const { return load_halves<Lanes<T>>(p[2 * j] + *offset, p[2 * j + 1] + *offset); }
  DW_INLINE void next() { ++offset; }
};

template <class T, class B>
struct WindowTile {
  size_t depth;
  const T* a;
  B b;
  T* c[kVectors];  // where the outputs of a vector go, in the first row of the tile
  size_t count[kVectors];
  ptrdiff_t c_row;
  const T* bias;  // of the tile's rows, or nullptr
  bool first, last, relu;
};

template <class T, class B, int rows>
__attribute__((noinline)) void window_tile(const WindowTile<T, B>& t) {
  using V = Lanes<T>;
  V sum[rows * kVectors];
  chains<T, rows, kVectors>(sum, t.depth, PackedRows<T, rows>{t.a}, t.b);
  repeat<rows>([&](auto i) DW_LAMBDA {
    repeat<kVectors>([&](auto j) DW_LAMBDA {
      T* to = t.c[j] + i * t.c_row;
      V value = sum[i * kVectors + j];
      if (!t.first) value = V::load_partial(to, t.count[j], T(0)) + value;
      if (t.last) {
        if (t.bias != nullptr) value = value + V::set1(t.bias[i]);  // NaN stays NaN
        value = canonical(value);
        if (t.relu) value = select(lt(value, V::zero()), V::zero(), value);
      }
      store_partial(to, t.count[j], value);
    });
  });
}

template <class T, class B, class = typename MakeIndices<kRows>::type>
struct WindowTiles;
template <class T, class B, int... I>
struct WindowTiles<T, B, Indices<I...>> {
  static constexpr void (*of_height[])(const WindowTile<T, B>&) = {window_tile<T, B, I + 1>...};
};

template <class T>
struct Work {
  const Convolution* convolution;
  Planes planes;
  int64_t depth;      // k: inputs · taps
  int64_t row_blocks; // blocks of rows of outputs
  int64_t image, images;  // laid out now
  ptrdiff_t* offset;  // [depth]
  T* weight;          // [groups][panels], each k after k
  T* bias;            // in the type of sums, or nullptr
  T* plane;           // [images][groups · inputs][planes]
  T* sums;            // [images][groups · outputs][y · x]: out itself, or what is narrowed into it
};

template <class T>
void pack_weights(const Work<T>& work) {
  const Convolution& c = *work.convolution;
  const ptrdiff_t size = ptrdiff_t(dtype_size(c.dtype));
  T* to = work.weight;
  for (int64_t g = 0; g < c.groups; ++g) {
    for (int64_t panel = 0; panel < panels(c.outputs); ++panel) {
      const int64_t row = row_of(panel, c.outputs), end = row_of(panel + 1, c.outputs);
      for (int64_t i = 0; i < c.inputs; ++i)
        for (int64_t ty = 0; ty < c.y.taps; ++ty)
          for (int64_t tx = 0; tx < c.x.taps; ++tx)
            for (int64_t o = row; o < end; ++o) {
              const int64_t at = g * c.weight_step[0] + o * c.weight_step[1] + i * c.weight_step[2] +
                                 ty * c.weight_step[3] + tx * c.weight_step[4];
              *to++ = element<T>(static_cast<const char*>(c.weight) + at * size, c.dtype);
            }
    }
  }
  if (work.bias != nullptr)
    for (int64_t o = 0; o < c.groups * c.outputs; ++o)
      work.bias[o] = element<T>(static_cast<const char*>(c.bias) + o * size, c.dtype);
  tap_offsets(work.offset, work.planes, c.y, c.x, c.inputs);
}

template <class T>
void lay_out_channel(void* context, size_t block) {
  const auto& work = *static_cast<const Work<T>*>(context);
  const Convolution& c = *work.convolution;
  const int64_t channels = c.groups * c.inputs;
  const int64_t image = work.image + int64_t(block) / channels, channel = int64_t(block) % channels;
  const int64_t at = image * c.image_step[0] + channel * c.image_step[1];
  lay_out(work.plane + block * work.planes.size(), work.planes, c.y, c.x,
          static_cast<const char*>(c.image) + at * int64_t(dtype_size(c.dtype)), c.dtype, c.image_step[2], c.image_step[3],
          work.image == 0);
}

// An activation that tiles do not do by themselves.
bool has_pass(const Convolution& c) {
  return c.activation >= 0 && (c.activation != droveway::op_relu || sum_dtype(c.dtype) != c.dtype);
}

// Bias of a narrow type is added after rounding, as the operation of that type does it.
template <class T>
void finish_channel(const Work<T>& work, int64_t image, int64_t channel, int64_t row, int64_t rows) {
  const Convolution& c = *work.convolution;
  const size_t size = dtype_size(c.dtype), n = size_t(rows * c.x.output);
  const int64_t at = (channel * c.y.output + row) * c.x.output;
  char* out = static_cast<char*>(c.out) +
              (((work.image + image) * c.groups * c.outputs + channel) * c.y.output + row) * c.x.output * int64_t(size);
  if (sum_dtype(c.dtype) != c.dtype) {
    const T* sums = work.sums + image * c.groups * c.outputs * c.y.output * c.x.output + at;
    cast(int(Dtype::f32), int(c.dtype))({.out = out, .in = {sums, nullptr, nullptr}, .n = n, .op = droveway::op_cast});
    if (c.bias != nullptr) {
      char repeated[2 * 256];
      for (size_t i = 0; i < 256; ++i) memcpy(repeated + i * size, static_cast<const char*>(c.bias) + size_t(channel) * size, size);
      for (size_t i = 0; i < n; i += 256)
        elementwise(droveway::op_add, int(c.dtype))({.out = out + i * size, .in = {out + i * size, repeated, nullptr},
                                                     .n = least(256, n - i), .op = droveway::op_add});
    }
  }
  if (has_pass(c))
    elementwise(c.activation, int(c.dtype))({.out = out, .in = {out, nullptr, nullptr}, .n = n, .op = c.activation});
}

// Whether runs over the gaps waste fewer lanes than rows cut into vectors, by more than their copying costs.
template <class T>
bool runs_over_gaps(const Work<T>& work) {
  constexpr int64_t width = Lanes<T>::width;
  const int64_t in_rows = (work.convolution->x.output + width - 1) / width * width;
  return work.depth >= 32 && work.planes.pitch * 7 < in_rows * 6;
}

// Whether two rows a vector need fewer tiles: rows of at most half a vector.
template <class T>
bool in_halves(const Work<T>& work) {
  constexpr int64_t width = Lanes<T>::width;
  const Convolution& c = *work.convolution;
  if (work.depth < 32 || c.x.output > width / 2) return false;
  const int64_t rows = c.y.output < kRowsPerBlock ? c.y.output : kRowsPerBlock;
  const int64_t others = runs_over_gaps(work) ? ((rows - 1) * work.planes.pitch + c.x.output + width - 1) / width : rows;
  const auto tiles = [](int64_t vectors) { return (vectors + kVectors - 1) / kVectors; };
  return tiles((rows + 1) / 2) < tiles(others);
}

// Where a panel's outputs go: the rows from y_first on of planes some step apart.
template <class T>
struct Target {
  T* p;
  int64_t y_first, channel_step;
  T* at(int64_t y, int64_t x, int64_t width) const { return p + (y - y_first) * width + x; }
};

// The outputs that exist among those of a run from place `from` on, taken from a tile's vector to their rows.
template <class T>
void take_run(const Convolution& c, int64_t pitch, int64_t from, int64_t end, const T* local, const Target<T>& to, int64_t rows) {
  constexpr int64_t width = Lanes<T>::width;
  for (int64_t q = from; q < from + width && q < end;) {
    const int64_t y = q / pitch, x = q % pitch, left = from + width - q;
    const int64_t run = pitch - x < left ? pitch - x : left;
    const int64_t exist = c.x.output - x < run ? c.x.output - x : run;
    if (exist > 0)
      for (int64_t i = 0; i < rows; ++i)
        copy_row(to.at(y, x, c.x.output) + i * to.channel_step, local + i * kColumns<T> + (q - from), size_t(exist));
    q += run;
  }
}

// The two rows in the halves of a tile's vector.
template <class T>
void take_halves(const Convolution& c, int64_t y, int64_t y_end, const T* local, const Target<T>& to, int64_t rows) {
  for (int64_t h = 0; h < 2 && y + h < y_end; ++h)
    for (int64_t i = 0; i < rows; ++i)
      copy_row(to.at(y + h, 0, c.x.output) + i * to.channel_step, local + i * kColumns<T> + h * (Lanes<T>::width / 2),
               size_t(c.x.output));
}

// Maxima over pairs of rows and columns of a panel's outputs, after the activation.
template <class T>
void pool_panel(const Work<T>& work, const Target<T>& from, int64_t image, int64_t channel, int64_t rows, int64_t y_end) {
  const Convolution& c = *work.convolution;
  const int64_t height = (y_end - from.y_first) / 2, width = c.x.output / 2;
  for (int64_t i = 0; i < rows; ++i) {
    T* plane = from.p + i * from.channel_step;
    if (has_pass(c))
      elementwise(c.activation, int(c.dtype))({.out = plane, .in = {plane, nullptr, nullptr}, .n = size_t(from.channel_step), .op = c.activation});
    const int64_t at = (((work.image + image) * c.groups * c.outputs + channel + i) * (c.y.output / 2) + from.y_first / 2) * width;
    max_pairs<T>({plane, c.x.output, height, width, from.y_first * c.index_width, c.index_width},
                 static_cast<T*>(c.out) + at, c.index + at);
  }
}

// One block: some rows of outputs of all channels of one group of one image.
template <class T, class B>
void convolve(void* context, size_t block) {
  constexpr int64_t width = Lanes<T>::width;
  constexpr int64_t runs = sizeof(B::p) / sizeof(T*) / kVectors;  // of neighbouring inputs in a vector
  constexpr bool halves = runs == 2;
  const auto& work = *static_cast<const Work<T>*>(context);
  const Convolution& c = *work.convolution;
  const int64_t row_block = int64_t(block) % work.row_blocks, group = int64_t(block) / work.row_blocks % c.groups;
  const int64_t image = int64_t(block) / work.row_blocks / c.groups;
  const int64_t y_first = row_block * kRowsPerBlock;
  const int64_t y_end = y_first + kRowsPerBlock < c.y.output ? y_first + kRowsPerBlock : c.y.output;
  const int64_t pixels = c.y.output * c.x.output, vectors = (c.x.output + width - 1) / width;
  const T* plane = work.plane + size_t((image * c.groups + group) * c.inputs) * work.planes.size();
  const bool native = sum_dtype(c.dtype) == c.dtype;
  const bool pooled = c.index != nullptr;
  T* sums = work.sums + ((native ? work.image : 0) + image) * c.groups * c.outputs * pixels;
  const bool over_gaps = !halves && runs_over_gaps(work);
  const bool apart = halves || over_gaps;  // tiles are written apart, and taken to their rows
  const int64_t pitch = work.planes.pitch;
  // Vectors are numbered row after row, or along one run from the first row's beginning to the last one's end, or by pairs
  // of rows.
  const int64_t run_first = y_first * pitch, run_end = (y_end - 1) * pitch + c.x.output;
  const int64_t first = apart ? 0 : y_first * vectors;
  const int64_t end = halves      ? (y_end - y_first + 1) / 2
                      : over_gaps ? (run_end - run_first + width - 1) / width
                                  : y_end * vectors;
  alignas(64) T local[size_t(kRows) * size_t(kColumns<T>)];
  alignas(64) T planes[size_t(kRows) * size_t(kRowsPerBlock * kPooledWidth<T>)];
  for (int64_t panel = 0; panel < panels(c.outputs); ++panel) {
    const int64_t row = row_of(panel, c.outputs), rows = row_of(panel + 1, c.outputs) - row;
    const int64_t channel = group * c.outputs + row;
    const T* weight = work.weight + channel * work.depth;
    const Target<T> to = pooled ? Target<T>{planes, y_first, (y_end - y_first) * c.x.output} : Target<T>{sums + channel * pixels, 0, pixels};
    int64_t y = y_first, x = 0;
    for (int64_t slot = first; slot < end; slot += kVectors) {
      WindowTile<T, B> t;
      t.relu = native && c.activation == droveway::op_relu;
      t.c_row = apart ? kColumns<T> : to.channel_step;
      t.bias = native && work.bias != nullptr ? work.bias + channel : nullptr;
      const T* place[runs * kVectors];
      for (int64_t j = 0; j < kVectors; ++j) {
        const bool exists = slot + j < end;  // else it repeats its neighbour
        if (apart) {
          const int64_t mine = exists ? slot + j : slot;
          if constexpr (halves) {
            const int64_t top = y_first + 2 * mine;
            place[2 * j] = plane + top * pitch;
            place[2 * j + 1] = plane + (top + 1 < y_end ? top + 1 : top) * pitch;
          } else {
            place[j] = plane + run_first + mine * width;
          }
          t.c[j] = local + j * width;
          t.count[j] = size_t(width);
          continue;
        }
        place[j] = exists ? plane + y * pitch + x : place[0];
        t.c[j] = to.at(exists ? y : y_first, exists ? x : 0, c.x.output);
        t.count[j] = exists ? size_t(c.x.output - x < width ? c.x.output - x : width) : 0;
        x += width;
        if (x >= c.x.output) {
          x = 0;
          ++y;
        }
      }
      for (int64_t k = 0; k < work.depth; k += int64_t(kDepth)) {
        t.depth = least(kDepth, size_t(work.depth - k));
        t.a = weight + k * rows;
        memcpy(t.b.p, place, sizeof(place));
        t.b.offset = work.offset + k;
        t.first = k == 0;
        t.last = k + int64_t(t.depth) == work.depth;
        WindowTiles<T, B>::of_height[rows - 1](t);
      }
      for (int64_t j = 0; apart && j < kVectors && slot + j < end; ++j) {
        if constexpr (halves) take_halves(c, y_first + 2 * (slot + j), y_end, local + j * width, to, rows);
        else take_run(c, pitch, run_first + (slot + j) * width, run_end, local + j * width, to, rows);
      }
    }
    if (pooled) pool_panel(work, to, image, channel, rows, y_end);
  }
  if (pooled) return;
  for (int64_t o = 0; o < c.outputs; ++o) finish_channel(work, image, group * c.outputs + o, y_first, y_end - y_first);
}

// Where the parts of the workspace begin.
template <class T>
struct Layout {
  size_t offset, weight, bias, plane, sums, bytes;
  int64_t images;
  explicit Layout(const Convolution& c) {
    const Planes planes(c.y, c.x);
    const size_t depth = size_t(c.inputs * c.y.taps * c.x.taps), channels = size_t(c.groups * c.outputs);
    const size_t image_bytes = planes.size() * size_t(c.groups * c.inputs) * sizeof(T);
    const int64_t fitting = int64_t(kImagesBytes / (image_bytes + 1));
    images = fitting < 1 ? 1 : fitting < c.images ? fitting : c.images;
    offset = 0;
    weight = offset + aligned(depth * sizeof(ptrdiff_t));
    bias = weight + aligned(channels * depth * sizeof(T));
    plane = bias + (c.bias != nullptr ? aligned(channels * sizeof(T)) : 0);
    sums = plane + aligned(size_t(images) * image_bytes + kSlack * sizeof(T));
    const bool narrow = sum_dtype(c.dtype) != c.dtype;
    bytes = sums + (narrow ? aligned(size_t(images) * channels * size_t(c.y.output * c.x.output) * sizeof(T)) : 0);
  }
};

template <class T>
void run(const Convolution& c, char* workspace) {
  const Layout<T> layout(c);
  Work<T> work{&c, Planes(c.y, c.x), c.inputs * c.y.taps * c.x.taps, 0, 0, 0, nullptr, nullptr, nullptr, nullptr, nullptr};
  work.row_blocks = (c.y.output + kRowsPerBlock - 1) / kRowsPerBlock;
  work.offset = reinterpret_cast<ptrdiff_t*>(workspace + layout.offset);
  work.weight = reinterpret_cast<T*>(workspace + layout.weight);
  work.bias = c.bias != nullptr ? reinterpret_cast<T*>(workspace + layout.bias) : nullptr;
  work.plane = reinterpret_cast<T*>(workspace + layout.plane);
  work.sums = sum_dtype(c.dtype) == c.dtype ? static_cast<T*>(c.out) : reinterpret_cast<T*>(workspace + layout.sums);
  const size_t plane_elements = work.planes.size() * size_t(layout.images * c.groups * c.inputs);
  memset(work.plane + plane_elements, 0, kSlack * sizeof(T));
  pack_weights(work);
  const double flops = double(c.images * c.groups * c.outputs) * double(work.depth) * double(c.y.output * c.x.output);
  const int threads = flops < kParallelFlops ? 1 : 1024;
  const dw_block_fn block = in_halves(work) ? convolve<T, HalfWindows<T>> : convolve<T, Windows<T>>;
  for (work.image = 0; work.image < c.images; work.image += layout.images) {
    work.images = layout.images < c.images - work.image ? layout.images : c.images - work.image;
    dw_parallel_n(size_t(work.images * c.groups * c.inputs), lay_out_channel<T>, &work, threads);
    dw_parallel_n(size_t(work.images * c.groups * work.row_blocks), block, &work, threads);
  }
}

bool is_empty(const Convolution& c) {
  return c.images == 0 || c.groups == 0 || c.outputs == 0 || c.y.output == 0 || c.x.output == 0;
}
bool sums_nothing(const Convolution& c) { return c.inputs == 0 || c.y.taps == 0 || c.x.taps == 0; }

}  // namespace

size_t convolution_workspace(const droveway::Convolution& c) {
  if (is_empty(c) || sums_nothing(c)) return 0;
  if (!is_spread(c)) return sum_dtype(c.dtype) == Dtype::f64 ? Layout<double>(c).bytes : Layout<float>(c).bytes;
  size_t most = 0;
  each_part(c, [&](const Remainder& y, const Remainder& x, int64_t, int64_t) {
    const Convolution part = part_of(c, y, x, nullptr);
    const size_t bytes = aligned(whole_bytes(part)) + convolution_workspace(part);
    most = bytes > most ? bytes : most;
  });
  return most;
}

void convolution(const droveway::Convolution& c, void* workspace) {
  if (is_empty(c) || sums_nothing(c)) return;
  if (is_spread(c)) {
    const bool all = each_part(c, [](const Remainder&, const Remainder&, int64_t, int64_t) {});
    if (!all) memset(c.out, 0, whole_bytes(c));
    each_part(c, [&](const Remainder& y, const Remainder& x, int64_t ry, int64_t rx) {
      const Convolution part = part_of(c, y, x, workspace);
      convolution(part, static_cast<char*>(workspace) + aligned(whole_bytes(part)));
      spread_out({&c, &part, ry, rx});
    });
    return;
  }
  FpGuard guard;
  if (sum_dtype(c.dtype) == Dtype::f64) run<double>(c, static_cast<char*>(workspace));
  else run<float>(c, static_cast<char*>(workspace));
}

}  // namespace DW_ISA
