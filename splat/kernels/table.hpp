// Every kernel of splat, once per instruction set. A field is a pointer, its comment the contract; the Python twins in
// splat/*_ref.py define every bit.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "droveway/selftest.hpp"

namespace droveway {

// The arrays of a scene (splat/scene.py); coefficients = 1, 4, 9 or 16.
struct Splats {
  size_t n;
  const float *means, *log_scales, *quats, *opacities, *sh;
  size_t coefficients;
};

// What a camera and the settings say to the projection (splat/projection.py).
struct CameraView {
  float w[9], t[3];               // rows of the rotation, translation: world to camera
  float fx, fy, cx, cy;
  float centre[3];                // of the camera, in world axes
  float x_low, x_high, y_low, y_high;  // bounds of x/z and y/z in the Jacobian
  float near, blur, faintest;     // faintest = log2 alpha_min
  uint32_t width, height;
  uint32_t antialias;
  uint32_t tile_log2;
};

constexpr size_t kRecordFloats = 16;    // layout: splat/projection_ref.py
constexpr size_t kProjectBlock = 1024;  // splats a block of work; its visible ones lie together at its beginning

// What became of each splat, and how many pairs of splat and tile there are.
struct Tally {
  uint64_t visible, near, not_finite, degenerate, faint, outside, pairs;
};

// Splats in order of depth, to be sorted into tiles (splat/tiles.py).
struct Binning {
  size_t m;
  const uint32_t *order, *slot, *box;  // [m] indices into slot and box; the places of records; pairs of words
  uint32_t* room;                      // [3m] for the kernel's own use
  uint32_t tile_log2, tiles_x, tiles_y;
  size_t blocks;                       // of work; each has a row of tiles_x·tiles_y words in the table
};

// Records and their lists, to be blended (splat/blend.py). Outputs that are null are left out.
struct Picture {
  const float* records;
  const uint32_t *start, *items;
  uint32_t tile_log2, tiles_x, tiles_y, width, height;
  float faintest, alpha_max, t_min;
  float background[3];
  uint8_t* rgba;
  float* transmittance;
  uint32_t* last;
  float* depth;
};

struct SplatTable {
  // records [n, 16] with gaps; slot [n], z [n] and box [n, 2] begin with the places, depths and boxes of the visible
  // ones; tallies: one a block of kProjectBlock splats
  Tally (*project)(const Splats& splats, const CameraView& view, float* records, uint32_t* box, uint32_t* slot, float* z,
                   Tally* tallies);
  // items[start[t] … start[t + 1] − 1] = the slots of tile t's splats, in order of depth; table [blocks, tiles] is room.
  // False, and no item is written, where there are not as many pairs as said.
  bool (*bin)(const Binning& binning, uint32_t* table, uint32_t* start, uint32_t* items, uint64_t pairs);
  void (*blend)(const Picture& picture);
};

void splat_self_test(const SplatTable& table, SelfTestEmit emit, void* context);

}  // namespace droveway

#if defined(__x86_64__)
namespace isa_v3 { extern const droveway::SplatTable splat_table; }
namespace isa_v4 { extern const droveway::SplatTable splat_table; }
#else
namespace isa_neon { extern const droveway::SplatTable splat_table; }
#endif
