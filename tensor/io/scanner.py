"""Reading a header of known grammar, token by token, straight from the bytes of the file.

Nothing is built that the grammar does not have, so a hostile header costs no more than its own length.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from tensor.errors import TensorFileError

__all__ = ["Scanner"]

_SPACE = re.compile(rb"[ \t\n\r]*")
_STRING = re.compile(rb'"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*"')
_INTEGER = re.compile(rb"-?(?:0|[1-9][0-9]*)")
_DIGITS_MAX = 19  # of 2^63 − 1
_SHOWN = 24  # bytes of what came that an error shows


class Scanner:
    """A place in `data`, the bytes of a header that starts at byte `base` of the file `path`."""

    def __init__(self, path: str, base: int, data: memoryview) -> None:
        self.path = path
        self.base = base
        self.data = data
        self.at = 0

    def fail(self, field: str, expected: str, at: int | None = None, found: str | None = None) -> TensorFileError:
        """The error for what stands at `at`, or here."""
        place = self.at if at is None else at
        if found is None:
            shown = bytes(self.data[place : place + _SHOWN])
            found = repr(shown)[1:] if shown else "the end of the header"
        return TensorFileError(self.path, self.base + place, field, expected, found)

    def space(self) -> None:
        found = _SPACE.match(self.data, self.at)
        assert found is not None
        self.at = found.end()

    def peek(self, text: bytes) -> bool:
        """Whether `text` comes next, after space; it is taken if it does."""
        self.space()
        if self.data[self.at : self.at + len(text)] != text:
            return False
        self.at += len(text)
        return True

    def expect(self, text: bytes, field: str) -> None:
        if not self.peek(text):
            raise self.fail(field, repr(text.decode()))

    def string(self, field: str) -> str:
        """A JSON string in UTF-8."""
        self.space()
        found = _STRING.match(self.data, self.at)
        if found is None:
            raise self.fail(field, "a string")
        try:
            text = str(json.loads(found[0].decode("utf-8")))
            text.encode("utf-8")  # a lone surrogate, written \ud800, is no text
        except UnicodeDecodeError:
            raise self.fail(field, "a string in UTF-8") from None
        except (json.JSONDecodeError, UnicodeEncodeError):
            raise self.fail(field, "a string with the escapes of JSON") from None
        self.at = found.end()
        return text

    def integer(self, field: str) -> int:
        """An integer from 0 to 2^63 − 1."""
        self.space()
        found = _INTEGER.match(self.data, self.at)
        if found is None or found[0][:1] == b"-" or found.end() - found.start() > _DIGITS_MAX:
            raise self.fail(field, "an integer from 0 to 2^63 - 1")
        value = int(found[0])
        if value >= 2**63 or bytes(self.data[found.end() : found.end() + 1]) in (b".", b"e", b"E"):
            raise self.fail(field, "an integer from 0 to 2^63 - 1")
        self.at = found.end()
        return value

    def integers(self, field: str, count_max: int) -> tuple[int, ...]:
        """A JSON list of at most `count_max` such integers."""
        self.expect(b"[", field)
        values: list[int] = []
        if self.peek(b"]"):
            return ()
        while True:
            if len(values) == count_max:
                raise self.fail(field, f"at most {count_max} integers")
            values.append(self.integer(field))
            if self.peek(b"]"):
                return tuple(values)
            self.expect(b",", field)

    def members(self, field: str) -> Iterator[str]:
        """The names of a JSON object's members; whoever iterates reads each value."""
        self.expect(b"{", field)
        if self.peek(b"}"):
            return
        while True:
            name = self.string(field)
            self.expect(b":", field)
            yield name
            if self.peek(b"}"):
                return
            self.expect(b",", field)
