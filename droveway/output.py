"""What a command prints: results on stdout (text, or one JSON object a line), all else on stderr."""

import contextlib
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final

from droveway.exits import FULL, LimitProblem, UsageProblem

JSON_INTEGER_MAX: Final = 2**53  # above it many JSON readers lose digits: written as a string


class Output:
    """Where a command's words go. `closed` is true once the reader of stdout has gone away."""

    def __init__(self, *, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json = as_json
        self.quiet = quiet
        self.closed = False

    def result(self, record: Mapping[str, object], text: str) -> None:
        """One result: the record as a line of JSON with --json, else the text."""
        self._write(json_line(record, sys.stdout.encoding) if self.as_json else _harmless(text))

    def text(self, text: str) -> None:
        """A result that has one form only, such as a completion script."""
        self._write(text)

    def note(self, text: str) -> None:
        """Something worth knowing that is not the result: stderr, silenced by --quiet."""
        if not self.quiet:
            to_stderr(_harmless(text))

    def error(self, message: str, hint: str = "") -> None:
        """`error: …` and, where there is a way out, `hint: …`; stderr, never silenced."""
        lines = [f"error: {_harmless(message)}", *([f"hint: {_harmless(hint)}"] if hint else [])]
        to_stderr("\n".join(lines))

    def _write(self, text: str) -> None:
        if self.closed:
            return
        encoding = sys.stdout.encoding or "utf-8"
        if not _fits(text, encoding):  # a path of other bytes, or a stream of few characters
            text = text.encode(encoding, "backslashreplace").decode(encoding)
        try:
            with writing_stdout():
                sys.stdout.write(text + "\n")
                sys.stdout.flush()
        except BrokenPipeError:
            self.closed = True
            silence_stdout()


@contextlib.contextmanager
def writing_stdout() -> Iterator[None]:
    """Errors of the operating system inside mean that stdout can't be written: exit 4 when full, else 2."""
    try:
        yield
    except BrokenPipeError:  # nobody reads any more: no error
        raise
    except OSError as error:
        text = f"stdout: expected room to write, got: {(error.strerror or str(error)).lower()}"
        if error.errno in FULL:
            raise LimitProblem(None, text, "free some space, or write elsewhere") from error
        raise UsageProblem(None, text) from error


def to_stderr(text: str) -> None:
    """Words that cannot be told change no exit code."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def silence_stdout() -> None:
    """Nobody reads stdout any more: let what is still to come, and the flush at exit, go nowhere.

    The command goes on, so that its exit code stays the true answer.
    """
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, sys.stdout.fileno())
    os.close(sink)


def json_line(record: Mapping[str, object], encoding: str | None = "utf-8") -> str:
    """One line of JSON: keys in the order given, bytes as hex, no NaN (null), whole numbers above 2^53 as strings.

    Characters that the encoding of the stream lacks are escaped, as JSON allows.

    >>> json_line({"root": b"\\x01\\xff", "ratio": float("nan"), "tick": 2**60})
    '{"root": "01ff", "ratio": null, "tick": "1152921504606846976"}'
    """
    values = plain(record)
    line = json.dumps(values, ensure_ascii=False, allow_nan=False)
    return line if _fits(line, encoding or "utf-8") else json.dumps(values, ensure_ascii=True, allow_nan=False)


_CONTROLS: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


def _harmless(text: str) -> str:
    """Names from files and ledgers can't steer the terminal.

    >>> _harmless("\x1b[2Jtwo\\nlines")
    '\\\\x1b[2Jtwo\\nlines'
    """
    return text.translate(_CONTROLS)


def _fits(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def plain(value: Any) -> Any:
    """A value as JSON knows it: see `json_line`.

    >>> plain((1, Path("a"), b""))
    [1, 'a', '']
    """
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, int):
        return value if abs(value) <= JSON_INTEGER_MAX else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if hasattr(value, "tolist"):  # numpy scalars and arrays, without importing numpy
        return plain(value.tolist())
    return str(value)


def table(rows: Sequence[tuple[str, ...]], indent: str = "") -> str:
    """Rows as columns of equal width, two spaces apart.

    >>> print(table([("root", "ab"), ("frames", "20")]))
    root    ab
    frames  20
    """
    if not rows:
        return ""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(f"{indent}{line}".rstrip() for line in lines)
