// Products of byte activations with 4-bit weights in groups (tensor/twins/quantised_ref.py is the readable twin).
//
// Within a group of `group` ≤ 256 along k, sums of products of whole numbers are exact in f32 (below 2^24); scale and bias
// of each group enter at its end, groups ascending, and the activations' scale once, last.
#include "droveway/fpenv.hpp"
#include "droveway/parallel.hpp"
#include "product_pack.hpp"

namespace DW_ISA {
namespace {

using droveway::QuantisedProduct;

constexpr double kParallelFlops = double(size_t{1} << 22);

struct Tile {
  const QuantisedProduct* product;
  const float* a;        // widened activations of the group, in the tile's first row
  const float* b;        // packed codes of the group, k after k
  const float* scale;    // [kColumns]
  const float* bias;
  const float* a_sum;    // the group's sum of activations, in the tile's first row
  const float* a_scale;  // [rows]
  float* c;
  size_t columns;
  bool first, last;
};

template <int rows>
__attribute__((noinline)) void quantised_tile(const Tile& t) {
  using V = F32x16;
  const QuantisedProduct& p = *t.product;
  const size_t groups = p.k / p.group;
  V sum[rows * kVectors];
  const StridedRows<float, rows> a(t.a, ptrdiff_t(p.k), 1);
  chains<float, rows, kVectors>(sum, p.group, a, WholeColumns<float>{t.b, kColumns<float>});
  repeat<kVectors>([&](auto j) DW_LAMBDA {
    const size_t from = size_t(j * 16), count = t.columns > from ? t.columns - from : 0;
    const V scale = V::load(t.scale + from), bias = V::load(t.bias + from);
    repeat<rows>([&](auto i) DW_LAMBDA {
      float* to = t.c + size_t(i) * p.n + from;
      const V before = t.first ? V::zero() : V::load_partial(to, count, 0.0f);
      V total = fma(bias, V::set1(t.a_sum[size_t(i) * groups]), fma(scale, sum[i * kVectors + j], before));
      if (t.last) total = canonical(total * V::set1(t.a_scale[i]));
      store_partial(to, count, total);
    });
  });
}

template <class = typename MakeIndices<kRows>::type>
struct QuantisedTiles;
template <int... I>
struct QuantisedTiles<Indices<I...>> {
  static constexpr void (*of_height[])(const Tile&) = {quantised_tile<I + 1>...};
};

struct Work {
  const QuantisedProduct* product;
  float* a;      // [m][k]
  float* a_sum;  // [m][groups]
};

void widen_row(void* context, size_t row) {
  const auto& work = *static_cast<const Work*>(context);
  const QuantisedProduct& p = *work.product;
  const size_t groups = p.k / p.group;
  const int8_t* from = p.a + row * p.k;
  for (size_t g = 0; g < groups; ++g) {
    int32_t sum = 0;
    for (size_t k = g * p.group; k < (g + 1) * p.group; ++k) {
      work.a[row * p.k + k] = float(from[k]);
      sum += from[k];
    }
    work.a_sum[row * groups + g] = float(sum);
  }
}

// One block: a panel of columns, group after group.
void quantised_panel(void* context, size_t block) {
  constexpr size_t w = size_t(kColumns<float>);
  const auto& work = *static_cast<const Work*>(context);
  const QuantisedProduct& p = *work.product;
  const size_t groups = p.k / p.group, column = block * w, columns = least(w, p.n - column);
  alignas(64) float codes[kDepth * w], scale[w], bias[w];
  memset(codes, 0, sizeof codes);
  memset(scale, 0, sizeof scale);
  memset(bias, 0, sizeof bias);
  for (size_t g = 0; g < groups; ++g) {
    for (size_t j = 0; j < columns; ++j) {
      const uint8_t* from = p.codes + (column + j) * (p.k / 2) + g * p.group / 2;
      for (size_t k = 0; k < p.group; k += 2) {
        codes[k * w + j] = float(from[k / 2] & 15);
        codes[(k + 1) * w + j] = float(from[k / 2] >> 4);
      }
      scale[j] = p.scale[(column + j) * groups + g];
      bias[j] = p.bias[(column + j) * groups + g];
    }
    const size_t count = parts(p.m, size_t(kRows));
    for (size_t panel = 0; panel < count; ++panel) {
      const size_t row = panel * p.m / count, rows = (panel + 1) * p.m / count - row;
      QuantisedTiles<>::of_height[rows - 1]({&p, work.a + row * p.k + g * p.group, codes, scale, bias,
                                             work.a_sum + row * groups + g, p.a_scale + row, p.c + row * p.n + column,
                                             columns, g == 0, g + 1 == groups});
    }
  }
}

constexpr size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

size_t quantised_workspace(const droveway::QuantisedProduct& p) {
  if (p.m == 0 || p.n == 0 || p.k == 0) return 0;
  return aligned(p.m * p.k * sizeof(float)) + aligned(p.m * (p.k / p.group) * sizeof(float));
}

void quantised_product(const droveway::QuantisedProduct& p, void* workspace) {
  if (p.m == 0 || p.n == 0) return;
  if (p.k == 0) {
    memset(p.c, 0, p.m * p.n * sizeof(float));
    return;
  }
  FpGuard guard;
  char* space = static_cast<char*>(workspace);
  Work work{&p, reinterpret_cast<float*>(space), reinterpret_cast<float*>(space + aligned(p.m * p.k * sizeof(float)))};
  const int threads = double(p.m) * double(p.n) * double(p.k) < kParallelFlops ? 1 : 1024;
  dw_parallel_n(p.m, widen_row, &work, threads);
  dw_parallel_n(parts(p.n, size_t(kColumns<float>)), quantised_panel, &work, threads);
}

}  // namespace DW_ISA
