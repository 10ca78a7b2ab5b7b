// The last step of a picture: colours from 0 to 1 become bytes. Twin: splat/bytes_ref.py.
#include "droveway/fpenv.hpp"
#include "droveway/lanes.hpp"
#include "droveway/parallel.hpp"
#include "kernels.hpp"

namespace DW_ISA {
namespace {

constexpr size_t kBlock = 65536;

struct Work {
  const float* x;
  size_t n;
  uint8_t* out;
};

void convert(void* context, size_t block) {
  const Work& w = *static_cast<const Work*>(context);
  const size_t begin = block * kBlock, end = begin + kBlock < w.n ? begin + kBlock : w.n;
  const F32x16 one = F32x16::set1(1.0f), scale = F32x16::set1(255.0f), half = F32x16::set1(0.5f);
  for (size_t i = begin; i < end; i += kLanes) {
    const size_t left = end - i < size_t(kLanes) ? end - i : size_t(kLanes);
    const F32x16 x = F32x16::load_partial(w.x + i, left, 0.0f);
    const F32x16 low = select(gt(x, F32x16::zero()), x, F32x16::zero());  // NaN is not above zero
    const F32x16 clamped = select(lt(low, one), low, one);
    uint32_t words[kLanes];
    store(words, to_i32(fma(scale, clamped, half)));
    for (size_t l = 0; l < left; ++l) w.out[i + l] = uint8_t(words[l]);
  }
}

}  // namespace

void to_bytes(const float* x, size_t n, uint8_t* out) {
  Work work{x, n, out};
  dw_parallel((n + kBlock - 1) / kBlock, convert, &work);
}

}  // namespace DW_ISA
