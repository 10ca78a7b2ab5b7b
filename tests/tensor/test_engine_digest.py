"""One digest of every operation and of training: for every build, number of threads, stride and way to train."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tensor import _kernels
from tensor.primitives.registry import row

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))
try:
    import engine_digest
    import golden_rows
    import golden_training
    import large_rows
    import primitive_checks
finally:
    sys.path.remove(str(TESTS))

ROWS = [r.name for r in primitive_checks.rows()]
HINT = "a row or its samples changed (hint: python tests/regenerate_golden.py rows)"


def builds() -> list[str]:
    """The builds that this machine can run."""
    best = _kernels.isa_best()
    return [best] if best == "neon" else ["v3", "v4"][: ["v3", "v4"].index(best) + 1]


def command(isa: str, *options: str, folder: Path) -> dict[str, Any]:
    """What tests/engine_digest.py finds under one build; it must find no difference."""
    kept = folder / f"{isa}.json"
    done = subprocess.run(
        [sys.executable, str(TESTS / "engine_digest.py"), *options, "--json", str(kept)],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "DROVEWAY_ISA": isa},
        timeout=540,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(kept.read_text())
    return found


def test_every_row_has_a_golden_digest(golden: Any) -> None:
    assert sorted(golden["rows"]) == ROWS, HINT


def test_the_one_digest_is_made_of_all_others(golden: Any) -> None:
    reduced = {name: value for name, value in golden["training"].items() if name.endswith(", reduced")}
    assert {name.split(", ")[0] for name in reduced} == set(golden_training.REDUCED)
    assert golden["engine"]["digest"] == engine_digest.one_digest(golden["rows"], reduced), HINT


@pytest.mark.parametrize("layout", golden_rows.LAYOUTS)
def test_rows_give_the_golden_digests_whatever_the_strides(golden: Any, layout: str) -> None:
    assert golden_rows.digests(layout) == golden["rows"], HINT


def test_each_element_of_an_elementwise_row_is_the_same_alone() -> None:
    for r in primitive_checks.rows():
        if r.arity is None:
            continue
        for sample, dtype in golden_rows.cases(r):
            if [a.shape for a in sample.inputs] != [(37,)] * r.arity:
                continue
            inputs = primitive_checks.tensors_of(sample, dtype)
            whole = primitive_checks.run(r, inputs, sample.params)
            for i in range(37):
                alone = primitive_checks.run(r, tuple(x[i] for x in inputs), sample.params)
                for many, one in zip(whole, alone, strict=True):
                    assert primitive_checks.bits(many[i]) == primitive_checks.bits(one), (r.name, dtype, i)


@pytest.mark.parametrize("way", golden_training.WAYS)
@pytest.mark.parametrize("name", golden_training.REDUCED)
def test_training_gives_the_golden_digest_in_every_way(golden: Any, name: str, way: str) -> None:
    digest, losses = golden_training.train(golden_training.REDUCED[name], way)
    assert digest == golden["training"][f"{name}, reduced"]
    assert losses[-1] < 0.5 * losses[0]


def test_builds_and_threads_give_the_golden_digests_and_one_digest_of_large_rows(tmp_path: Path) -> None:
    options = ("--layouts", "contiguous", "--ways", "captured", "--large", "--threads")
    first = command(builds()[0], *options, "1", folder=tmp_path)
    last = command(builds()[-1], *options, "3", folder=tmp_path)
    assert first["isa"] == builds()[0]
    assert last["isa"] == builds()[-1]
    assert first["large"] == last["large"]


@pytest.mark.slow
def test_all_numbers_of_threads_give_the_golden_digests_and_one_digest_of_large_rows(tmp_path: Path) -> None:
    options = ("--layouts", "permuted", "--ways", "eager", "captured", "--large", "--threads", "1", "2", "3", "7")
    found = [command(isa, *options, folder=tmp_path) for isa in builds()]
    assert all(other["large"] == found[0]["large"] for other in found)


@pytest.mark.slow
def test_threads_share_the_work_of_every_row_that_has_a_threaded_kernel() -> None:
    kernels = {name for name in ROWS if row(name).devices["cpu"] == "kernel"}
    assert kernels > large_rows.SERIAL
    assert [name for name in sorted(kernels - large_rows.SERIAL) if not large_rows.shared(row(name))] == []


def test_a_digest_sees_one_other_bit_in_one_element(golden: Any) -> None:
    honest = row("neg")
    twin = honest.twin
    assert twin is not None

    def wrong(arrays: Any, params: Any) -> Any:
        out = twin(arrays, params).copy()
        if out.dtype == "float64" and out.size == 37:
            out.view("uint64")[36] ^= 1
        return out

    assert golden_rows.row_digest(honest, on_twins=True) == golden["rows"]["neg"]
    honest.twin = wrong
    try:
        assert golden_rows.row_digest(honest, on_twins=True) != golden["rows"]["neg"]
    finally:
        honest.twin = twin


def test_training_on_arm64_gave_what_is_golden_now(golden: Any, repository: Path) -> None:
    recorded = tomllib.loads((repository / "tests" / "arm64.toml").read_text())["training"]
    reduced = {name: value for name, value in golden["training"].items() if name.endswith(", reduced")}
    assert recorded == reduced, "steps of training changed (hint: python tests/arm64.py --record)"


@pytest.mark.slow
def test_the_twins_give_the_golden_digests(tmp_path: Path) -> None:
    found = command("ref", "--layouts", "contiguous", "reversed", "--ways", "eager", "captured", folder=tmp_path)
    assert found["isa"] == "ref"


FULL = [("v3", "2", "captured"), ("v4", "3", "eager"), ("neon", "1", "captured")]


@pytest.mark.slow
@pytest.mark.parametrize(("isa", "threads", "way"), [run for run in FULL if run[0] in builds()])
def test_a_hundred_steps_of_the_full_models_give_the_golden_digests(
    tmp_path: Path, isa: str, threads: str, way: str
) -> None:
    command(isa, "--threads", threads, "--layouts", "--full", "--ways", way, folder=tmp_path)
