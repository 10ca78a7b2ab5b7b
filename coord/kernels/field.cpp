// Fields of Gaussian kernels at points; the twin is coord/fields/field_ref.py.
#include "droveway/fpenv.hpp"
#include "droveway/math_f32.hpp"
#include "droveway/parallel.hpp"
#include "kernels.hpp"

namespace DW_ISA {
namespace {

constexpr size_t kPointsPerBlock = 256;
constexpr size_t kListed = 16;  // kernels in range are added sixteen at a time: item i of the list is lane i mod 16

struct Lanes {
  float d2[kListed], inv[kListed], weight[kListed], dx[kListed], dy[kListed];
};

// Of one point: the field, or its derivatives by x and y without their sign.
template <bool slope>
struct Sums {
  F32x16 value[slope ? 2 : 1];
};

template <bool slope>
DW_INLINE void add_listed(Sums<slope>& sums, const Lanes& list, size_t count) {
  const F32x16 d2 = F32x16::load_partial(list.d2, count, 0.0f), inv = F32x16::load_partial(list.inv, count, 0.0f);
  const F32x16 weight = F32x16::load_partial(list.weight, count, 0.0f);
  const F32x16 value = weight * exp(-(d2 * inv));
  if constexpr (slope) {
    const F32x16 steep = value * (inv + inv);
    sums.value[0] = sums.value[0] + steep * F32x16::load_partial(list.dx, count, 0.0f);
    sums.value[1] = sums.value[1] + steep * F32x16::load_partial(list.dy, count, 0.0f);
  } else {
    sums.value[0] = sums.value[0] + value;  // lanes past count add +0
  }
}

// Sixteen numbers at `item`, which ascend: neighbours in memory where they have no gap.
DW_INLINE F32x16 gather(const float* from, const uint32_t* item, size_t count, float fill) {
  if (item[count - 1] - item[0] == count - 1) return F32x16::load_partial(from + item[0], count, fill);
  float room[16];
  for (size_t l = 0; l < count; ++l) room[l] = from[item[l]];
  return F32x16::load_partial(room, count, fill);
}

// Writes the field at point i to out[i], or its derivatives to out[2 i] and out[2 i + 1].
template <bool slope>
void at_point(const Field& f, size_t i, float* out) {
  constexpr size_t kOut = slope ? 2 : 1;
  for (size_t o = 0; o < kOut; ++o) out[kOut * i + o] = 0.0f;
  if (f.cell[i] < 0) return;
  const size_t first = f.start[f.cell[i]], last = f.start[f.cell[i] + 1];
  const F32x16 px = F32x16::set1(f.px[i]), py = F32x16::set1(f.py[i]);
  Sums<slope> sums;
  for (F32x16& sum : sums.value) sum = F32x16::zero();
  Lanes list;
  size_t listed = 0;
  bool some = false;
  for (size_t at = first; at < last; at += 16) {
    const size_t count = last - at < 16 ? last - at : 16;
    const uint32_t* item = f.items + at;
    const F32x16 dx = px - gather(f.kx, item, count, 0.0f), dy = py - gather(f.ky, item, count, 0.0f);
    const F32x16 square = dx * dx + dy * dy;
    uint32_t near = lane_bits(le(square, gather(f.reach, item, count, -1.0f)));
    if (near == 0) continue;
    float d2[16], away_x[16], away_y[16];
    store(d2, square);
    if constexpr (slope) {
      store(away_x, dx);
      store(away_y, dy);
    }
    some = true;
    for (; near != 0; near &= near - 1) {
      const int l = __builtin_ctz(near);
      const uint32_t k = item[l];
      list.d2[listed] = d2[l];
      list.inv[listed] = f.inv[k];
      list.weight[listed] = f.weight[k];
      if constexpr (slope) {
        list.dx[listed] = away_x[l];
        list.dy[listed] = away_y[l];
      }
      if (++listed == kListed) {
        add_listed(sums, list, kListed);
        listed = 0;
      }
    }
  }
  if (listed != 0) add_listed(sums, list, listed);
  if (!some) return;
  for (size_t o = 0; o < kOut; ++o) {
    const float sum = add_tree(sums.value[o]);
    out[kOut * i + o] = slope ? 0.0f - sum : sum;
  }
}

struct Work {
  const Field* field;
  float* out;
};

template <bool slope>
void run_block(void* context, size_t block) {
  FpGuard guard;
  const Work& work = *static_cast<Work*>(context);
  const size_t first = block * kPointsPerBlock;
  const size_t last = first + kPointsPerBlock < work.field->n ? first + kPointsPerBlock : work.field->n;
  for (size_t i = first; i < last; ++i) at_point<slope>(*work.field, i, work.out);
}

}  // namespace

void field_points(const Field& field, float* out) {
  Work work{&field, out};
  dw_parallel((field.n + kPointsPerBlock - 1) / kPointsPerBlock, run_block<false>, &work);
}
void field_gradient(const Field& field, float* out) {
  Work work{&field, out};
  dw_parallel((field.n + kPointsPerBlock - 1) / kPointsPerBlock, run_block<true>, &work);
}

void gaussian_terms(const float* sigma, float cutoff, size_t n, float* reach, float* inv) {
  FpGuard guard;
  for (size_t i = 0; i < n; ++i) {
    const float c = cutoff * sigma[i];
    reach[i] = c * c;
    inv[i] = 1.0f / (2.0f * (sigma[i] * sigma[i]));
  }
}

}  // namespace DW_ISA
