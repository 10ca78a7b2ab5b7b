"""Output files that are there whole or not at all: written beside the target, synced, then renamed over it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def whole_write(target: Path) -> Iterator[BinaryIO]:
    """A stream whose bytes stand under the name `target` after the block; if the block raises, nothing is left of them.

    An OSError names the target, not the file beside it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with whole_write(Path(folder, "a.bin")) as stream:
    ...         _ = stream.write(b"all of it")
    ...     [(file.name, file.read_bytes()) for file in Path(folder).iterdir()]
    [('a.bin', b'all of it')]
    """
    # Not by tempfile, which brings 1 MB of modules. Short: the target's name may be as long as names can be.
    beside = target.with_name(f".{os.urandom(8).hex()}.tmp")
    try:
        with beside.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        if isinstance(error, OSError):
            error.filename, error.filename2 = str(target), None  # the name that the caller knows
        raise
