// Tiles of splats become pixels, front to back; the twin is splat/blend_ref.py.
//
// A region of 16 × 16 pixels is 16 blocks of 4 × 4, and a block's pixels are the 16 lanes of one vector. A splat is
// tried on all 16 blocks of a region at once, and each block gets a list of those that may reach one of its pixels.
// Nothing of that is visible in the picture: a splat left out has no pixel at or above alpha_min in that block.
#include "bounds.hpp"
#include "droveway/compress.hpp"
#include "droveway/fpenv.hpp"
#include "droveway/lanes.hpp"
#include "droveway/parallel.hpp"
#include "droveway/polynomial.hpp"
#include "kernels.hpp"

namespace DW_ISA {
namespace {

using F = F32x16;
constexpr uint32_t kSide = 16, kBlocks = 16;  // pixels along a region, blocks in it
constexpr size_t kChunk = 128;                // splats tried before their lists are blended: 8 KB of records
constexpr size_t kAhead = 64;                 // splats between a record's prefetch and its use
constexpr size_t kTilesPerBlock = 4;          // of work
constexpr size_t kCheck = 8;                  // splats between two looks whether a block is done
enum Field { kMeanX, kMeanY, kA, kB, kC, kLog, kRed, kGreen, kBlue, kDepth, kLimit, kSlope, kBoxX, kBoxY };

constexpr uint32_t kCounting[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

struct Pixels {
  float running[kBlocks][kLanes];  // transmittance, also past the last splat that counted
  float kept[kBlocks][kLanes];     // transmittance behind the last splat that counted
  float colour[3][kBlocks][kLanes];
};
struct State {
  uint32_t last[kBlocks][kLanes];
  float depth[kBlocks][kLanes];
};
struct Lists {
  uint32_t count[kBlocks];
  uint32_t item[kBlocks][kChunk + kLanes];  // compress writes past the end of what it adds
  uint32_t position[kBlocks][kChunk + kLanes];
};

// Which of the 16 blocks whose first pixel centres are (x0, y0) the splat may reach.
struct Blocks {
  F x0, y0;
};
DW_INLINE uint32_t reached(const float* r, const Blocks& blocks) {
  const F zero = F::zero(), last = F::set1(3.0f);
  const F a = F::set1(r[kA]), b = F::set1(r[kB]), c = F::set1(r[kC]);
  const F left = blocks.x0 - F::set1(r[kMeanX]), right = left + last;
  const F top = blocks.y0 - F::set1(r[kMeanY]), bottom = top + last;
  const F dx = clamp(zero, left, right), dy = clamp(zero, top, bottom);
  // on the nearer horizontal edge, with the best x
  const F cdy = c * dy;
  const F low = fma(b, left, cdy), high = fma(b, right, cdy);
  const F u = upper(low, zero) + lower(high, zero), v = a * dy;
  const F horizontal = fma(v, v, u * u);
  // on the nearer vertical edge, with the best y
  const F best = clamp(F::set1(r[kSlope]) * dx, top, bottom);
  const F u2 = fma(b, dx, c * best), v2 = a * best;
  const F vertical = fma(v2, v2, u2 * u2);
  const F limit = F::set1(r[kLimit]);
  return 0xFFFFu & ~lane_bits(gt(horizontal, limit) & gt(vertical, limit));
}

// Whether a splat's box meets the region.
DW_INLINE bool touches(const float* r, uint32_t left, uint32_t top) {
  const uint32_t x = bits1(r[kBoxX]), y = bits1(r[kBoxY]);
  return (x & 0xFFFFu) < left + kSide && (x >> 16) > left && (y & 0xFFFFu) < top + kSide && (y >> 16) > top;
}

struct Rules {
  F faintest, alpha_max, t_min, floor;
};

// Blends a list of splats onto one block. Returns false when no pixel of it can change any more.
template <bool kState>
bool blend_block(const Picture& picture, const Rules& rules, const uint32_t* item, const uint32_t* position, size_t count,
                 F x, F y, size_t block, Pixels& pixels, State* state) {
  const F one = F::set1(1.0f), magic = F::set1(12582912.0f), zero = F::zero();
  F running = F::load(pixels.running[block]), kept = F::load(pixels.kept[block]);
  F red = F::load(pixels.colour[0][block]), green = F::load(pixels.colour[1][block]);
  F blue = F::load(pixels.colour[2][block]);
  U32x16 last = U32x16::zero();
  F depth = zero;
  if constexpr (kState) {
    last = U32x16::load(state->last[block]);
    depth = F::load(state->depth[block]);
  }
  bool open = true;
  for (size_t i = 0; i < count && open; i += kCheck) {
    const size_t end = i + kCheck < count ? i + kCheck : count;
    for (size_t j = i; j < end; ++j) {
      const float* r = picture.records + size_t(item[j]) * kRecordFloats;
      const F dx = x - F::set1(r[kMeanX]), dy = y - F::set1(r[kMeanY]);
      const F v = F::set1(r[kA]) * dy;
      const F u = fma(F::set1(r[kB]), dx, F::set1(r[kC]) * dy);
      const F power = fma(-u, u, fma(-v, v, F::set1(r[kLog])));
      const M32x16 hit = ge(power, rules.faintest);
      // 2^power (docs/rendering.md has the error)
      const F rounded = power + magic;
      const F rest = power - (rounded - magic);
      const F two = horner(rest, 1.0f, 0x1.62e12ap-1f, 0x1.ec0382p-3f, 0x1.c9fd1ep-5f, 0x1.3a007ap-7f);
      const F alpha = lower(f32(bits(two) + (bits(rounded) << 23)), rules.alpha_max);
      const F weight = alpha * running;
      running = running * select(hit, one - alpha, one);
      const M32x16 counts = hit & ge(running, rules.t_min);
      const F w = select(counts, weight, zero);
      red = fma(w, F::set1(r[kRed]), red);
      green = fma(w, F::set1(r[kGreen]), green);
      blue = fma(w, F::set1(r[kBlue]), blue);
      if constexpr (kState) {
        last = select(counts, U32x16::set1(position[j]), last);
        const M32x16 half = counts & lt(running, F::set1(0.5f)) & ge(kept, F::set1(0.5f));
        depth = select(half, F::set1(r[kDepth]), depth);
      }
      kept = select(counts, running, kept);
    }
    open = any(ge(running, rules.t_min));
    running = upper(running, rules.floor);  // below t_min one value is as good as another; subnormals would be slow
  }
  store(pixels.running[block], running);
  store(pixels.kept[block], kept);
  store(pixels.colour[0][block], red);
  store(pixels.colour[1][block], green);
  store(pixels.colour[2][block], blue);
  if constexpr (kState) {
    store(state->last[block], last);
    store(state->depth[block], depth);
  }
  return open;
}

DW_INLINE U32x16 to_byte(F x) {  // floor(255·clamp(x, 0, 1) + 0.5)
  const F low = select(gt(x, F::zero()), x, F::zero());
  return to_i32(fma(F::set1(255.0f), select(lt(low, F::set1(1.0f)), low, F::set1(1.0f)), F::set1(0.5f)));
}

// One value of each pixel of a block goes to its place in an image.
template <class T>
void put(T* image, const Picture& picture, uint32_t x, uint32_t y, const T* values) {
  const size_t wide = picture.width - x < 4 ? picture.width - x : 4;
  for (uint32_t i = 0; i < 4 && y + i < picture.height; ++i)
    memcpy(image + (size_t(y + i) * picture.width + x), values + 4 * i, wide * sizeof(T));
}

template <bool kState>
void write_block(const Picture& picture, uint32_t x, uint32_t y, size_t block, const Pixels& pixels, const State* state) {
  const F kept = F::load(pixels.kept[block]);
  uint32_t words[kLanes];
  auto channel = [&](int ch) DW_LAMBDA {
    return to_byte(fma(kept, F::set1(picture.background[ch]), F::load(pixels.colour[ch][block])));
  };
  store(words, channel(0) | (channel(1) << 8) | (channel(2) << 16) | (to_byte(F::set1(1.0f) - kept) << 24));
  const size_t wide = picture.width - x < 4 ? picture.width - x : 4;
  for (uint32_t i = 0; i < 4 && y + i < picture.height; ++i)
    memcpy(picture.rgba + 4 * (size_t(y + i) * picture.width + x), words + 4 * i, 4 * wide);
  if constexpr (kState) {
    if (picture.transmittance != nullptr) put(picture.transmittance, picture, x, y, pixels.kept[block]);
    if (picture.last != nullptr) put(picture.last, picture, x, y, state->last[block]);
    if (picture.depth != nullptr) put(picture.depth, picture, x, y, state->depth[block]);
  }
}

struct Lane {
  float x[kLanes], y[kLanes];
};

// The centres of the pixels (i mod 4, i div 4)·step from (x, y).
Lane centres(uint32_t x, uint32_t y, uint32_t step) {
  Lane lane;
  for (uint32_t i = 0; i < 16; ++i) {
    lane.x[i] = float(x + (i & 3u) * step) + 0.5f;
    lane.y[i] = float(y + (i >> 2) * step) + 0.5f;
  }
  return lane;
}

// Items first … end − 1 of a tile, each into the lists of the blocks that it may reach. Sixteen at a time: their sets
// of blocks make a square of bits, and each block takes its column.
template <bool kState, bool kWhole>
DW_INLINE void list_chunk(const Picture& picture, const uint32_t* items, size_t first, size_t end, size_t count,
                          uint32_t left, uint32_t top, const Blocks& blocks, uint32_t open, Lists& lists) {
  for (uint32_t b = 0; b < kBlocks; ++b) lists.count[b] = 0;
  uint32_t reach[kLanes];
  for (size_t i = first; i < end; i += kLanes) {
    const size_t lanes = end - i < size_t(kLanes) ? end - i : size_t(kLanes);
    for (size_t l = 0; l < lanes; ++l) {
      if (i + l + kAhead < count) __builtin_prefetch(picture.records + size_t(items[i + l + kAhead]) * kRecordFloats);
      const float* r = picture.records + size_t(items[i + l]) * kRecordFloats;
      reach[l] = kWhole || touches(r, left, top) ? open & reached(r, blocks) : 0u;
    }
    for (size_t l = lanes; l < size_t(kLanes); ++l) reach[l] = 0;
    const U32x16 square = U32x16::load(reach), item = U32x16::load_partial(items + i, lanes, 0);
    const U32x16 position = U32x16::load(kCounting) + U32x16::set1(uint32_t(i) + 1);
    for (uint32_t b = 0; b < kBlocks; ++b) {
      const M32x16 mine = ne(square & U32x16::set1(1u << b), U32x16::zero());
      if constexpr (kState) compress(lists.position[b] + lists.count[b], position, mine);
      lists.count[b] += compress(lists.item[b] + lists.count[b], item, mine);
    }
  }
}

template <bool kState, bool kWhole>
void blend_region(const Picture& picture, uint32_t left, uint32_t top, const uint32_t* items, size_t count) {
  Pixels pixels;
  State state;
  Lists lists;
  Lane lane = centres(left, top, 4);
  const Blocks blocks{F::load(lane.x), F::load(lane.y)};
  const Rules rules{F::set1(picture.faintest), F::set1(picture.alpha_max), F::set1(picture.t_min),
                    F::set1(picture.t_min * (1.0f / 1024.0f))};
  lane = centres(0, 0, 1);
  const F local_x = F::load(lane.x), local_y = F::load(lane.y);
  F block_x[kBlocks], block_y[kBlocks];
  uint32_t present = 0;
  for (uint32_t b = 0; b < kBlocks; ++b) {
    const uint32_t x = left + 4 * (b & 3u), y = top + 4 * (b >> 2);
    if (x >= picture.width || y >= picture.height) continue;
    present |= 1u << b;
    block_x[b] = local_x + F::set1(float(x));  // exact
    block_y[b] = local_y + F::set1(float(y));
    const M32x16 inside = lt(block_x[b], F::set1(float(picture.width))) & lt(block_y[b], F::set1(float(picture.height)));
    store(pixels.running[b], select(inside, F::set1(1.0f), F::zero()));
    store(pixels.kept[b], F::set1(1.0f));
    for (int ch = 0; ch < 3; ++ch) store(pixels.colour[ch][b], F::zero());
    if constexpr (kState) {
      store(state.last[b], U32x16::zero());
      store(state.depth[b], F::set1(__builtin_inff()));
    }
  }
  uint32_t open = present;
  for (size_t i = 0; i < kAhead && i < count; ++i)
    __builtin_prefetch(picture.records + size_t(items[i]) * kRecordFloats);
  for (size_t first = 0; first < count && open != 0; first += kChunk) {
    const size_t end = first + kChunk < count ? first + kChunk : count;
    list_chunk<kState, kWhole>(picture, items, first, end, count, left, top, blocks, open, lists);
    for (uint32_t rest = open; rest != 0; rest &= rest - 1) {
      const uint32_t b = uint32_t(__builtin_ctz(rest));
      if (!blend_block<kState>(picture, rules, lists.item[b], lists.position[b], lists.count[b], block_x[b], block_y[b], b,
                               pixels, &state))
        open &= ~(1u << b);
    }
  }
  for (uint32_t rest = present; rest != 0; rest &= rest - 1) {
    const uint32_t b = uint32_t(__builtin_ctz(rest));
    write_block<kState>(picture, left + 4 * (b & 3u), top + 4 * (b >> 2), b, pixels, &state);
  }
}

// A tile without splats.
void clear_tile(const Picture& picture, uint32_t left, uint32_t top, uint32_t side) {
  const uint32_t right = left + side < picture.width ? left + side : picture.width;
  const uint32_t bottom = top + side < picture.height ? top + side : picture.height;
  uint32_t words[kLanes];
  auto channel = [&](int ch) DW_LAMBDA { return to_byte(F::set1(picture.background[ch])); };
  store(words, channel(0) | (channel(1) << 8) | (channel(2) << 16));
  for (uint32_t y = top; y < bottom; ++y) {
    const size_t row = size_t(y) * picture.width;
    for (uint32_t x = left; x < right; x += kLanes)
      memcpy(picture.rgba + 4 * (row + x), words, 4 * (right - x < uint32_t(kLanes) ? right - x : uint32_t(kLanes)));
    for (uint32_t x = left; x < right; ++x) {
      if (picture.transmittance != nullptr) picture.transmittance[row + x] = 1.0f;
      if (picture.last != nullptr) picture.last[row + x] = 0;
      if (picture.depth != nullptr) picture.depth[row + x] = __builtin_inff();
    }
  }
}

// kWhole: a tile is one region.
template <bool kState, bool kWhole>
void run_tile(const Picture& picture, size_t tile) {
  const uint32_t side = 1u << picture.tile_log2;
  const uint32_t x = uint32_t(tile % picture.tiles_x) * side, y = uint32_t(tile / picture.tiles_x) * side;
  const uint32_t* items = picture.items + picture.start[tile];
  const size_t count = picture.start[tile + 1] - picture.start[tile];
  if (count == 0) return clear_tile(picture, x, y, side);
  for (uint32_t top = y; top < y + side && top < picture.height; top += kSide)
    for (uint32_t left = x; left < x + side && left < picture.width; left += kSide)
      blend_region<kState, kWhole>(picture, left, top, items, count);
}

template <bool kState, bool kWhole>
void run_block(void* context, size_t block) {
  FpGuard guard;
  const Picture& picture = *static_cast<const Picture*>(context);
  const size_t tiles = size_t(picture.tiles_x) * picture.tiles_y, first = block * kTilesPerBlock;
  for (size_t tile = first; tile < first + kTilesPerBlock && tile < tiles; ++tile)
    run_tile<kState, kWhole>(picture, tile);
}

}  // namespace

void blend(const Picture& picture) {
  Picture copy = picture;
  const size_t tiles = size_t(picture.tiles_x) * picture.tiles_y;
  const bool state = picture.transmittance != nullptr || picture.last != nullptr || picture.depth != nullptr;
  const bool whole = picture.tile_log2 == 4;
  dw_block_fn run = whole ? run_block<false, true> : run_block<false, false>;
  if (state) run = whole ? run_block<true, true> : run_block<true, false>;
  dw_parallel((tiles + kTilesPerBlock - 1) / kTilesPerBlock, run, &copy);
}

}  // namespace DW_ISA
