"""Each example runs, is short, prints little, and writes one picture."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parent.parent / "examples").glob("[0-9][0-9]_*.py"))


def test_there_are_examples() -> None:
    assert [path.name for path in EXAMPLES] == [
        "01_simulate.py",
        "02_audit.py",
        "03_search.py",
        "04_render.py",
        "05_mlp.py",
        "06_transformer_block.py",
        "07_ledger.py",
        "08_sweep.py",
    ]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_writes_one_picture(path: Path, tmp_path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 60
    folder = tmp_path / "made" / "by the example"
    done = subprocess.run(
        [sys.executable, str(path), str(folder)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert 2 <= len(done.stdout.splitlines()) <= 12
    (picture,) = folder.glob("*.png")
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_the_audit_example_names_the_forged_decision(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES[1]), str(tmp_path)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "honest: ok True, 60 decisions made again" in done.stdout
    assert "forged: ok False; frame 20 (tick 20, rank 42): agent 2: zone: expected " in done.stdout


def test_the_training_examples_learn(tmp_path: Path) -> None:
    for path in EXAMPLES[4:6]:
        done = subprocess.run(
            [sys.executable, str(path), str(tmp_path)], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        losses = [float(line.split("loss ")[1].split(",")[0]) for line in done.stdout.splitlines() if "loss " in line]
        assert losses == sorted(losses, reverse=True), done.stdout
        assert losses[-1] < losses[0] * 0.75
