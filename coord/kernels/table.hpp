// Every kernel of coord, once per instruction set. A field is a pointer, its comment the contract; the Python twins in
// coord/*_ref.py define every bit. Arrays are contiguous; an index -1 means none.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "droveway/selftest.hpp"
#include "lattice.hpp"

namespace droveway {

// Obstacles (coord/ground/obstacle.py).
struct Shapes {
  size_t count;
  const uint8_t* kind;  // 0 circle, 1 polygon, 2 box
  const float *x, *y, *half_x, *half_y, *reach;
  const uint32_t *first, *corner_count;
  const float* corners;  // pairs
};

// A planning problem (coord/planning/problem.py): agents and zones ascending by id, so indices order as ids do.
struct Problem {
  size_t n;
  const float *ax, *ay, *az, *speed, *energy;
  const uint32_t *caps, *acomponent;
  const int32_t* current;
  size_t m;
  const float *zx, *zy, *zz, *radius, *base, *cost;
  const uint32_t *need, *zcomponent;
  const uint8_t* blocked;
  float w_travel, w_switch;
  uint32_t max_travel;
  uint32_t grid;         // 1: components count
  const Shapes* shapes;  // not null: the way to a zone is tested
};

// An auction (coord/planning/auction_ref.py) and what came of it; worth and bound count score - idle.
struct AuctionSettings {
  size_t k;  // candidates in a list
  int64_t idle;
  uint64_t budget;
  bool endless;
};
struct AuctionOutcome {
  int64_t worth, bound;
  uint64_t bids;
  uint32_t bound_reached;
};

// Kernels of a field in cells (coord/fields/field.py).
struct Field {
  size_t n;
  const float *px, *py;
  const int32_t* cell;
  const uint32_t *start, *items;
  const float *kx, *ky, *reach, *inv, *weight;
};

// Kernels of a field and the points where it is wanted.
struct FieldSum {
  size_t n;
  const float *px, *py;
  size_t m;
  const float *kx, *ky, *reach, *inv, *weight;
};

// A grid with a blocked border of one cell, and the buffers of a search in it; each has one entry a cell.
struct Ways {
  int32_t width;   // border included
  int32_t horizon;  // directions kept of a path
  uint32_t* seen;  // 0xFFFFFFFF where blocked, else the generation of the last search that came here
  uint8_t* entered;
  int32_t* queue;
};

// Agents on straight ways (coord/moving/motion.py): field f of agent r at f[r · step[i]], i in the order of the fields here.
struct Walk {
  size_t n;
  const int64_t* rows;  // the agents that step, ascending; null: all
  float *x, *y, *z;
  const float *speed, *gx, *gy, *gz;
  ptrdiff_t step[7];  // in floats
};

// Points among which neighbours are looked for (coord/moving/neighbours.py).
struct Points {
  size_t n;
  const float *x, *y, *z;  // z null: all 0
  const uint32_t* order;   // points near each other stand near each other; any permutation gives the same results
};

struct CoordTable {
  // out[i] = field at point i
  void (*field_points)(const Field& field, float* out);
  // out[2 i], out[2 i + 1] = its derivatives by x and y there
  void (*field_gradient)(const Field& field, float* out);
  // the same values of all kernels, found by a grid of cells; workspace of field_workspace(n, m) bytes
  void (*field_by_cells)(const FieldSum& field, float* out, void* workspace);
  void (*gradient_by_cells)(const FieldSum& field, float* out, void* workspace);
  size_t (*field_workspace)(size_t n, size_t m);
  // c·c and 1 / (2·(sigma·sigma)) of n kernels
  void (*gaussian_terms)(const float* sigma, float cutoff, size_t n, float* reach, float* inv);
  // out[i] = 1 where point i lies within reach of an obstacle
  void (*blocked_points)(const float* x, const float* y, size_t n, const Shapes& shapes, uint8_t* out);
  // out[i] = 1 where the segment from a to b comes within reach of an obstacle; without a workspace each obstacle is
  // tested, which is cheaper for a few segments
  void (*blocked_segments)(const float* ax, const float* ay, const float* bx, const float* by, size_t n,
                           const Shapes& shapes, void* workspace, uint8_t* out);
  // bytes of the workspace above
  size_t (*ways_workspace)(size_t shapes);
  // min(idle, cap) / cap
  void (*idle_norm)(const uint64_t* idle, size_t n, uint32_t cap, float* out);
  // w0·priority + w1·idle + w2·cover - w3·avoid
  void (*zone_base)(const float* priority, const float* idle, const float* cover, const float* avoid,
                    const float* weights, size_t n, float* out);
  // the k ≤ 256 best zones of each agent, rows of k; workspace of plan_workspace(n, m, shapes) bytes
  void (*candidates)(const Problem& problem, size_t k, int32_t* zone, int32_t* score, uint32_t* count, void* workspace);
  // the score of each agent with each zone of its row of k
  void (*list_scores)(const Problem& problem, size_t k, const int32_t* zone, const uint32_t* count, int32_t* score);
  // greedy assignment; zone and count may hold candidates of k (they only save time), or zone is null
  void (*greedy)(const Problem& problem, size_t k, const int32_t* zone, const uint32_t* count, int32_t* assigned,
                 void* workspace);
  // improves `assigned` in place by at most that many sweeps; returns the tests made, *bound = 1 where a bound ended the search
  uint64_t (*swap)(const Problem& problem, size_t k, const int32_t* zone, const int32_t* score, const uint32_t* count,
                   uint32_t sweeps, uint64_t budget, int32_t* assigned, uint32_t* bound, void* workspace);
  // zone of each agent or -1; workspace of auction_workspace(n, m, shapes) bytes
  AuctionOutcome (*auction)(const Problem& problem, const AuctionSettings& settings, int32_t* assigned, void* workspace);
  size_t (*auction_workspace)(size_t n, size_t m, size_t shapes);
  // score, travel and whether the score saturated, of each agent with its zone
  void (*pair_values)(const Problem& problem, const int32_t* assigned, int32_t* score, uint32_t* travel,
                      uint8_t* saturated);
  // status of every agent of the problem, none of which has a zone; taken[z] = 1 where z was assigned
  void (*leftover_status)(const Problem& problem, const uint8_t* taken, uint8_t* status, void* workspace);
  // labels of the 4-connected free regions; queue has width·height entries
  void (*grid_components)(const uint8_t* blocked, size_t height, size_t width, uint32_t* label, uint32_t* queue);
  size_t (*plan_workspace)(size_t n, size_t m, size_t shapes);
  // shortest paths of n agents on a bordered grid, the first `horizon` directions of each (coord/moving/motion_ref.py)
  void (*grid_paths)(const Ways& ways, const int32_t* start, const int32_t* goal, size_t n, uint32_t generation,
                     uint8_t* directions, int32_t* length);
  // one step of each agent towards its goal; gone[i] metres; returns how many rows at their goal `arrived` begins with,
  // ascending (it has room for n; either may be null)
  size_t (*straight_steps)(const Walk& walk, float* gone, int64_t* arrived);
  // Morton order of points; workspaces of crowd_workspace(n) bytes
  void (*crowd_order)(const float* x, const float* y, size_t n, uint32_t* order, void* workspace);
  // neighbours of each point within a radius; returns their sum, or more than `limit` where it is more
  uint64_t (*neighbour_counts)(const Points& points, float radius, uint64_t limit, uint32_t* count, void* workspace);
  // the neighbours of point i, ascending, at index[start[i]] to index[start[i + 1] - 1]
  void (*neighbour_lists)(const Points& points, float radius, const uint32_t* start, uint32_t* index, void* workspace);
  // square distance of the closest pair of at least two points; of equal ones the lowest numbers
  float (*closest_pair)(const Points& points, uint32_t* pair, void* workspace);
  size_t (*crowd_workspace)(size_t n);
  // Conflict-free motion (coord/moving/pibt_ref.py). Distances of n goals, one bit a cell; length[i] from start[i], -1: no way
  size_t (*waves_workspace)(int32_t cells, int32_t width);
  void (*grid_waves)(const uint64_t* free, int32_t cells, int32_t width, const int32_t* start, const int32_t* goal,
                     size_t n, uint64_t* bits, int32_t* length, void* workspace);
  // one step: to[i] is -1 or settled beforehand; false where what was settled leaves somebody no cell
  size_t (*pibt_workspace)(int32_t cells, size_t n);
  bool (*pibt_step)(const Lattice& lattice, const Distances& distances, const PibtStep& step, int32_t* to,
                    int64_t* value, void* workspace);
  // shortest paths that avoid each other, planned one after the other; leaving holds slabs·cells zeros
  size_t (*guide_workspace)(int32_t cells);
  bool (*guide_paths)(const Lattice& lattice, const Distances& distances, const GuideCosts& costs, const int32_t* from,
                      const int32_t* goal, const int32_t* length, const int32_t* order, size_t n, uint16_t* leaving,
                      uint32_t slabs, int32_t* path, const int64_t* start, void* workspace);
  // CRC-32C (Castagnoli) of a decision frame
  uint32_t (*frame_crc)(const uint8_t* data, size_t size);
  // the first of n frames of 128 bytes, back to back or at offsets, that breaks a rule, or n; *fault names the rule.
  // chained: frame ids grow by 1 and each frame names the one before, the first `number` and `prev` where known; prev
  // becomes the digest of the last good frame
  size_t (*check_frames)(const uint8_t* data, const uint64_t* offsets, size_t n, bool chained, bool known,
                         uint64_t number, uint8_t* prev, uint32_t* fault);
};

void coord_self_test(const CoordTable& table, SelfTestEmit emit, void* context);

}  // namespace droveway

#if defined(__x86_64__)
namespace isa_v3 { extern const droveway::CoordTable coord_table; }
namespace isa_v4 { extern const droveway::CoordTable coord_table; }
#else
namespace isa_neon { extern const droveway::CoordTable coord_table; }
#endif
