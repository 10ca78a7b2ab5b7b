"""What tests of all areas share: real data, fresh interpreters, golden values."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

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
