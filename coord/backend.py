"""The one place that decides between kernels and twins: DROVEWAY_ISA=ref runs the twins, else `_kernels` runs."""

from __future__ import annotations

from coord.field_ref import field_points, gaussian_terms
from coord.grid_ref import grid_components
from coord.obstacle_ref import blocked_points, blocked_segments
from coord.plan_ref import candidates, greedy, idle_norm, leftover_status, pair_values, swap, zone_base

__all__ = [
    "blocked_points",
    "blocked_segments",
    "candidates",
    "field_points",
    "gaussian_terms",
    "greedy",
    "grid_components",
    "idle_norm",
    "leftover_status",
    "pair_values",
    "swap",
    "zone_base",
]
