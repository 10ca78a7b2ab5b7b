"""What the scenarios of two runs say differently, in the words of SITE.toml."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

# They follow from the rest: the names of a code, the digests of what was drawn or written.
DERIVED: Final = ("agents.digest", "zones.digest", "toml")
REPEATED: Final = ("planner",)  # stands in config, too
FIRST: Final = ("version", "name", "seed", "config")

Parted = tuple[str, object, object]


def scenario_differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[Parted]:
    """(field, ours, theirs) for each difference, seed and plan first; of an array its first.

    Digests are named only where nothing else differs.

    >>> scenario_differences({"seed": 1, "toml": b"a", "motion": {"model": "grid"}}, {"seed": 2, "toml": b"b"})
    [('seed', 1, 2), ('motion', {'model': 'grid'}, None)]
    """
    found = list(_parted(ours, theirs, ""))
    causes = [part for part in found if part[0] not in (*DERIVED, *REPEATED)]
    order = {name: place for place, name in enumerate(FIRST)}
    causes.sort(key=lambda part: order.get(part[0].partition(".")[0], len(FIRST)))
    return causes or [part for part in found if part[0] not in REPEATED] or found


def _parted(ours: Mapping[str, Any], theirs: Mapping[str, Any], prefix: str) -> Iterator[Parted]:
    for key in sorted({*ours, *theirs}):
        one, two = ours.get(key), theirs.get(key)
        if one == two:
            continue
        if isinstance(one, Mapping) and isinstance(two, Mapping):
            yield from _parted(one, two, f"{prefix}{key}.")
        elif isinstance(one, bytes) and isinstance(two, bytes):
            yield from _bytes_parted(f"{prefix}{key}", one, two)
        else:
            yield f"{prefix}{key}", one, two


def _bytes_parted(name: str, one: bytes, two: bytes) -> Iterator[Parted]:
    from coord.records import CONFIG_DTYPE, KERNEL_DTYPE, OBSTACLE_DTYPE

    dtype = {"config": CONFIG_DTYPE, "obstacles": OBSTACLE_DTYPE, "kernels": KERNEL_DTYPE}.get(name)
    if dtype is not None and not (len(one) % dtype.itemsize or len(two) % dtype.itemsize):
        yield from _records_parted(name, dtype, one, two)
    elif name == "grid" and one and two:
        yield from _grids_parted(one, two)
    elif max(len(one), len(two)) <= 32:
        yield name, one, two
    else:
        yield name, _brief(one), _brief(two)


def _records_parted(name: str, dtype: Any, one: bytes, two: bytes) -> Iterator[Parted]:
    import numpy as np

    from coord.checks import PLANNERS
    from coord.frames.inputs import record_differences

    ours, theirs = np.frombuffer(one, dtype), np.frombuffer(two, dtype)
    if len(ours) != len(theirs):
        yield f"{name}.count", len(ours), len(theirs)
        return
    for _, identity, part, a, b in record_differences(name, dtype, ours, theirs):
        if name == "config" and part == "planner":
            names: dict[object, str] = dict(PLANNERS.items())
            yield "config.planner", names.get(a, a), names.get(b, b)
        elif name == "config":
            yield f"config.{part}", short_float(a), short_float(b)
        else:
            yield f"{name}[{identity}].{part}", short_float(a), short_float(b)
            return


def _grids_parted(one: bytes, two: bytes) -> Iterator[Parted]:
    from coord.errors import BadInput
    from coord.ground.grid import Grid

    try:
        ours, theirs = Grid.decode(one), Grid.decode(two)
    except (BadInput, ValueError):
        yield "grid", _brief(one), _brief(two)
        return
    for name in ("width", "height", "cell_m", "x0", "y0"):
        a, b = getattr(ours, name), getattr(theirs, name)
        if a != b:
            yield f"grid.{name}", short_float(a), short_float(b)
            return
    row, column = divmod(int((ours.blocked != theirs.blocked).argmax()), ours.width)
    words = ("free", "blocked")
    place = f"grid.cell({column}, {ours.height - 1 - row})"  # column and row of the map, row 0 in the north
    yield place, words[int(ours.blocked[row, column])], words[int(theirs.blocked[row, column])]


def short_float(value: Any) -> Any:
    """A float with the fewest digits that name its float32; anything else as it is.

    >>> short_float(0.05000000074505806), short_float(3)
    (0.05, 3)
    """
    if not isinstance(value, float):
        return value
    import numpy as np

    return float(str(np.float32(value)))


def _brief(data: bytes) -> str:
    from blake3 import blake3

    return f"{len(data)} bytes, BLAKE3 {blake3(data).hexdigest()[:16]}…" if data else "none"
