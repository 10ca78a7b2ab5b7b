"""Recorded pictures have their digests with every build and any number of threads."""

from __future__ import annotations

import pytest

from splat import _kernels

ISA = _kernels.isa()


@pytest.mark.parametrize("threads_used", [1, 2, 3, 7])
def test_pictures_have_their_recorded_digests(golden, golden_pictures, threads, threads_used):
    threads(threads_used)
    assert golden_pictures.digests() == golden["pictures"]


@pytest.mark.parametrize("isa", ["v3", "v4", "neon", "ref"])
def test_every_build_draws_the_recorded_pictures(golden, repository, python, isa):
    done = python(
        f"import sys; sys.path.insert(0, {str(repository / 'tests')!r}); import runpy; "
        f"runpy.run_path({str(repository / 'tests' / 'golden_pictures.py')!r}, run_name='__main__')",
        DROVEWAY_ISA=isa,
    )
    if done.returncode != 0 and isa not in (ISA, "ref"):  # this machine has another processor: that must be said
        assert "is not a build of droveway" in done.stderr or "needs a CPU with" in done.stderr
        return
    found = dict(line.split("=") for line in done.stdout.splitlines())
    assert found == golden["pictures"], done.stderr
