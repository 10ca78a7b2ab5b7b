"""An S3-compatible store, or another that obstore opens, as a place of objects."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import from_url

from storage.errors import IntegrityError, ObjectStoreError, PublishConflict, ReadOnlyError
from storage.publication.object_store import Found

RETRIES_MAX = 5
RETRY_SECONDS_MAX = 20
_FOR_EVER = "public, max-age=31536000, immutable"
_SHORT = "public, max-age=3600"
_NEVER = "no-cache"


class CloudStore:
    """Objects below a URL; conditional writes are the store's own. Options come from the environment."""

    def __init__(self, url: str) -> None:
        self.url = url
        try:
            options: Any = {"client_options": {"allow_http": True}} if urlsplit(url).scheme == "http" else {}
            self._store: Any = from_url(url, retry_config=_retries(), **options)
        except (BaseError, ValueError, OSError) as error:
            raise ObjectStoreError(f"{url}: {_first_line(error)}") from error
        self._answered = False
        self._writes_attributes = urlsplit(url).scheme not in ("http", "https", "memory")

    @staticmethod
    def is_cloud(url: str) -> bool:
        """Whether an http or https URL is that of a bucket, which can be written to."""
        host = urlsplit(url).hostname or ""
        return host.endswith((".amazonaws.com", ".windows.net", ".cloudflarestorage.com", ".fabric.microsoft.com"))

    def get(self, path: str, bytes_max: int) -> Found | None:
        """The object in one request; its size is looked at before its bytes."""
        with self._mapped(path):
            try:
                answer = obstore.get(self._store, path)
            except FileNotFoundError:
                return None
            except PermissionDeniedError:
                if self._answered:  # without the right to list, S3 denies what does not exist
                    return None
                raise
            self._answered = True
            size = answer.meta["size"]
            if size > bytes_max:
                raise IntegrityError(f"{path}: expected at most {bytes_max} bytes, got {size}", file=path)
            return Found(bytes(answer.bytes()), answer.meta["e_tag"] or "")

    def put_new(self, path: str, data: bytes) -> bool:
        """If-None-Match: *."""
        with self._mapped(path):
            try:
                obstore.put(self._store, path, data, mode="create", attributes=self._attributes(path))
            except AlreadyExistsError:
                return False
        return True

    def replace(self, path: str, data: bytes, etag: str | None) -> None:
        """If-Match: the version; If-None-Match: * where there was none."""
        mode: Any = "create" if etag is None else {"e_tag": etag}
        with self._mapped(path):
            try:
                obstore.put(self._store, path, data, mode=mode, attributes=self._attributes(path))
            except (AlreadyExistsError, PreconditionError, FileNotFoundError) as error:
                raise PublishConflict(f"{self.url}: {path}: another publication has replaced it meanwhile") from error

    def list(self, prefix: str) -> Iterator[str]:
        """A thousand paths a request."""
        with self._mapped(prefix):
            for page in obstore.list(self._store, prefix.rstrip("/")):
                for meta in page:
                    yield meta["path"]

    def folders(self, prefix: str) -> Iterator[str]:
        """Common prefixes, in order."""
        with self._mapped(prefix):
            found = obstore.list_with_delimiter(self._store, prefix.rstrip("/"))
        yield from sorted(path.rstrip("/").rpartition("/")[2] for path in found["common_prefixes"])

    def delete(self, path: str) -> None:
        """One object."""
        with self._mapped(path):
            try:
                obstore.delete(self._store, path)
            except FileNotFoundError:
                return

    def flush(self) -> None:
        """What the store has answered is durable."""

    def close(self) -> None:
        """Nothing is held."""

    def _attributes(self, path: str) -> Any:
        if not self._writes_attributes:
            return None
        top = path.partition("/")[0]
        cache = _FOR_EVER if top == "tile" else _SHORT if top in ("payload", "blob") else _NEVER
        kind = "text/plain; charset=utf-8" if top in ("checkpoint", "retired") else "application/octet-stream"
        return {"Cache-Control": cache, "Content-Type": kind}

    @contextmanager
    def _mapped(self, path: str) -> Iterator[None]:
        try:
            yield
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise ReadOnlyError(f"{self.url}: {path}: access denied: {_first_line(error)}") from error
        except (BaseError, OSError) as error:
            raise _unreachable(self.url, path, error) from error


def _retries() -> Any:
    from datetime import timedelta

    return {"max_retries": RETRIES_MAX, "retry_timeout": timedelta(seconds=RETRY_SECONDS_MAX)}


def _unreachable(url: str, path: str, error: Exception) -> ObjectStoreError:
    text = _first_line(error)
    if "169.254.169.254" in text:  # where a machine of the cloud would find its credentials
        hint = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true for a public bucket"
        return ObjectStoreError(f"{url}: {path}: expected credentials for the store, found none", hint)
    return ObjectStoreError(f"{url}: {path}: {text}")


def _first_line(error: Exception) -> str:
    """What the store said, without the debugging text behind it."""
    return str(error).partition("\n")[0][:500]
