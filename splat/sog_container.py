"""The files of a SOG scene, from a folder or from a zip, by plain names only and never larger than expected."""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from types import TracebackType
from typing import Protocol

from splat.errors import SceneFileError
from splat.source_file import SourceFile

ENTRIES_MAX = 64
RATIO_MAX, SPARE_BYTES = 4, 1 << 20  # images don't shrink in a zip: what unpacks to far more is a bomb
_PLAIN_NAME = re.compile(r"[^/\\:\x00-\x1f]{1,200}")


class SogContainer(Protocol):
    """Where the files come from."""

    path: Path

    def read(self, name: str, size_max: int) -> bytes:
        """The content of a file. Raises SceneFileError where it is missing, damaged or larger."""


def check_name(name: object, path: Path, field: str) -> str:
    """The name, if it is that of a file in the same folder. Raises SceneFileError."""
    if not isinstance(name, str) or not _PLAIN_NAME.fullmatch(name) or name in (".", ".."):
        shown = repr(name) if isinstance(name, str) else type(name).__name__
        raise SceneFileError(path, None, field, "a plain file name", shown[:80])
    return name


class SogFolder:
    """The files of a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, name: str, size_max: int) -> bytes:
        """See SogContainer."""
        try:
            with SourceFile(self.path / name) as source:
                if source.size > size_max:
                    raise SceneFileError(self.path, None, name, f"at most {size_max} bytes", source.size)
                return source.read_most(size_max)
        except FileNotFoundError:
            raise SceneFileError(self.path, None, name, "a file", "none") from None


class SogZip:
    """The entries of a zip."""

    def __init__(self, source: SourceFile) -> None:
        import zipfile  # what it brings costs 1 MB, which a folder can do without

        self.path, self._size = source.path, source.size
        try:
            self._zip = zipfile.ZipFile(source.stream)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            raise SceneFileError(self.path, None, "zip", "a zip file", str(error)) from None
        entries = self._zip.infolist()
        if len(entries) > ENTRIES_MAX:
            raise SceneFileError(self.path, None, "zip", f"at most {ENTRIES_MAX} entries", len(entries))
        names = [entry.orig_filename for entry in entries]
        for name in names:
            parts = re.split(r"[/\\]", name)
            if ".." in parts or name.startswith("/") or "\\" in name or ":" in name or "\0" in name:
                raise SceneFileError(self.path, None, "zip", "names inside the zip", repr(name[:80]))
            if names.count(name) > 1:
                raise SceneFileError(self.path, None, "zip", "each name once", f"{name[:80]!r} twice")

    def __enter__(self) -> SogZip:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._zip.close()

    def read(self, name: str, size_max: int) -> bytes:
        """See SogContainer."""
        from zipfile import BadZipFile

        try:
            entry = self._zip.getinfo(name)
        except KeyError:
            raise SceneFileError(self.path, None, name, "an entry of the zip", "none") from None
        unpacked_max = SPARE_BYTES + RATIO_MAX * min(entry.compress_size, self._size)
        if entry.file_size > min(size_max, unpacked_max):
            expected = f"at most {min(size_max, unpacked_max)} bytes"
            raise SceneFileError(self.path, None, name, expected, entry.file_size)
        try:
            with self._zip.open(entry) as stream:
                data = stream.read(entry.file_size + 1)
        except (BadZipFile, zlib.error, OSError, EOFError, RuntimeError, ValueError) as error:
            raise SceneFileError(self.path, None, name, "an entry that can be read", str(error)) from None
        if len(data) != entry.file_size:
            raise SceneFileError(self.path, None, name, f"{entry.file_size} bytes", len(data))
        return data
