"""A database that can't be opened, in the place of a store: whatever is read says why it can't be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from storage.engine.store import Entry
from storage.errors import IntegrityError


class LostStore:
    """A store of which nothing can be read or written. Every method but the last three raises IntegrityError."""

    def __init__(self, why: IntegrityError) -> None:
        self._why = why

    def _refuse(self) -> IntegrityError:
        error = IntegrityError(str(self._why), (), self._why.file)
        error.hint = self._why.hint
        return error

    def get(self, family: str, key: bytes) -> bytes | None:
        """Refused."""
        raise self._refuse()

    def get_many(self, family: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """Refused."""
        raise self._refuse()

    def scan(self, family: str, start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Refused when the first entry is asked for."""
        raise self._refuse()
        yield

    def last_key(self, family: str) -> bytes | None:
        """Refused."""
        raise self._refuse()

    def write(self, entries: Sequence[Entry], *, sync: bool) -> None:
        """Refused."""
        raise self._refuse()

    def sync(self) -> None:
        """Refused."""
        raise self._refuse()

    def flush(self) -> None:
        """Refused."""
        raise self._refuse()

    def compact(self) -> None:
        """Refused."""
        raise self._refuse()

    def faults(self) -> list[tuple[str, str]]:
        """The reason."""
        return [(self._why.file or "ledger", str(self._why))]

    def close(self) -> None:
        """Nothing is open."""

    def abandon(self) -> None:
        """Nothing is open."""
