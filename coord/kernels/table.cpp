#include "table.hpp"

#include "kernels.hpp"

namespace DW_ISA {
extern const droveway::CoordTable coord_table;
const droveway::CoordTable coord_table = {
    .field_points = field_points,
    .field_gradient = field_gradient,
    .field_by_cells = field_by_cells,
    .gradient_by_cells = gradient_by_cells,
    .field_workspace = field_workspace,
    .gaussian_terms = gaussian_terms,
    .blocked_points = blocked_points,
    .blocked_segments = blocked_segments,
    .ways_workspace = ways_workspace,
    .idle_norm = idle_norm,
    .zone_base = zone_base,
    .candidates = candidates,
    .list_scores = list_scores,
    .greedy = greedy,
    .swap = swap,
    .auction = auction,
    .auction_workspace = auction_workspace,
    .pair_values = pair_values,
    .leftover_status = leftover_status,
    .grid_components = grid_components,
    .plan_workspace = plan_workspace,
    .grid_paths = grid_paths,
    .straight_steps = straight_steps,
    .crowd_order = crowd_order,
    .neighbour_counts = neighbour_counts,
    .neighbour_lists = neighbour_lists,
    .closest_pair = closest_pair,
    .crowd_workspace = crowd_workspace,
    .waves_workspace = waves_workspace,
    .grid_waves = grid_waves,
    .pibt_workspace = pibt_workspace,
    .pibt_step = pibt_step,
    .guide_workspace = guide_workspace,
    .guide_paths = guide_paths,
    .frame_crc = frame_crc,
    .check_frames = check_frames,
};
}  // namespace DW_ISA
