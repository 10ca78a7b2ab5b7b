"""A run of any length, written faster than it could be planned: a fleet whose decisions are the same at every tick.

Its agents and zones were "seen" and "served" far in the future, so nothing grows older; what differs from frame to
frame is the tick, the number, the digest of the frame before and the CRC. Every decision of it can be made again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

from blake3 import blake3

from coord import Scenario, plan
from coord.backend import crc32c
from coord.frames.inputs import KEY_EVERY, Inputs, encode
from coord.frames.kinds import FRAME, INPUTS, SCHEMA
from coord.simulation.setup import Setup
from coord.simulation.world import World
from coord.stl import scenario_event
from storage import Event, Ledger

SITE = 'version = 1\nname = "still"\n[agents]\nrandom = {agents}\n[zones]\nrandom = {zones}\n'
BATCH_EVENTS = 4096
FAR = 1 << 62


def write(path: Path, frames: int, agents: int = 2, zones: int = 3) -> None:
    """Write the ledger of a run of so many planned ticks into a new folder."""
    setup = Scenario.loads(SITE.format(agents=agents, zones=zones)).setup
    setup.agents["last_seen_tick"], setup.zones["last_served_tick"] = FAR, FAR
    setup = dataclasses.replace(setup, agent_draw=None, zone_draw=None)
    with Ledger.open(path, sync="os") as ledger:
        ledger.append(scenario_event(setup))
        batch: list[Event] = []
        for event in _events(setup, frames):
            batch.append(event)
            if len(batch) >= BATCH_EVENTS and event.kind == FRAME:
                ledger.append_many(batch)
                batch = []
        ledger.append_many(batch)


def _events(setup: Setup, frames: int) -> Iterator[Event]:
    now: Inputs = World(setup).inputs
    made = plan(now.agents, now.zones, now.obstacles, now.kernels, setup.config, now_tick=0)
    rows, frame = made.rows.tobytes(), made.frame(0).encode()
    key, delta = encode(now, 0, None)[0], encode(now, 0, now)[0]
    prev = bytes(16)
    for number in range(frames):
        counted = number.to_bytes(8, "little")
        template = delta if number % KEY_EVERY else key
        inputs = Event(
            producer=setup.producer, effect=template[:8] + counted + template[16:], kind=INPUTS,
            sequence=1 + 2 * number, schema=SCHEMA, tick=number,
        )  # fmt: skip
        yield inputs
        body = frame[:8] + counted + counted + frame[24:64] + prev + frame[80:124]
        whole = body + crc32c(body).to_bytes(4, "little")
        prev = blake3(whole).digest(16)
        yield Event(
            producer=setup.producer, effect=whole + rows, kind=FRAME, parents=(inputs.id,), sequence=2 + 2 * number,
            schema=SCHEMA, tick=number,
        )  # fmt: skip
