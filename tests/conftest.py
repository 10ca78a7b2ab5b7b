"""What tests of all areas share: real data, pages, fresh interpreters, golden values."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import signal
import struct
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent


def pytest_configure() -> None:
    """Child processes start as a user's would: with Ctrl-C (a shell's background jobs have it ignored, and children
    inherit that), and without the current folder, which may be a clone, in front of what is installed."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ["PYTHONSAFEPATH"] = "1"


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def golden() -> dict[str, dict[str, str]]:
    """tests/golden.toml."""
    return tomllib.loads((ROOT / "tests" / "golden.toml").read_text())


@pytest.fixture(scope="session")
def page_hex() -> Callable[[str, str], bytes]:
    """page_hex("records", "config"): the bytes of the block ```hex config in docs/formats/records.md."""

    def read(page: str, name: str) -> bytes:
        text = (ROOT / "docs" / "formats" / f"{page}.md").read_text()
        found = re.search(rf"```hex {name}\n(.*?)```", text, re.DOTALL)
        assert found is not None
        return bytes.fromhex(found[1])

    return read


@pytest.fixture(scope="session")
def data() -> Callable[[str], Path]:
    """data("maps/x.map"): a file of the shared real inputs ($DROVEWAY_DATA, else ../shared/data beside the checkout).

    A missing one skips the test with the reason, or fails it under DROVEWAY_DATA_REQUIRED=1.
    """
    folders = [Path(os.environ["DROVEWAY_DATA"])] if "DROVEWAY_DATA" in os.environ else []
    folders += [folder / "shared" / "data" for folder in (ROOT.parent, ROOT.parent.parent)]

    def find(name: str) -> Path:
        for folder in folders:
            if (folder / name).exists():
                return folder / name
        reason = f"no {name} in {folders[0]} (set DROVEWAY_DATA)"
        if os.environ.get("DROVEWAY_DATA_REQUIRED") == "1":
            pytest.fail(reason)
        pytest.skip(reason)

    return find


@pytest.fixture
def python(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """python(code, **environment): runs code in a fresh interpreter, away from the source folder, within a minute."""

    def run(code: str, *, seconds: float = 60, **environment: str) -> subprocess.CompletedProcess[str]:
        names = {"DROVEWAY_ISA", "DROVEWAY_THREADS"}
        inherited = {name: value for name, value in os.environ.items() if name not in names}
        return subprocess.run(
            [sys.executable, "-c", code],
            check=False,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**inherited, **environment},
            timeout=seconds,
        )

    return run


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    """threads(n) sets the number of kernel threads; the old number comes back after the test."""
    from tensor import _kernels

    before = _kernels.threads()
    yield _kernels.set_threads
    _kernels.set_threads(before)


@pytest.fixture
def hostile_mode() -> Callable[[], AbstractContextManager[None]]:
    """with hostile_mode(): round up, flush subnormals and take them as zero, for this thread, all through the block."""

    @contextmanager
    def enter() -> Iterator[None]:
        libm = ctypes.CDLL("libm.so.6")
        saved = ctypes.create_string_buffer(64)
        libm.fegetenv(saved)
        hostile = bytearray(saved.raw)
        offset, bits = (28, 0x8040 | 0x4000) if platform.machine() == "x86_64" else (0, 1 << 24 | 1 << 22)
        (control,) = struct.unpack_from("<I", hostile, offset)
        struct.pack_into("<I", hostile, offset, control | bits)
        libm.fesetenv(ctypes.create_string_buffer(bytes(hostile), 64))
        try:
            yield
            tiny, one = np.array([1e-40], np.float32), np.ones(1, np.float32)
            assert (tiny * one)[0] == 0, "the host's mode is not there any more"
            assert (one + np.float32(2.0**-24))[0] > 1
        finally:
            libm.fesetenv(saved)

    return enter
