#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <vector>

#include "droveway/area.hpp"
#include "droveway/python_call.hpp"
#include "table.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using droveway::call_kernel;
using droveway::require_aligned;
using droveway::SplatTable;
using droveway::kProjectBlock;
using droveway::kRecordFloats;

namespace {

droveway::Area<SplatTable> area("splat", DW_TABLES(splat_table), droveway::splat_self_test);

const SplatTable& kernels() { return area.kernels(); }

template <class T> using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T> using Out = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void require(bool condition, const char* sentence) {
  if (!condition) throw nb::value_error(sentence);
}

template <class T> using In2 = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T> using Out2 = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T> using In3 = nb::ndarray<const T, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
template <class T> using Out3 = nb::ndarray<T, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

template <class... A>
void require_all_aligned(const char* function, const A&... arrays) {
  (require_aligned(arrays, function), ...);
}

constexpr uint32_t kSizeMax = 16384, kTileLog2Min = 4, kTileLog2Max = 10;
void require_size(uint32_t width, uint32_t height, uint32_t tile_log2) {
  require(width >= 1 && height >= 1 && width <= kSizeMax && height <= kSizeMax, "width and height must be 1 to 16384");
  require(tile_log2 >= kTileLog2Min && tile_log2 <= kTileLog2Max, "tile_log2 must be 4 to 10");
}
uint32_t tiles_along(uint32_t size, uint32_t tile_log2) { return ((size - 1) >> tile_log2) + 1; }

// view: rotation 9, translation 3, fx fy cx cy, centre 3, x_low x_high y_low y_high, near, blur, faintest
nb::tuple project(In2<float> means, In2<float> log_scales, In2<float> quats, In<float> opacities, In3<float> sh,
                  In<float> view, uint32_t width, uint32_t height, bool antialias, uint32_t tile_log2,
                  Out2<float> records, Out2<uint32_t> box, Out<uint32_t> slot, Out<float> z) {
  const SplatTable& t = kernels();
  require_all_aligned("project", means, log_scales, quats, opacities, sh, view, records, box, slot, z);
  const size_t n = means.shape(0);
  require(n < 0xFFFFFFFFu && means.shape(1) == 3 && log_scales.shape(0) == n && log_scales.shape(1) == 3 &&
              quats.shape(0) == n && quats.shape(1) == 4 && opacities.size() == n && sh.shape(0) == n && sh.shape(2) == 3,
          "project: the arrays of a scene must be [n, 3], [n, 3], [n, 4], [n] and [n, k, 3]");
  const size_t k = sh.shape(1);
  require(k == 1 || k == 4 || k == 9 || k == 16, "project: sh must have 1, 4, 9 or 16 coefficients");
  require(records.shape(0) == n && records.shape(1) == kRecordFloats && box.shape(0) == n && box.shape(1) == 2 &&
              slot.size() == n && z.size() == n,
          "project: outputs must be [n, 16], [n, 2], [n] and [n]");
  require(view.size() == 26, "project: view must have 26 numbers");
  require_size(width, height, tile_log2);
  droveway::CameraView v;
  const float* from = view.data();
  auto take = [&](float* to, size_t count) {
    for (size_t i = 0; i < count; ++i) to[i] = *from++;
  };
  take(v.w, 9);
  take(v.t, 3);
  for (float* one : {&v.fx, &v.fy, &v.cx, &v.cy}) take(one, 1);
  take(v.centre, 3);
  for (float* one : {&v.x_low, &v.x_high, &v.y_low, &v.y_high, &v.near, &v.blur, &v.faintest}) take(one, 1);
  v.width = width;
  v.height = height;
  v.antialias = antialias;
  v.tile_log2 = tile_log2;
  const droveway::Splats splats{n, means.data(), log_scales.data(), quats.data(), opacities.data(), sh.data(), k};
  std::vector<droveway::Tally> tallies((n + kProjectBlock - 1) / kProjectBlock);
  droveway::Tally sum{};
  call_kernel([&] { sum = t.project(splats, v, records.data(), box.data(), slot.data(), z.data(), tallies.data()); });
  return nb::make_tuple(sum.visible, sum.near, sum.not_finite, sum.degenerate, sum.faint, sum.outside, sum.pairs);
}

// `table` is room for counts, a row of tiles for each block of work, `room` for three words a splat; what they hold on
// entry and exit does not matter.
void bin(In<uint32_t> order, In<uint32_t> slot, In2<uint32_t> box, uint32_t width, uint32_t height, uint32_t tile_log2,
         Out2<uint32_t> table, Out<uint32_t> room, Out<uint32_t> start, Out<uint32_t> items) {
  const SplatTable& t = kernels();
  require_all_aligned("bin", order, slot, box, table, room, start, items);
  require_size(width, height, tile_log2);
  const uint32_t x = tiles_along(width, tile_log2), y = tiles_along(height, tile_log2);
  const size_t m = order.size();
  require(slot.size() == m && box.shape(0) == m && box.shape(1) == 2 && room.size() == 3 * m,
          "bin: order and slot must be [m], box [m, 2], room [3m]");
  require(table.shape(0) >= 1 && table.shape(1) == size_t(x) * y, "bin: table must be [blocks, tiles]");
  require(start.size() == table.shape(1) + 1, "bin: start must be [tiles + 1]");
  const droveway::Binning b{m, order.data(), slot.data(), box.data(), room.data(), tile_log2, x, y, table.shape(0)};
  bool good = true;
  for (size_t i = 0; i < m; ++i) good &= b.order[i] < m;
  require(good, "bin: order must hold indices");
  for (size_t i = 0; i < m; ++i) {
    const uint32_t bx = b.box[2 * i], by = b.box[2 * i + 1];
    good &= (bx & 0xFFFFu) < (bx >> 16) && (bx >> 16) <= width && (by & 0xFFFFu) < (by >> 16) && (by >> 16) <= height;
  }
  require(good, "bin: boxes must lie in the picture");
  call_kernel([&] { good = t.bin(b, table.data(), start.data(), items.data(), items.size()); });
  require(good, "bin: items must have one place for each pair of splat and tile");
}

template <class T>
T* pixels(const std::optional<Out2<T>>& image, uint32_t width, uint32_t height) {
  if (!image) return nullptr;
  require_aligned(*image, "blend");
  require(image->shape(0) == height && image->shape(1) == width, "blend: images must be [height, width]");
  return image->data();
}

// rules: faintest, alpha_max, t_min, background 3
void blend(In2<float> records, In<uint32_t> start, In<uint32_t> items, uint32_t tile_log2, In<float> rules,
           Out3<uint8_t> rgba, std::optional<Out2<float>> transmittance, std::optional<Out2<uint32_t>> last,
           std::optional<Out2<float>> depth) {
  const SplatTable& t = kernels();
  require_all_aligned("blend", records, start, items, rules, rgba);
  const size_t tall = rgba.shape(0), wide = rgba.shape(1);
  require(tall >= 1 && wide >= 1 && tall <= kSizeMax && wide <= kSizeMax && rgba.shape(2) == 4,
          "blend: rgba must be [height, width, 4] of 1 to 16384 pixels");
  const uint32_t width = uint32_t(wide), height = uint32_t(tall);
  require_size(width, height, tile_log2);
  const uint32_t x = tiles_along(width, tile_log2), y = tiles_along(height, tile_log2);
  require(records.shape(1) == kRecordFloats && rules.size() == 6, "blend: records must be [n, 16], rules 6 numbers");
  require(start.size() == size_t(x) * y + 1 && start.data()[0] == 0, "blend: start must be [tiles + 1], from 0");
  for (size_t i = 0; i + 1 < start.size(); ++i) require(start.data()[i] <= start.data()[i + 1], "blend: start must ascend");
  require(start.data()[start.size() - 1] == items.size(), "blend: start must end with the number of items");
  for (size_t i = 0; i < items.size(); ++i) require(items.data()[i] < records.shape(0), "blend: items must be records");
  const float* r = rules.data();
  const droveway::Picture picture{records.data(), start.data(), items.data(), tile_log2, x, y, width, height, r[0], r[1],
                                  r[2], {r[3], r[4], r[5]}, rgba.data(), pixels(transmittance, width, height),
                                  pixels(last, width, height), pixels(depth, width, height)};
  call_kernel([&] { t.blend(picture); });
}

}  // namespace

