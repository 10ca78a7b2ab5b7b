"""Errors of vector.

VectorError
├── VectorKeyError    (KeyError)     an id or a slot that no row has
├── VectorValueError  (ValueError)   a value or a shape that no answer can be given for
│   └── VectorTypeError   (TypeError too)   an argument of another kind or element type than the function computes with
├── IndexFileError    (ValueError)   a file that holds no index: .path .offset .field .expected .found
│   ├── CidMismatch          bytes that are not those that the index was saved with
│   └── UnsupportedIndex     a legal file of a kind that this version doesn't read
└── IndexSaveError    (OSError)      an index that could not be written; the file of before is as it was
"""

from __future__ import annotations


class VectorError(Exception):
    """Root of all errors that vector raises on purpose."""


class VectorKeyError(VectorError, KeyError):
    """An id or a slot that no row of the index has; nothing was changed.

    >>> str(VectorKeyError("IdMapIndex.remove: no row has id 7"))
    'IdMapIndex.remove: no row has id 7'
    """

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""  # KeyError would print the quotes too


class VectorValueError(VectorError, ValueError):
    """A value or a shape of an argument that no answer can be given for; nothing was changed."""


class VectorTypeError(VectorValueError, TypeError):
    """An argument is of a kind, or an array of an element type, that the function does not compute with.

    It is a ValueError as well as a TypeError: whether float64 rows are a wrong type or a wrong value is a matter of
    taste.
    """


class IndexFileError(VectorError, ValueError):
    """A file that holds no index that may be used; nothing of it was given out.

    `path` is the file, `offset` the byte in it where the `field` lies, `expected` and `found` say what should have been
    there and what is.

    >>> str(IndexFileError("a.jvi", 12, "padded dim", "128", "100"))
    'a.jvi: offset 12: padded dim must be 128, got 100'
    """

    def __init__(self, path: str, offset: int, field: str, expected: str, found: str) -> None:
        self.path = path
        self.offset = offset
        self.field = field
        self.expected = expected
        self.found = found
        super().__init__(self._sentence())

    def _sentence(self) -> str:
        return f"{self.path}: offset {self.offset}: {self.field} must be {self.expected}, got {self.found}"

    def __reduce__(self) -> tuple[type[IndexFileError], tuple[str, int, str, str, str]]:
        return type(self), (self.path, self.offset, self.field, self.expected, self.found)


class CidMismatch(IndexFileError):
    """Bytes of an index file that are not those it was saved with: a root or the hash of a block differs."""


class UnsupportedIndex(IndexFileError):
    """An index file whose header is legal, of a kind that this version doesn't read; it is not damaged.

    >>> str(UnsupportedIndex("a.jvi", 6, "bits", "4", "2"))
    'a.jvi: offset 6: this version reads files whose bits is 4, got 2; the file may be fine'
    """

    def _sentence(self) -> str:
        return (
            f"{self.path}: offset {self.offset}: this version reads files whose {self.field} is {self.expected}, "
            f"got {self.found}; the file may be fine"
        )


class IndexSaveError(VectorError, OSError):
    """An index that could not be written. A file that was there before is as it was.

    Only where the last step fails, the sync of the folder, the new file is there, whole; a power cut may take it back.
    """
