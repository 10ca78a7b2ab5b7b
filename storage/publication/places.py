"""Which place a path or a URL names, and opening it: a folder, or whatever obstore opens."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from storage.errors import MissingExtraError, NotALedgerError, ObjectStoreError, PublishConflict
from storage.publication.object_store import ObjectStore


def is_url(text: str) -> bool:
    """Whether a text is a URL and no path.

    >>> is_url("s3://bucket/run"), is_url("runs/a:b")
    (True, False)
    """
    scheme, mark, _ = text.partition("://")
    return bool(mark) and scheme.isascii() and scheme.replace("+", "").replace("-", "").isalnum()


def folder_of(url: str) -> Path | None:
    """The folder that a path or a file URL names; None for other URLs.

    Raises ObjectStoreError for an empty text and what is no URL, NotALedgerError for a file URL without a folder or
    with a foreign host.
    """
    if not url:
        raise ObjectStoreError("expected a path or a URL, got nothing")
    if not is_url(url):
        return Path(url)
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ObjectStoreError(f"{url}: expected a URL: {error}") from error
    if parts.scheme != "file":
        return None
    if parts.netloc not in ("", "localhost"):
        raise NotALedgerError(f"{url}: expected file:///FOLDER, got the host {parts.netloc!r}")
    if not parts.path:
        raise NotALedgerError(f"{url}: expected file:///FOLDER, got no folder")
    return Path(unquote(parts.path))


def holds_run(folder: Path) -> bool:
    """Whether a folder is that of a run, which is no place to publish to."""
    return (folder / "HEAD").exists() or (folder / "ledger").is_dir()


def open_store(url: str, *, writable: bool) -> ObjectStore:
    """The place that a URL names: a folder (a path, or file:///…) or what obstore opens (s3, gs, az, http, https).

    Credentials and options come from the environment (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, AWS_ALLOW_HTTP, …).

    Raises MissingExtraError without obstore, ObjectStoreError for a URL that it can't open.
    """
    folder = folder_of(url)
    if folder is not None:
        from storage.publication.directory_store import DirectoryStore

        if writable and any(map(holds_run, (folder.absolute(), *folder.absolute().parents))):
            raise PublishConflict(f"{folder}: lies in the folder of a run: publish to another place")
        return DirectoryStore(folder, url, writable=writable)
    try:
        import obstore  # noqa: F401
    except ImportError:
        scheme = url.partition("://")[0]
        raise MissingExtraError(f"{url}: {scheme} needs the package obstore", "pip install 'droveway[cloud]'") from None
    from storage.publication.cloud_store import CloudStore

    if writable and urlsplit(url).scheme in ("http", "https") and not CloudStore.is_cloud(url):
        raise ObjectStoreError(f"{url}: a web server is read only: publish to the folder that it serves, or to s3://")
    return CloudStore(url)
