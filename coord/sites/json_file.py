"""A JSON file from a stranger: bytes bounded, UTF-8, no NaN, no key twice, no whole number that a double would cut."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

from coord.errors import ScenarioError, unreadable
from coord.sites.regular_file import open_regular

FILE_BYTES_MAX = 2**26
EXACT_MAX = 2**53  # above it a number that went through a double may be another one


class _Fault(ValueError):
    pass


def read_json(path: Path) -> Any:
    """The value of a JSON file. Raises ScenarioError naming the file, and line and column where there are some."""
    try:
        with open_regular(path) as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ScenarioError(str(path), "", unreadable(error)) from error
    if len(data) > FILE_BYTES_MAX:
        raise ScenarioError(str(path), "", f"expected at most {FILE_BYTES_MAX} bytes")
    return parse_json(data, str(path))


def parse_json(data: bytes, name: str) -> Any:
    """The value of JSON bytes; `name` stands in error texts.

    >>> parse_json(b'{"a": [1, 2.5]}', "a.json")
    {'a': [1, 2.5]}
    >>> parse_json(b"[NaN]", "a.json")
    Traceback (most recent call last):
    coord.errors.ScenarioError: a.json: expected a finite number, got NaN
    """
    try:
        return json.loads(
            data.decode("utf-8"), parse_constant=_refuse_constant, parse_int=_whole, parse_float=_finite,
            object_pairs_hook=_object,
        )  # fmt: skip
    except json.JSONDecodeError as error:
        raise ScenarioError(
            name, f"line {error.lineno}, column {error.colno}", f"expected JSON: {error.msg}"
        ) from error
    except UnicodeDecodeError as error:
        raise ScenarioError(name, f"byte {error.start}", "expected UTF-8") from error
    except _Fault as error:
        raise ScenarioError(name, "", str(error)) from error
    except RecursionError as error:
        raise ScenarioError(name, "", "expected values that are not nested this deeply") from error


def _refuse_constant(word: str) -> NoReturn:
    raise _Fault(f"expected a finite number, got {word}")


def _whole(text: str) -> int:
    if len(text) > 20 or abs(int(text)) > EXACT_MAX:
        raise _Fault(f"expected whole numbers of at most 2^53, got {text[:40]} (hint: write it as a string)")
    return int(text)


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise _Fault(f"expected a finite number, got {text[:40]}")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _Fault(f"expected each key once, got {key[:40]!r} twice in one object")
        found[key] = value
    return found
