"""Everything coord raises.

    CoordError
    ├── BadInput        (ValueError)  a table of a plan call has a bad value: .table .row .field
    ├── PlannerError    (ValueError)  a planner code or name that does not exist
    ├── FrameError      (ValueError)  bytes that are no decision frame, or rows that do not belong to it
    └── CellError       (ValueError)  a cell out of the i32 range, or bytes that are no JCK1 key
"""


class CoordError(Exception):
    """Root of every error that coord raises on purpose."""


class BadInput(CoordError, ValueError):
    """A value that no plan can be made from; nothing was planned.

    `table` is the argument (agents, zones, obstacles, kernels, config, rings, grid), `row` the index in it as the
    caller passed it (None where the table has no rows), `field` the record field, `detail` the rest of the sentence.

    >>> str(BadInput("agents", 3, "x", "must be finite, got nan"))
    'agents[3].x must be finite, got nan'
    """

    def __init__(self, table: str, row: int | None, field: str, detail: str) -> None:
        self.table = table
        self.row = row
        self.field = field
        self.detail = detail
        place = table if row is None else f"{table}[{row}]"
        super().__init__(f"{place}.{field} {detail}" if field else f"{place} {detail}")

    def __reduce__(self) -> tuple[type["BadInput"], tuple[str, int | None, str, str]]:
        return BadInput, (self.table, self.row, self.field, self.detail)


class PlannerError(CoordError, ValueError):
    """A planner that does not exist in this version."""


class FrameError(CoordError, ValueError):
    """Bytes that are no decision frame, or rows that do not belong to their frame."""


class CellError(CoordError, ValueError):
    """A cell index outside int32, or bytes that are no JCK1 key."""
