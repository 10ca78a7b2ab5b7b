"""Everything coord raises.

CoordError
├── BadInput        (ValueError)  a table of a plan call has a bad value: .table .row .field
│   └── RowsError                 somebody else's planner returned what is refused: .agent .expected .got
├── PlannerError    (ValueError)  a planner code or name that does not exist
├── FrameError      (ValueError)  bytes that are no decision frame, or rows that do not belong to it
├── CellError       (ValueError)  a cell out of the i32 range, or bytes that are no JCK1 key
├── ScenarioError   (ValueError)  a SITE.toml, or a file it names, that no run can start from: .file .where .detail
├── MapError        (ValueError)  a damaged .map or .scen file: .file .line .column .detail
├── InputsError     (ValueError)  bytes that are no part of coord.inputs: .offset .field .expected .got
├── TooLargeError   (ValueError)  a tick that does not fit the events of a ledger, or a fleet too large for a planner
├── RunError        (ValueError)  a ledger that holds no run, or a run that this version can't read
├── ParameterError  (ValueError)  a parameter of a sweep that no site can have: .key .value .detail
├── CaseError                     a case of a sweep that can't be made: .case .detail
│   └── RepeatError               a case of a sweep that came to other bytes when it was made again
└── OutputError     (FileExistsError)  an output folder or file that is there already, or can't be made
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


class RowsError(BadInput):
    """What an external planner returned breaks a rule; no frame is made of it.

    `row` is the index in what was returned, `agent` the id of the agent whose row it is (None where there is none).

    >>> str(RowsError(3, "score", 7, 137363, 0))
    'rows[3].score of agent 7: expected 137363, got 0'
    """

    def __init__(self, row: int | None, field: str, agent: int | None, expected: object, got: object) -> None:
        super().__init__("rows", row, field, f"expected {expected}, got {got}")
        self.agent = agent
        self.expected = expected
        self.got = got
        place = f"rows{'' if row is None else f'[{row}]'}{field and f'.{field}'}"
        self.args = (f"{place}{'' if agent is None else f' of agent {agent}'}: {self.detail}",)

    def __reduce__(self) -> tuple[type["RowsError"], tuple[int | None, str, int | None, object, object]]:  # type: ignore[override]
        return RowsError, (self.row, self.field, self.agent, self.expected, self.got)


class PlannerError(CoordError, ValueError):
    """A planner that does not exist in this version."""


class FrameError(CoordError, ValueError):
    """Bytes that are no decision frame, or rows that do not belong to their frame."""


class CellError(CoordError, ValueError):
    """A cell index outside int32, or bytes that are no JCK1 key."""


class ScenarioError(CoordError, ValueError):
    """A SITE.toml, or a file that it names, that no run can start from.

    `file` is the SITE.toml, `where` the table and key (or the record), `detail` what was expected and what came.
    """

    def __init__(self, file: str, where: str, detail: str) -> None:
        self.file = file
        self.where = where
        self.detail = detail
        super().__init__(": ".join(part for part in (file, where, detail) if part))

    def __reduce__(self) -> tuple[type["ScenarioError"], tuple[str, str, str]]:
        return ScenarioError, (self.file, self.where, self.detail)


class MapError(CoordError, ValueError):
    """A `.map` or `.scen` file that is damaged; `line` and `column` count from 1 (0: the file as a whole)."""

    def __init__(self, file: str, line: int, column: int, detail: str) -> None:
        self.file = file
        self.line = line
        self.column = column
        self.detail = detail
        place = f"{file}:{line}:{column}" if line else file
        super().__init__(f"{place}: {detail}")

    def __reduce__(self) -> tuple[type["MapError"], tuple[str, int, int, str]]:
        return MapError, (self.file, self.line, self.column, self.detail)


class InputsError(CoordError, ValueError):
    """Bytes that are no part of `coord.inputs`: `offset` in the part, `field`, what was expected, what came."""

    def __init__(self, offset: int, field: str, expected: object, got: object) -> None:
        self.offset = offset
        self.field = field
        self.expected = expected
        self.got = got
        super().__init__(f"coord.inputs: byte {offset}: {field}: expected {expected}, got {got}")

    def __reduce__(self) -> tuple[type["InputsError"], tuple[int, str, object, object]]:
        return InputsError, (self.offset, self.field, self.expected, self.got)


class TooLargeError(CoordError, ValueError):
    """A tick whose inputs do not fit the events of a ledger, or a fleet too large for a planner; nothing is written."""


class OutputError(CoordError, FileExistsError):
    """An output folder or file that must not be there yet, or can't be made."""


class RunError(CoordError, ValueError):
    """A ledger that holds no run, or a run that this version can't read."""


class ParameterError(CoordError, ValueError):
    """A parameter of a sweep that no site can have; nothing was run.

    `key` is its dotted name, `value` the value (None where it is the key that is wrong), `detail` what was expected.
    """

    def __init__(self, key: str, value: object, detail: str) -> None:
        self.key = key
        self.value = value
        self.detail = detail
        super().__init__(f"{key}: {detail}")

    def __reduce__(self) -> tuple[type["ParameterError"], tuple[str, object, str]]:
        return ParameterError, (self.key, self.value, self.detail)


class CaseError(CoordError):
    """A case of a sweep that can't be made: `case` names its parameters and seed, `detail` says why."""

    def __init__(self, case: str, detail: str) -> None:
        self.case = case
        self.detail = detail
        super().__init__(f"{case}: {detail}")

    def __reduce__(self) -> tuple[type["CaseError"], tuple[str, str]]:
        return type(self), (self.case, self.detail)


class RepeatError(CaseError):
    """A case of a sweep that came to other bytes when it was made again: something here is not deterministic."""


def unreadable(error: OSError) -> str:
    """What is wrong with a file that the operating system does not give, as the end of an error text.

    >>> unreadable(FileNotFoundError(2, "No such file or directory"))
    'expected to read it, got: no such file or directory'
    """
    return f"expected to read it, got: {(error.strerror or str(error)).lower()}"