NB_MODULE(_kernels, m) {
  area.bind(m);
  m.def("compiler", [] { return DW_COMPILER; }, "The compiler that built the kernels.");
  m.def("project", project, "means"_a.noconvert(), "log_scales"_a.noconvert(), "quats"_a.noconvert(),
        "opacities"_a.noconvert(), "sh"_a.noconvert(), "view"_a.noconvert(), "width"_a, "height"_a, "antialias"_a,
        "tile_log2"_a, "records"_a.noconvert(), "box"_a.noconvert(), "slot"_a.noconvert(), "z"_a.noconvert(),
        "Splats to records. Returns how many are visible, near, not finite, degenerate, faint, outside, and the pairs.");
  m.def("bin", bin, "order"_a.noconvert(), "slot"_a.noconvert(), "box"_a.noconvert(), "width"_a, "height"_a,
        "tile_log2"_a, "table"_a.noconvert(), "room"_a.noconvert(), "start"_a.noconvert(), "items"_a.noconvert(),
        "The list of each tile: its slots in order of depth.");
  m.def("blend", blend, "records"_a.noconvert(), "start"_a.noconvert(), "items"_a.noconvert(), "tile_log2"_a,
        "rules"_a.noconvert(), "rgba"_a.noconvert(), "transmittance"_a.noconvert() = nb::none(),
        "last"_a.noconvert() = nb::none(), "depth"_a.noconvert() = nb::none(), "Lists of records to pixels.");
}
