"""safetensors files: one strict reader, memory-mapped, and one canonical writer (docs/formats/safetensors.md)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tensor.errors import DtypeError
from tensor.io.header import CODES, Entry, encode_header, order, read_header
from tensor.io.mapped import map_file, replace
from tensor.io.stored import Stored, check_truths, nbytes_of, stored, tensor_of

__all__ = ["SafetensorsFile", "write_safetensors"]


class SafetensorsFile(Mapping[str, Stored]):
    """The tensors of a safetensors file by name, in the order of their data; `metadata` is its dict of strings.

    The header is checked when the file is opened; elements are mapped, and read when they are used. A change to a
    tensor's bytes stays in this process. Raises OSError, TensorFileError.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "a.safetensors")
    ...     write_safetensors(path, {"w": b"abc"}, {"step": "3"})
    ...     file = SafetensorsFile(path)
    ...     file.metadata, file["w"].shape, bytes(file["w"].data)
    ({'step': '3'}, (3,), b'abc')
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._file = map_file(self.path)
        self.entries, self.metadata, self._data_at = read_header(self.path, self._file)

    def __getitem__(self, name: str) -> Stored:
        entry = self.entries[name]
        data = self._file[self._data_at + entry.begin : self._data_at + entry.end]
        if entry.dtype == "bool":
            check_truths(self.path, self._data_at + entry.begin, f"tensor {name!r}", data)
        return Stored(entry.dtype, entry.shape, data)

    def tensor(self, name: str) -> Any:
        """The Tensor of that name, over the mapped bytes (a copy where they are not aligned to their elements)."""
        return tensor_of(self[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


def write_safetensors(
    path: str | os.PathLike[str], tensors: Mapping[str, object], metadata: Mapping[str, str] | None = None
) -> None:
    """Writes tensors (Tensors or buffers) by name, in the canonical form: equal state gives equal bytes.

    The file is replaced at once, after it is on the disk. Raises DtypeError for elements that the format has no code
    for, TypeError and ValueError for names or metadata that are no text, OSError.
    """
    arrays = {_text(name, "a name"): stored(array, "save", repr(name)) for name, array in tensors.items()}
    if "__metadata__" in arrays:
        raise ValueError("save: '__metadata__' is no name for a tensor")
    words = {
        _text(k, "a key of the metadata"): _text(v, "a value of the metadata") for k, v in (metadata or {}).items()
    }
    for name, array in arrays.items():
        if array.dtype not in CODES:
            hint = "hint: the real and the imaginary part as two tensors, or .npy"
            raise DtypeError(f"save: {name!r} is {array.dtype}, and safetensors has no code for it ({hint})")
    names = sorted(arrays, key=lambda name: order(name, arrays[name].dtype))
    entries: dict[str, Entry] = {}
    end = 0
    for name in names:
        dtype, shape, _ = arrays[name]
        begin, end = end, end + nbytes_of(dtype, shape)
        entries[name] = Entry(dtype, shape, begin, end)
    replace(Path(path), [encode_header(entries, words), *(arrays[name].data for name in names)])


def _text(word: object, what: str) -> str:
    if not isinstance(word, str):
        raise TypeError(f"save: {what} must be text, got {word!r}")
    try:
        word.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(f"save: {what} must be text, got {word!r}") from None
    return word
