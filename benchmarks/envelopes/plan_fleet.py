"""Plan 100,000 agents on 100,000 zones: `python plan_fleet.py`."""

import math

import numpy as np

from coord import AGENT_DTYPE, ZONE_DTYPE, PlanConfig, plan
from coord.frames.frame import rows_digest
from tensor.random import Key

COUNT = 100_000
SIDE_M = 10 * math.sqrt(COUNT)  # 10,000 agents on a square kilometre

agents, zones = np.zeros(COUNT, AGENT_DTYPE), np.zeros(COUNT, ZONE_DTYPE)
for table, key in zip((agents, zones), Key(1).split(2), strict=True):
    table["id"] = np.arange(COUNT)
    for axis, draws in zip("xy", key.split(2), strict=True):
        table[axis] = np.asarray(draws.uniform(COUNT)) * np.float32(SIDE_M)
agents["speed"], agents["energy"], agents["memory_ticks"], agents["zone"] = 4.5, 0.9, 50, 0xFFFFFFFF

made = plan(agents, zones, [], [], PlanConfig(), now_tick=0)
digest = rows_digest(made.rows).hex()[:16]
print(f"{made.stats.assigned:,} agents have a zone, score {made.stats.score_sum:,}, rows {digest}")
