// Declarations of the kernels of one instruction set, for table.cpp; contracts are in table.hpp.
#pragma once
#include "table.hpp"

namespace DW_ISA {
using droveway::AuctionOutcome;
using droveway::AuctionSettings;
using droveway::Field;
using droveway::FieldSum;
using droveway::Points;
using droveway::Problem;
using droveway::Shapes;
using droveway::Walk;
using droveway::Ways;

uint32_t frame_crc(const uint8_t* data, size_t size);
size_t check_frames(const uint8_t* data, const uint64_t* offsets, size_t n, bool chained, bool known, uint64_t number,
                    uint8_t* prev, uint32_t* fault);
void field_points(const Field& field, float* out);
void field_gradient(const Field& field, float* out);
void field_by_cells(const FieldSum& field, float* out, void* workspace);
void gradient_by_cells(const FieldSum& field, float* out, void* workspace);
size_t field_workspace(size_t n, size_t m);
void gaussian_terms(const float* sigma, float cutoff, size_t n, float* reach, float* inv);
void blocked_points(const float* x, const float* y, size_t n, const Shapes& shapes, uint8_t* out);
size_t ways_workspace(size_t shapes);
void blocked_segments(const float* ax, const float* ay, const float* bx, const float* by, size_t n,
                      const Shapes& shapes, void* workspace, uint8_t* out);
bool point_blocked(float px, float py, const Shapes& shapes);
bool segment_blocked(float ax, float ay, float bx, float by, const Shapes& shapes);
struct Rect {
  float x0, y0, x1, y1;
};
// The bounding box of an obstacle, widened by its reach.
Rect shape_bounds(const Shapes& shapes, size_t o);
// Whether an obstacle blocks the segment a–b, whose box is known to meet the obstacle's; and whether it provably blocks
// all segments between two boxes.
bool shape_within_reach(float ax, float ay, float bx, float by, const Shapes& shapes, size_t o);
bool shape_blocks_all(const Rect& a, const Rect& b, const Shapes& shapes, size_t o);
void idle_norm(const uint64_t* idle, size_t n, uint32_t cap, float* out);
void zone_base(const float* priority, const float* idle, const float* cover, const float* avoid, const float* weights,
               size_t n, float* out);
void candidates(const Problem& problem, size_t k, int32_t* zone, int32_t* score, uint32_t* count, void* workspace);
void list_scores(const Problem& problem, size_t k, const int32_t* zone, const uint32_t* count, int32_t* score);
void greedy(const Problem& problem, size_t k, const int32_t* zone, const uint32_t* count, int32_t* assigned,
            void* workspace);
uint64_t swap(const Problem& problem, size_t k, const int32_t* zone, const int32_t* score, const uint32_t* count,
              uint32_t sweeps, uint64_t budget, int32_t* assigned, uint32_t* bound, void* workspace);
AuctionOutcome auction(const Problem& problem, const AuctionSettings& settings, int32_t* assigned, void* workspace);
size_t auction_workspace(size_t n, size_t m, size_t shapes);
void pair_values(const Problem& problem, const int32_t* assigned, int32_t* score, uint32_t* travel, uint8_t* saturated);
void leftover_status(const Problem& problem, const uint8_t* taken, uint8_t* status, void* workspace);
void grid_components(const uint8_t* blocked, size_t height, size_t width, uint32_t* label, uint32_t* queue);
size_t plan_workspace(size_t n, size_t m, size_t shapes);
size_t straight_steps(const Walk& walk, float* gone, int64_t* arrived);
void crowd_order(const float* x, const float* y, size_t n, uint32_t* order, void* workspace);
uint64_t neighbour_counts(const Points& points, float radius, uint64_t limit, uint32_t* count, void* workspace);
void neighbour_lists(const Points& points, float radius, const uint32_t* start, uint32_t* index, void* workspace);
float closest_pair(const Points& points, uint32_t* pair, void* workspace);
size_t crowd_workspace(size_t n);
void grid_paths(const Ways& ways, const int32_t* start, const int32_t* goal, size_t n, uint32_t generation,
                uint8_t* directions, int32_t* length);
size_t waves_workspace(int32_t cells, int32_t width);
void grid_waves(const uint64_t* free, int32_t cells, int32_t width, const int32_t* start, const int32_t* goal, size_t n,
                uint64_t* bits, int32_t* length, void* workspace);
size_t pibt_workspace(int32_t cells, size_t n);
bool pibt_step(const droveway::Lattice& lattice, const droveway::Distances& distances, const droveway::PibtStep& step,
               int32_t* to, int64_t* value, void* workspace);
size_t guide_workspace(int32_t cells);
bool guide_paths(const droveway::Lattice& lattice, const droveway::Distances& distances,
                 const droveway::GuideCosts& costs, const int32_t* from, const int32_t* goal, const int32_t* length,
                 const int32_t* order, size_t n, uint16_t* leaving, uint32_t slabs, int32_t* path, const int64_t* start,
                 void* workspace);
}  // namespace DW_ISA
