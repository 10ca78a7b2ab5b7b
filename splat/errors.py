"""Errors of splat.

SplatError
├── SplatTypeError   (TypeError)    an argument of another kind or element type than the function computes with
├── SplatValueError  (ValueError)   a value or a shape that no scene, camera or picture can be made of
│   └── TooManyPairsError           splats so large in the picture that their lists would not fit
└── SceneFileError   (ValueError)   a scene file that can't be read: .path .offset .field .expected .found
"""

from __future__ import annotations


class SplatError(Exception):
    """Root of all errors that splat raises on purpose."""


class SplatTypeError(SplatError, TypeError):
    """An argument is of a kind that the function does not compute with."""


class SplatValueError(SplatError, ValueError):
    """A value or a shape of an argument that no answer can be given for."""


class TooManyPairsError(SplatValueError):
    """The splats touch more tiles of the picture than `render` keeps lists for; nothing was drawn."""


class SceneFileError(SplatError, ValueError):
    """A file that is no scene, or a damaged one; nothing was read.

    `offset` is the byte where the trouble is (None: the file as a whole), `field` the part of the format.

    >>> str(SceneFileError("a.splat", None, "size", "a multiple of 32 bytes", "33"))
    'a.splat: size: expected a multiple of 32 bytes, found 33'
    """

    def __init__(self, path: object, offset: int | None, field: str, expected: object, found: object) -> None:
        self.path = str(path)
        self.offset = offset
        self.field = field
        self.expected = expected
        self.found = found
        place = "" if offset is None else f" at byte {offset}"
        super().__init__(f"{self.path}: {field}{place}: expected {expected}, found {found}")

    def __reduce__(self) -> tuple[type[SceneFileError], tuple[object, ...]]:
        return type(self), (self.path, self.offset, self.field, self.expected, self.found)
