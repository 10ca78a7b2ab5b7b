// Fields of Gaussian kernels at points; the twin is coord/field_ref.py.
#include "droveway/fpenv.hpp"
#include "droveway/math_f32.hpp"
#include "droveway/parallel.hpp"
#include "kernels.hpp"

namespace DW_ISA {
namespace {

constexpr size_t kPointsPerBlock = 256;
constexpr size_t kListed = 16;  // kernels in range are added sixteen at a time: item i of the list is lane i mod 16

struct Lanes {
  float d2[kListed], inv[kListed], weight[kListed];
};

F32x16 add_listed(F32x16 sum, const Lanes& list, size_t count) {
  const F32x16 d2 = F32x16::load_partial(list.d2, count, 0.0f), inv = F32x16::load_partial(list.inv, count, 0.0f);
  const F32x16 weight = F32x16::load_partial(list.weight, count, 0.0f);
  const F32x16 value = weight * exp(-(d2 * inv));
  return sum + value;  // lanes past count add +0
}

float field_at(const Field& f, size_t i) {
  if (f.cell[i] < 0) return 0.0f;
  const size_t first = f.start[f.cell[i]], last = f.start[f.cell[i] + 1];
  const F32x16 px = F32x16::set1(f.px[i]), py = F32x16::set1(f.py[i]);
  F32x16 sum = F32x16::zero();
  Lanes list;
  size_t listed = 0;
  bool some = false;
  for (size_t at = first; at < last; at += 16) {
    const size_t count = last - at < 16 ? last - at : 16;
    const uint32_t* item = f.items + at;
    F32x16 kx, ky, reach;
    if (item[count - 1] - item[0] == count - 1) {  // ascending, so these are neighbours
      kx = F32x16::load_partial(f.kx + item[0], count, 0.0f);
      ky = F32x16::load_partial(f.ky + item[0], count, 0.0f);
      reach = F32x16::load_partial(f.reach + item[0], count, -1.0f);
    } else {
      float room[3][16];
      for (size_t l = 0; l < count; ++l) {
        room[0][l] = f.kx[item[l]];
        room[1][l] = f.ky[item[l]];
        room[2][l] = f.reach[item[l]];
      }
      kx = F32x16::load_partial(room[0], count, 0.0f);
      ky = F32x16::load_partial(room[1], count, 0.0f);
      reach = F32x16::load_partial(room[2], count, -1.0f);
    }
    const F32x16 dx = px - kx, dy = py - ky;
    const F32x16 square = dx * dx + dy * dy;
    uint32_t near = lane_bits(le(square, reach));
    float d2[16];
    store(d2, square);
    some |= near != 0;
    while (near != 0) {
      const int l = __builtin_ctz(near);
      near &= near - 1;
      const uint32_t k = item[l];
      list.d2[listed] = d2[l];
      list.inv[listed] = f.inv[k];
      list.weight[listed] = f.weight[k];
      if (++listed == kListed) {
        sum = add_listed(sum, list, kListed);
        listed = 0;
      }
    }
  }
  if (listed != 0) sum = add_listed(sum, list, listed);
  return some ? add_tree(sum) : 0.0f;
}

struct Work {
  const Field* field;
  float* out;
};

void run_block(void* context, size_t block) {
  FpGuard guard;
  const Work& work = *static_cast<Work*>(context);
  const size_t first = block * kPointsPerBlock;
  const size_t last = first + kPointsPerBlock < work.field->n ? first + kPointsPerBlock : work.field->n;
  for (size_t i = first; i < last; ++i) work.out[i] = field_at(*work.field, i);
}

}  // namespace

void field_points(const Field& field, float* out) {
  Work work{&field, out};
  dw_parallel((field.n + kPointsPerBlock - 1) / kPointsPerBlock, run_block, &work);
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
