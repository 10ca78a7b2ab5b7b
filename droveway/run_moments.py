"""The planned ticks of a run as rows of numbers, to be searched: which moments were like this one?"""

from typing import TYPE_CHECKING, Any

from droveway.exits import InputProblem, reading

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from coord.fields.features import Bounds
    from coord.stl import RunReader


def moments(reader: "RunReader") -> "tuple[NDArray[np.float32], NDArray[np.int64]]":
    """(float32[n, 128], int64[n]): `coord.features.fleet_features` of each planned tick, and the ticks.

    The bounds are those of the site's grid, or the least box around the first agents and zones.
    """
    import numpy as np

    from coord.fields.features import FEATURES, fleet_features

    rows, ticks = [], []
    with reading(reader.ledger.path):
        bounds: Bounds | None = None
        for view in reader.frames():
            bounds = _bounds(reader, view.inputs) if bounds is None else bounds
            rows.append(fleet_features(view.inputs, view.frame.tick, bounds))
            ticks.append(view.frame.tick)
    if not rows:
        raise InputProblem(reader.ledger.path, "expected at least one planned tick, found none")
    return np.stack(rows).reshape(-1, FEATURES), np.asarray(ticks, np.int64)


def _bounds(reader: "RunReader", inputs: Any) -> "Bounds":
    from coord.fields.features import site_bounds
    from tensor.float_mode import plain_mode

    grid = reader.scenario.grid
    if grid is not None:
        return site_bounds((grid.height, grid.width), grid.cell_m, grid.x0, grid.y0)
    sides = []
    for axis in "xy":
        places = [float(value) for table in (inputs.agents, inputs.zones) for value in table[axis].tolist()]
        low, high = min(places, default=0.0), max(places, default=0.0)
        with plain_mode():
            sides.append((low, high if high > low else low + 1.0))
    return sides[0][0], sides[1][0], sides[0][1], sides[1][1]
