"""The golden searches: the same answers from every build, number of threads, batch and way to the rows."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tensor import _kernels


@pytest.fixture
def searches(repository: Path) -> Iterator[ModuleType]:
    sys.path.insert(0, str(repository / "tests"))
    try:
        import golden_search

        yield golden_search
    finally:
        sys.path.remove(str(repository / "tests"))


def builds() -> list[str]:
    best = _kernels.isa_best()
    return ["ref", best] if best == "neon" else ["ref", *["v3", "v4"][: ["v3", "v4"].index(best) + 1]]


@pytest.mark.parametrize("isa", builds())
def test_every_build_gives_the_golden_answers(golden, python, repository: Path, isa: str):
    code = f"""
import json, sys
sys.path.insert(0, {str(repository / "tests")!r})
import golden_search
print(json.dumps(golden_search.digests()))
"""
    done = python(code, DROVEWAY_ISA=isa, DROVEWAY_THREADS="3", PYTHONHASHSEED="7")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == golden["search"]


@pytest.mark.parametrize("number", [1, 2, 3, 7])
def test_threads_do_not_show_in_an_answer(golden, searches, threads: Callable[[int], None], number: int):
    threads(number)
    assert searches.digests() == golden["search"]


@pytest.mark.parametrize("batch", [1, 17, 1000])
def test_neither_batches_nor_a_reload_show_in_an_answer(golden, searches, batch: int):
    assert searches.digests(batch) == golden["search"]
    assert searches.digests(batch, reload=True) == golden["search"]
