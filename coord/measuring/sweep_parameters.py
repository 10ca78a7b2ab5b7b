"""The cases of a sweep: what a site may be varied in, checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from blake3 import blake3

from coord.errors import ParameterError, ScenarioError
from coord.measuring.sweep_case import Case, Value, canonical, shown_value
from coord.sites.scenario import Scenario
from coord.sites.scenario_schema import TABLES, U64_MAX, Key, fault_of, nearest

CASES_MAX = 1_000_000
_NOT_SWEPT = ("version", "name", "seed")


def cases_of(site: Scenario, seeds: Sequence[int], grid: Mapping[str, Sequence[Value]]) -> list[Case]:
    """Every case, by parameters and then by seed, once all of them are known to be good. Raises ParameterError."""
    if not seeds:
        raise ParameterError("seeds", None, "expected at least one seed, got none")
    for seed in seeds:
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= U64_MAX:
            raise ParameterError("seeds", seed, f"expected whole numbers from 0 to 2^64 - 1, got {seed!r}")
    if len(set(seeds)) < len(seeds):
        raise ParameterError("seeds", None, "expected different seeds, got one twice")
    for key, values in grid.items():
        _check_parameter(key, values)
    sets = [dict(zip(grid, chosen, strict=True)) for chosen in product(*grid.values())]
    if len(sets) * len(seeds) > CASES_MAX:
        raise ParameterError("seeds", None, f"expected at most {CASES_MAX} cases, got {len(sets) * len(seeds)}")
    for chosen in sets:
        try:
            site.with_changes(values=chosen, seed=seeds[0])
        except ScenarioError as error:
            shown = ", ".join(f"{key}={shown_value(value)}" for key, value in chosen.items())
            raise ParameterError(shown or site.file, None, f"{error.where}: {error.detail}") from error
    return [Case(chosen, seed, f"{n:03d}-seed-{seed}") for n, chosen in enumerate(sets) for seed in seeds]


def _check_parameter(key: str, values: Sequence[Value]) -> None:
    known = swept_keys()
    if key not in known:
        if key in _NOT_SWEPT:
            hint = " (give seeds)" if key == "seed" else ""
            raise ParameterError(key, None, f"is no parameter of a sweep{hint}")
        name = key.partition(".")[0]
        if name in TABLES and TABLES[name].rows:
            raise ParameterError(key, None, f"a sweep sets keys of tables that stand once, [[{name}]] may stand often")
        raise ParameterError(key, None, f"unknown key (nearest: {nearest(key, tuple(known))})")
    if not values:
        raise ParameterError(key, None, "expected at least one value, got none")
    seen: list[bytes] = []
    for value in values:
        fault = fault_of(known[key], value)
        if fault is not None:
            raise ParameterError(key, value, fault)
        if canonical(value) in seen:
            raise ParameterError(key, value, f"expected different values, got {shown_value(value)} twice")
        seen.append(canonical(value))


def swept_keys() -> dict[str, Key]:
    """The keys that a sweep can vary, by dotted name: those of all tables that stand in a site once."""
    return {
        f"{table.name}.{key.name}" if table.name else key.name: key
        for table in TABLES.values()
        if not table.rows
        for key in table.keys
        if table.name or key.name not in _NOT_SWEPT
    }


def header_of(
    site: Scenario, seeds: Sequence[int], grid: Mapping[str, Sequence[Value]], ticks: int, gap_every: int
) -> bytes:
    """What a folder is of: results of another header are never taken."""
    from coord.stl import scenario_event

    header = {
        "version": 1,
        "name": site.setup.name,
        "site": blake3(scenario_event(site.setup).effect).hexdigest(),  # with all that its files hold
        "seeds": list(seeds),
        "parameters": [[key, list(values)] for key, values in grid.items()],
        "ticks": ticks,
        "gap_every": gap_every,
    }
    return canonical(header) + b"\n"
