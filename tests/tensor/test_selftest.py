"""The self-test: kernels, twins and golden digests agree."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec

import pytest

from tensor import _kernels

PACKAGES = ("tensor", "vector", "splat", "storage", "coord")
AREAS = [area for area in PACKAGES if find_spec(f"{area}.selftest_ref") is not None]


def builds():
    """The builds that this machine can run."""
    levels = ["v3", "v4", "neon"]
    best = _kernels.isa_best()
    return [best] if best == "neon" else levels[: levels.index(best) + 1]


def of_area(golden, area):
    return {name: value for name, value in golden["selftest"].items() if name.startswith(f"{area}.")}


@pytest.mark.parametrize("area", AREAS)
def test_twins_give_the_golden_digests(golden, area):
    assert import_module(f"{area}.selftest_ref").digests() == of_area(golden, area)


@pytest.mark.parametrize("number", [1, 2, 3, 7])
@pytest.mark.parametrize("area", AREAS)
def test_kernels_give_the_golden_digests_on_every_build_and_any_threads(golden, threads, area, number):
    threads(number)
    for isa in builds():
        assert import_module(f"{area}._kernels").self_test(isa) == of_area(golden, area), isa


@pytest.mark.slow
def test_the_standalone_program_gives_the_golden_digests_on_all_targets(repository, tmp_path):
    options = [] if shutil.which("aarch64-linux-gnu-g++") and shutil.which("qemu-aarch64-static") else ["--native"]
    command = [sys.executable, str(repository / "tests" / "selftest_targets.py"), "--build", str(tmp_path), *options]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
