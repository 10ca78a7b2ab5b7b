"""Seeded faults: which agents are delayed, fail, fall silent or are lost at a tick.

Source: `docs/formats/coord-scenario.md`, section "Seeded faults". A draw is a function of the seed, the kind, the tick
and the agent's id: the faults of one agent never depend on another's existence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from coord.simulation.events import EventKind, FleetEvent
from coord.sites.scenario_schema import TABLES, fault_of
from tensor import random_ref
from tensor.random import Key, split

U32 = npt.NDArray[np.uint32]
STREAM = 2  # child of the seed's key; 0 and 1 draw the agents and zones
_KINDS = {
    "delay": EventKind.DELAY,
    "fault": EventKind.FAULT,
    "lost": EventKind.AGENT_LOST,
    "silent": EventKind.SILENT,
}


@dataclass(frozen=True)
class Chance:
    """How likely a kind is for one agent at one tick, and how many ticks it lasts: least to most, all alike."""

    probability: float
    ticks_min: int
    ticks_max: int


@dataclass(frozen=True)
class Faults:
    """The chances of a scenario; kinds without one never happen by chance."""

    chances: Mapping[str, Chance]  # "delay", "fault", "lost", "silent": those with a probability above 0

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> Faults | None:
        """From the `[faults]` table with all defaults; None where nothing ever happens."""
        chances = {
            name: Chance(float(table[name]), *table[f"{name}_ticks"]) for name in sorted(_KINDS) if table[name] > 0
        }
        return cls(chances) if chances else None

    def to_map(self) -> dict[str, Any]:
        """As it stands in the ledger's scenario."""
        return {
            name: {"probability": chance.probability, "ticks": [chance.ticks_min, chance.ticks_max]}
            for name, chance in self.chances.items()
        }

    @classmethod
    def from_map(cls, value: Mapping[str, Any]) -> Faults:
        """From the ledger's scenario. ValueError naming the key."""
        chances = {}
        for name in sorted(value):
            if name not in _KINDS:
                raise ValueError(f"faults: expected {' or '.join(_KINDS)}, got {name!r}")
            chance = value[name]
            if not isinstance(chance, dict) or set(chance) != {"probability", "ticks"}:
                raise ValueError(f"faults.{name}: expected a map of probability and ticks")
            for key, word in ((name, "probability"), (f"{name}_ticks", "ticks")):
                fault = fault_of(TABLES["faults"].key(key), chance[word])
                if fault is not None:
                    raise ValueError(f"faults.{name}.{word}: {fault}")
            if not isinstance(chance["probability"], float) or chance["probability"] == 0:
                raise ValueError(f"faults.{name}.probability: expected a float above 0")
            chances[name] = Chance(chance["probability"], *chance["ticks"])
        if not chances:
            raise ValueError("faults: expected at least one kind")
        return cls(chances)

    def drawn(self, key: Key, tick: int, ids: U32) -> list[FleetEvent]:
        """What is drawn for agents of these ids at a tick, by kind, then by id.

        Word 0 of the block decides: below floor(probability · 2^32) it happens. Word 1 is the length:
        least + floor(word · (most − least + 1) ÷ 2^32).
        """
        events: list[FleetEvent] = []
        for name, chance in self.chances.items():
            kind = _KINDS[name]
            words = blocks(key, ids, tick, kind)
            hit = np.flatnonzero(words[0] < np.uint64(int(chance.probability * 2**32)))
            lasts = (words[1][hit] * np.uint64(chance.ticks_max - chance.ticks_min + 1)) >> np.uint64(32)
            events += [
                FleetEvent(tick, kind, int(ids[row]), "faults", chance.ticks_min + int(more))
                for row, more in zip(hit, lasts, strict=True)
            ]
        return sorted(events)


def fault_key(seed: int) -> Key:
    """The key of all faults of a run."""
    return split(Key(seed), STREAM)


def blocks(key: Key, ids: U32, tick: int, kind: int) -> npt.NDArray[np.uint64]:
    """u64[4, n], words below 2^32: the Philox block at the counter (id, tick low, tick high, 16 + kind) of each id.

    >>> one = blocks(Key(7), np.array([3], np.uint32), 5, 2)
    >>> tuple(one[:, 0].tolist()) == random_ref.philox_block(7, (3, 5, 0, 18))
    True
    """
    low, shift = np.uint64(random_ref.LOW), np.uint64(32)
    a = ids.astype(np.uint64)
    b, c, d = (np.full_like(a, word) for word in (tick & random_ref.LOW, tick >> 32, 16 + kind))
    k0, k1 = key.seed & random_ref.LOW, key.seed >> 32
    for _ in range(random_ref.ROUNDS):
        p, q = np.uint64(random_ref.MULTIPLIERS[0]) * a, np.uint64(random_ref.MULTIPLIERS[1]) * c
        a, b, c, d = (q >> shift) ^ b ^ np.uint64(k0), q & low, (p >> shift) ^ d ^ np.uint64(k1), p & low
        k0, k1 = (k0 + random_ref.KEY_STEPS[0]) & random_ref.LOW, (k1 + random_ref.KEY_STEPS[1]) & random_ref.LOW
    return np.stack([a, b, c, d])
