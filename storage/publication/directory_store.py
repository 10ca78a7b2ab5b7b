"""A folder as a place of objects: each is a file, there whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from storage import regular_file, replaced_file
from storage.errors import IntegrityError, ObjectStoreError, PublishConflict, ReadOnlyError, StorageError
from storage.publication.object_store import Found
from storage.system_errors import mapped_os_error

WORKPLACE = ".publishing"  # holds the lock, and files on their way to their place
LEFT_SECONDS = 3600  # a file that is older was left by a publisher that was killed
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class DirectoryStore:
    """Objects as files below a folder, which is made by the first write.

    A new file is written in a folder beside, synced, and linked into its place: that fails where a file is. Replacing
    compares and renames under a lock on a file of its own.
    """

    def __init__(self, folder: Path, url: str, *, writable: bool) -> None:
        self.folder = folder
        self.url = url
        self.writable = writable
        self._made: set[Path] = set()
        self._swept = False

    def get(self, path: str, bytes_max: int) -> Found | None:
        """The file's bytes; its version is their SHA-256."""
        file = self.folder / path
        try:
            data = regular_file.read(file, bytes_max + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except IntegrityError as error:
            raise IntegrityError(str(error), file=path) from error
        except OSError as error:
            raise ObjectStoreError(f"{file}: can't be read: {error.strerror}") from error
        if len(data) > bytes_max:
            raise IntegrityError(f"{path}: expected at most {bytes_max} bytes, got more", file=path)
        return Found(data, hashlib.sha256(data).hexdigest())

    def put_new(self, path: str, data: bytes) -> bool:
        """Write a file where there is none."""
        file = self.folder / path
        with self._mapped(file), self._beside(file, data) as temporary:
            try:
                os.link(temporary, file)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                with self._locked():
                    if file.exists():
                        return False
                    temporary.replace(file)
        self._made.add(file.parent)
        return True

    def replace(self, path: str, data: bytes, etag: str | None) -> None:
        """Compare and rename, under the folder's lock."""
        file = self.folder / path
        with self._mapped(file), self._locked():
            try:
                now = hashlib.sha256(regular_file.read(file)).hexdigest()
            except FileNotFoundError:
                now = None
            if now != etag:
                raise PublishConflict(f"{file}: another publication has replaced it meanwhile")
            with self._beside(file, data) as temporary:
                temporary.replace(file)
            _sync_folder(file.parent)

    def list(self, prefix: str) -> Iterator[str]:
        """The files below a folder, in order."""
        top = self.folder / prefix
        try:
            for folder, folders, files in os.walk(top, onerror=_raise):
                folders.sort()
                for name in sorted(files):
                    yield (Path(folder) / name).relative_to(self.folder).as_posix()
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise ObjectStoreError(f"{top}: can't be read: {error.strerror}") from error

    def folders(self, prefix: str) -> Iterator[str]:
        """The folders right below a folder, in order."""
        try:
            with os.scandir(self.folder / prefix) as entries:
                yield from sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise ObjectStoreError(f"{self.folder / prefix}: can't be read: {error.strerror}") from error

    def delete(self, path: str) -> None:
        """Remove a file, and the folder of partial tiles that it leaves empty."""
        file = self.folder / path
        with self._mapped(file):
            file.unlink(missing_ok=True)
            if file.parent.suffix == ".p":
                with suppress(OSError):
                    file.parent.rmdir()

    def flush(self) -> None:
        """Sync the folders of new files, and those above them: the files themselves are synced."""
        with self._mapped(self.folder):
            folders = {above for folder in self._made for above in (folder, *folder.parents)}
            for folder in sorted(folders):
                if folder == self.folder or self.folder in folder.parents:
                    _sync_folder(folder)
            if self._made:
                _sync_folder(self.folder.absolute().parent)
        self._made.clear()

    def close(self) -> None:
        """Nothing is held."""

    @contextmanager
    def _beside(self, file: Path, data: bytes) -> Iterator[Path]:
        """The data in a synced file beside its place, removed at the end where it still is."""
        if not self.writable:
            raise ReadOnlyError(f"{self.folder}: opened to read")
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._workplace() / f"{os.getpid()}-{os.urandom(8).hex()}"
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(descriptor)
            yield temporary
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if not self.writable:
            raise ReadOnlyError(f"{self.folder}: opened to read")
        descriptor = os.open(self._workplace() / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _workplace(self) -> Path:
        """The folder for what is on its way; the first time, what was left there long ago goes."""
        place = self.folder / WORKPLACE
        place.mkdir(parents=True, exist_ok=True)
        if not self._swept:
            self._swept = True
            for file in place.iterdir():
                with suppress(OSError):
                    if file.name != "lock" and file.stat().st_mtime < time.time() - LEFT_SECONDS:
                        file.unlink()
        return place

    @contextmanager
    def _mapped(self, file: Path) -> Iterator[None]:
        try:
            yield
        except StorageError:
            raise
        except OSError as error:
            mapped = mapped_os_error(error, file)
            raise mapped if type(mapped) is not StorageError else ReadOnlyError(str(mapped)) from error


def _raise(error: OSError) -> None:
    raise error


def _sync_folder(folder: Path) -> None:
    with suppress(FileNotFoundError):  # the last partial tile of it was removed
        replaced_file.sync(folder)
