"""The files of a database as they are at one moment, for reading without altering a byte, beside a live writer.

A folder of links to open descriptors: what the writer deletes afterwards stays readable, and what the binding writes
beside a database that it opens (a small file of its own) lands in the folder.

RocksDB reads the list of tables first and the logs later. If a writer flushed in between, the logs it deletes would be
missing from what the reader sees, as a hole. Every flush is written to the manifest before a log is deleted, so files
that were opened while the manifest did not change have no hole.
"""

from __future__ import annotations

import errno
import os
import re
import time
from contextlib import suppress
from pathlib import Path

from storage import regular_file
from storage.engine.engine_logs import MANIFEST_BYTES_MAX
from storage.engine.torn_log import TornTail
from storage.errors import IntegrityError, ReadOnlyError, StorageError, StorageFullError

ATTEMPTS = 100
CURRENT_BYTES_MAX = 64
_MANIFEST = re.compile(r"MANIFEST-\d+")
# A process that closes a descriptor of LOCK loses RocksDB's lock on it; the other two are nobody's evidence.
LEFT_OUT = frozenset(("LOCK", "LOG", "rocksdict-config.json"))


class Snapshot:
    """A frozen view of a database folder. Raises OSError, and StorageError where the files never stand still."""

    def __init__(self, database: Path) -> None:
        self.folder = _new_folder()
        self._descriptors: list[int] = []
        self._own = -1
        try:
            self.named = self._nameable()
            self._take(database)
        except BaseException:
            self.release()
            raise

    def _take(self, database: Path) -> None:
        for attempt in range(ATTEMPTS):
            before = _manifest(database)
            files = [file for file in sorted(database.iterdir()) if file.name not in LEFT_OUT]
            try:
                links = {file.name: self._open(file) for file in files}
            except FileNotFoundError:
                links = None
            if links is not None and _manifest(database) == before:
                self._link(links, before)
                return
            self._close()
            time.sleep(0.0002 * attempt)
        raise StorageError(f"{database}: the writer changed its files during each of {ATTEMPTS} attempts to read them")

    def _nameable(self) -> Path:
        """The folder as the engine can name it: in UTF-8, good in this process until the release."""
        try:
            str(self.folder).encode()
        except UnicodeEncodeError:
            self._own = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            return Path(f"/proc/self/fd/{self._own}")
        return self.folder

    def _open(self, path: Path) -> int:
        descriptor = regular_file.open_to_read(path)
        self._descriptors.append(descriptor)
        return descriptor

    def _link(self, links: dict[str, int], manifest: tuple[str, bytes]) -> None:
        name, content = manifest
        for file, descriptor in links.items():
            if file != name:
                (self.folder / file).symlink_to(f"/proc/{os.getpid()}/fd/{descriptor}")
        if name:
            (self.folder / name).write_bytes(content)

    def shorten(self, torn: TornTail) -> None:
        """Let a log end before its torn end, in this view alone."""
        content = regular_file.read(self.folder / torn.file, torn.kept_bytes)
        (self.folder / torn.file).unlink()
        (self.folder / torn.file).write_bytes(content)

    def _close(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.pop())

    def release(self) -> None:
        """Close the descriptors and remove the folder; a second call does nothing."""
        self._close()
        if self._own >= 0:
            os.close(self._own)
            self._own = -1
        with suppress(OSError):
            for file in self.folder.iterdir():
                file.unlink()
            self.folder.rmdir()


def _new_folder() -> Path:
    """A new folder of our own in $TMPDIR or /tmp. (tempfile would bring 1 MB of modules.)"""
    folder = Path(os.environ.get("TMPDIR") or "/tmp") / f"droveway-{os.getpid()}-{os.urandom(8).hex()}"
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFullError(f"{folder.parent}: {error.strerror}") from error
        raise ReadOnlyError(f"{folder.parent}: reading a ledger needs a temporary folder: {error.strerror}") from error
    return folder


def _manifest(database: Path) -> tuple[str, bytes]:
    """Name and content of the manifest in use: it only grows."""
    try:
        name = regular_file.read(database / "CURRENT", CURRENT_BYTES_MAX).decode().strip()
        if _MANIFEST.fullmatch(name) is None:
            return "", b""
        content = regular_file.read(database / name, MANIFEST_BYTES_MAX + 1)
        if len(content) > MANIFEST_BYTES_MAX:
            raise IntegrityError(f"{database / name}: expected at most {MANIFEST_BYTES_MAX} bytes, got more", file=name)
        return name, content
    except (FileNotFoundError, UnicodeDecodeError):
        return "", b""
