"""Exit codes, and the one place that says which error of which package leads to which code.

    0    yes; done
    1    the answer is no: diverged, not verified, something is wrong
    2    the command line or the environment
    3    a named file can't be read, or its content is wrong
    4    a limit was reached: memory budget, disk
    5    a bug in droveway
    130  interrupted; what was written is valid

Errors are recognised by the dotted name of their class or of its nearest listed base, so that nothing has to be
imported to tell them apart.

    DrovewayProblem                 any of the three below; carries path, message, hint
    ├── UsageProblem      → 2
    ├── InputProblem      → 3
    └── LimitProblem      → 4
"""

import contextlib
import errno
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

YES: Final = 0
NO: Final = 1
USAGE: Final = 2
INPUT: Final = 3
LIMIT: Final = 4
BUG: Final = 5
INTERRUPTED: Final = 130

CODES: Final[dict[str, int]] = {
    "droveway.exits.UsageProblem": USAGE,
    "droveway.exits.InputProblem": INPUT,
    "droveway.exits.LimitProblem": LIMIT,
    "storage.errors.StorageFullError": LIMIT,
    "storage.errors.EventTooLargeError": LIMIT,
    "storage.errors.LimitError": LIMIT,
    "storage.errors.LockedError": USAGE,
    "storage.errors.ReadOnlyError": USAGE,
    "storage.errors.MissingExtraError": USAGE,
    "storage.errors.PublishConflict": USAGE,
    "storage.errors.StorageError": INPUT,
    "coord.errors.OutputError": USAGE,
    "coord.errors.TooLargeError": LIMIT,
    "coord.errors.ParameterError": USAGE,
    "coord.errors.RepeatError": NO,
    "coord.explaining.explain.UnknownIdError": USAGE,
    "coord.errors.CoordError": INPUT,
    "tensor.errors.BudgetExceeded": LIMIT,
    "tensor.errors.TensorError": INPUT,
    "vector.errors.IndexSaveError": USAGE,
    "vector.errors.VectorError": INPUT,
    "splat.errors.TooManyPairsError": LIMIT,
    "splat.errors.SplatError": INPUT,
    "builtins.MemoryError": LIMIT,
    "builtins.KeyboardInterrupt": INTERRUPTED,
}
OURS: Final = ("tensor", "vector", "splat", "coord", "storage", "droveway")
FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class DrovewayProblem(Exception):
    """Something the user can mend: `path` names the file, `hint` the way, where there is one.

    >>> str(InputProblem("a.toml", "expected a table, got a number"))
    'a.toml: expected a table, got a number'
    """

    def __init__(self, path: str | Path | None, message: str, hint: str = "") -> None:
        super().__init__(message if path is None else f"{path}: {message}")
        self.droveway_path = path  # None: not about a file, and no reader around it may say so
        self.hint = hint


class UsageProblem(DrovewayProblem):
    """The command line or the environment is wrong: exit 2."""


class InputProblem(DrovewayProblem):
    """A named file can't be read, or its content is wrong: exit 3."""


class LimitProblem(DrovewayProblem):
    """A limit was reached, such as a full disk: exit 4."""


def quoted(path: str | Path) -> str:
    """A path as it can be pasted into a shell, for hints; never one that reads as an option.

    >>> quoted(Path("my run")), quoted(Path("-o"))
    ("'my run'", './-o')
    """
    text = str(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)


@dataclass(frozen=True)
class Ending:
    """How the process ends because of an error: the code, and what to tell on stderr."""

    code: int
    message: str
    hint: str = ""


def ending_of(error: BaseException) -> Ending:
    """Which exit code and which words an error leads to.

    >>> ending_of(InputProblem("a.map", "expected 4 rows, got 3", "is the file whole?"))
    Ending(code=3, message='a.map: expected 4 rows, got 3', hint='is the file whole?')
    >>> ending_of(ZeroDivisionError("division by zero")).code
    5
    """
    hint = str(getattr(error, "hint", "") or "")
    code = listed_code(error)
    if code is not None:
        full = isinstance(error.__cause__, OSError) and error.__cause__.errno in FULL
        return Ending(LIMIT if full else code, _with_path(error), hint)
    if isinstance(error, ImportError):
        return _ending_of_import(error)
    if isinstance(error, OSError):
        return _ending_of_os(error)
    return Ending(
        BUG,
        f"droveway has a bug: {type(error).__name__}: {error}; please report it with the command that led here",
        "run the same command with --debug to see the traceback",
    )


def listed_code(error: BaseException) -> int | None:
    """The code of the error's class, or of its nearest base, in CODES; None where there is none.

    >>> listed_code(MemoryError()), listed_code(ValueError())
    (4, None)
    """
    for kind in type(error).__mro__:
        code = CODES.get(f"{kind.__module__}.{kind.__qualname__}")
        if code is not None:
            return code
    return None


def _with_path(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    path = getattr(error, "droveway_path", None)
    return text if path is None or str(path) in text else f"{path}: {text}"


def _ending_of_import(error: ImportError) -> Ending:
    # A module of ours that is missing is a bug, unless it is the kernels: those say themselves what to do.
    ours = (error.name or "").split(".")[0] in OURS
    if ours and "droveway" not in str(error).lower():
        return Ending(BUG, f"droveway has a bug: {error}; please report it", "--debug shows the traceback")
    third_party = error.name is not None and not ours
    return Ending(USAGE, str(error), "pip install --force-reinstall droveway" if third_party else "")


def _ending_of_os(error: OSError) -> Ending:
    where = "" if error.filename is None else f"{error.filename}: "
    text = (error.strerror or str(error)).lower()
    if error.errno in FULL:
        return Ending(LIMIT, f"{where}{text}", "free some space, or write elsewhere")
    return Ending(INPUT, f"{where}expected to read it, got: {text}")


@contextlib.contextmanager
def reading(path: Path | str) -> Iterator[None]:
    """Errors inside name `path`; one of the operating system means the input can't be read: exit 3."""
    try:
        yield
    except OSError as error:
        if listed_code(error) is not None or error.errno in FULL:
            raise
        text = (error.strerror or str(error)).lower()
        raise InputProblem(error.filename or path, f"expected to read it, got: {text}") from error
    except Exception as error:
        if not hasattr(error, "droveway_path"):  # the innermost reader knows best
            with contextlib.suppress(AttributeError):
                error.droveway_path = path  # type: ignore[attr-defined]
        raise


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Errors of the operating system inside mean that `path` can't be written: exit 4 when full, else 2."""
    try:
        yield
    except OSError as error:
        cause = error.__cause__
        told = type(error).__name__ == "IndexSaveError" and isinstance(cause, OSError)  # in words of its own
        if listed_code(error) is not None and not told:
            raise
        system = cause if told and isinstance(cause, OSError) else error
        text = (system.strerror or str(system)).lower()
        if system.errno in FULL:
            raise LimitProblem(path, f"expected room to write, got: {text}", "free some space") from error
        raise UsageProblem(path, f"expected to write it, got: {text}", "choose another place for the output") from error
