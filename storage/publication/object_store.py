"""Places that keep objects under paths: a directory, or whatever obstore opens. What publishing needs of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol


class Found(NamedTuple):
    """An object's bytes, and what names this version of it."""

    data: bytes
    etag: str


class ObjectReader(Protocol):
    """What reading needs of an object store."""

    def get(self, path: str, bytes_max: int) -> Found | None:
        """An object; None where there is none. Raises IntegrityError for one of more than `bytes_max` bytes."""


class ObjectStore(ObjectReader, Protocol):
    """Objects under relative paths with `/`.

    Every method raises ObjectStoreError where the place can't be reached or refuses, and of its kinds ReadOnlyError
    where writing is refused, StorageFullError without room.
    """

    url: str

    def put_new(self, path: str, data: bytes) -> bool:
        """Write an object where there is none; False, and nothing written, where there is one."""

    def replace(self, path: str, data: bytes, etag: str | None) -> None:
        """Write an object in the place of the version `etag`, or of none. Raises PublishConflict for another."""

    def list(self, prefix: str) -> Iterator[str]:
        """The paths of all objects below a folder."""

    def folders(self, prefix: str) -> Iterator[str]:
        """The names of the folders right below a folder."""

    def delete(self, path: str) -> None:
        """Remove an object; one that is not there is fine."""

    def flush(self) -> None:
        """Return after everything written is durable."""

    def close(self) -> None:
        """Release what is held."""
