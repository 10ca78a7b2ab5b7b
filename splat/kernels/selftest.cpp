// One digest a kernel over fixed inputs; the twin is splat/selftest_ref.py.
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "droveway/selftest_memory.hpp"
#include "table.hpp"

namespace droveway {
namespace {

// A scene whose numbers come from one word each, some of them replaced by numbers that no scene should hold. All of this
// is exact, so that the host's rounding has no part in it.
struct Scene {
  std::vector<float> means, log_scales, quats, opacities, sh;
};
Scene make_scene(uint32_t round, size_t n, size_t coefficients) {
  SplitMix64 source{0x73706C6174ull + round};
  auto fill = [&](size_t count, float low, float size) {
    std::vector<float> out(count);
    for (float& v : out) v = low + float(source.next() >> 40) * (size / 16777216.0f);
    return out;
  };
  Scene s{fill(3 * n, -2.0f, 4.0f), fill(3 * n, -8.0f, 8.0f), fill(4 * n, -1.0f, 2.0f), fill(n, 0.0f, 1.0f),
          fill(3 * n * coefficients, -1.0f, 2.0f)};
  for (size_t i = 0; i < n / 16; ++i) {
    const uint64_t word = source.next();
    std::vector<float>* arrays[5] = {&s.means, &s.log_scales, &s.quats, &s.opacities, &s.sh};
    std::vector<float>& array = *arrays[word & 3u];
    array[(word >> 8) % array.size()] = awkward_f32(source.next());
  }
  return s;
}

// Whole pictures: projection, a sort by depth, tiles of two sizes, pixels with and without their state.
void pictures(const SplatTable& table, SelfTestEmit emit, void* context) {
  constexpr size_t n = 1500;
  constexpr uint32_t width = 61, height = 45;
  static const size_t coefficients[3] = {16, 4, 9};
  Digest projected, lists, colours, states;
  for (uint32_t round = 0; round < 3; ++round) {
    const Scene s = make_scene(round, n, coefficients[round]);
    const Splats splats{n, s.means.data(), s.log_scales.data(), s.quats.data(), s.opacities.data(), s.sh.data(),
                        coefficients[round]};
    const float back = round == 1 ? 1.0f : 2.0f;  // in round 1 the camera stands among the splats
    CameraView view{{0.6f, 0.0f, 0.8f, 0.0f, 1.0f, 0.0f, -0.8f, 0.0f, 0.6f}, {0.25f, -0.125f, back}, 50.0f, 55.0f, 30.5f, 22.5f,
              {0.8f * back, 0.125f, -0.6f * back}, -0.8f, 0.8f, -0.6f, 0.6f, 0.2f, round == 2 ? 0.0f : 0.3f, -7.9943533f,
              width, height, uint32_t(round == 0), 4};
    const AlignedMemory memory(n * kRecordFloats * sizeof(float));
    float* records = static_cast<float*>(memory.p);
    std::vector<uint32_t> box(2 * n), slot(n);
    std::vector<float> z(n), kept, background = {0.25f, 0.5f, 0.75f};
    std::vector<Tally> tallies((n + kProjectBlock - 1) / kProjectBlock);
    const Tally tally = table.project(splats, view, records, box.data(), slot.data(), z.data(), tallies.data());
    const size_t m = tally.visible;
    for (size_t i = 0; i < m; ++i)
      kept.insert(kept.end(), records + slot[i] * kRecordFloats, records + (slot[i] + 1) * kRecordFloats);
    projected.add(kept);
    projected.add(std::vector<uint64_t>{tally.visible, tally.near, tally.not_finite, tally.degenerate, tally.faint,
                                        tally.outside, tally.pairs});
    std::vector<uint32_t> order(m);
    for (size_t i = 0; i < m; ++i) order[i] = uint32_t(i);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return z[a] < z[b]; });
    for (uint32_t tile_log2 = 4; tile_log2 < 6; ++tile_log2) {
      view.tile_log2 = tile_log2;
      const uint64_t pairs =
          table.project(splats, view, records, box.data(), slot.data(), z.data(), tallies.data()).pairs;
      const uint32_t x = ((width - 1) >> tile_log2) + 1, y = ((height - 1) >> tile_log2) + 1;
      std::vector<uint32_t> start(size_t(x) * y + 1), counts(3 * size_t(x) * y), items(pairs), who(pairs), room(3 * m);
      const Binning binning{m, order.data(), slot.data(), box.data(), room.data(), tile_log2, x, y, 3};
      if (!table.bin(binning, counts.data(), start.data(), items.data(), pairs)) std::abort();
      for (size_t i = 0; i < pairs; ++i) memcpy(&who[i], records + items[i] * kRecordFloats + 14, sizeof who[i]);
      lists.add(start);
      lists.add(who);
      std::vector<uint8_t> rgba(4 * width * height), again(4 * width * height);
      std::vector<float> transmittance(width * height), depth(width * height);
      std::vector<uint32_t> last(width * height);
      Picture picture{records, start.data(), items.data(), tile_log2, x, y, width, height, view.faintest, 0.99f, 1e-4f,
                      {background[0], background[1], background[2]}, rgba.data(), nullptr, nullptr, nullptr};
      table.blend(picture);
      picture.rgba = again.data();
      picture.transmittance = transmittance.data();
      picture.last = last.data();
      picture.depth = depth.data();
      table.blend(picture);
      colours.add(rgba);
      colours.add(again);
      states.add(transmittance);
      states.add(last);
      states.add(depth);
    }
  }
  emit(context, "splat.project", projected.hash);
  emit(context, "splat.bin", lists.hash);
  emit(context, "splat.blend", colours.hash);
  emit(context, "splat.blend_state", states.hash);
}

}  // namespace

void splat_self_test(const SplatTable& table, SelfTestEmit emit, void* context) {
  pictures(table, emit, context);
}

}  // namespace droveway
