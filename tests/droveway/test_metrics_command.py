"""`droveway metrics`: the numbers of coord.metrics, side by side, as JSON and as a picture."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from coord import metrics
from droveway.commands.metrics import BY_STATUS, LINES, described
from droveway.metrics_picture import RUNS, Curve, MetricsPicture, Panel, number_text, ticks_of
from droveway.metrics_series import COLUMNS_MAX, Series

Ask = Callable[..., Any]


@pytest.fixture(scope="session")
def greedy_run(tmp_path_factory: pytest.TempPathFactory, yard: Path) -> Path:
    from droveway.main import run

    folder = tmp_path_factory.mktemp("yard") / "greedy"
    assert run(["simulate", str(yard), "-o", str(folder), "--ticks", "30", "--planner", "greedy", "--quiet"]) == 0
    return folder


def test_the_record_is_what_python_measures(ask: Ask, yard_run: Path) -> None:
    told = ask("metrics", yard_run, "--json", "--from", 3, "--to", 20, "--gap-every", 2)
    expected = metrics(yard_run, first_tick=3, last_tick=20, gap_every=2)
    assert told.code == 0
    assert {name: told.record[name] for name in expected.to_map()} == json.loads(json.dumps(expected.to_map()))
    assert (told.record["name"], told.record["planner"], told.record["gap_frames"]) == ("yard", "swap", 9)


def test_several_runs_stand_side_by_side(ask: Ask, yard_run: Path, greedy_run: Path) -> None:
    told = ask("metrics", yard_run, greedy_run)
    rows = dict(line.split("  ", 1) for line in told.out.splitlines())
    assert rows["planner"].split() == ["swap", "greedy"]
    assert rows["zones served"].split("%")[0].strip()
    records = ask("metrics", yard_run, greedy_run, "--json").records
    assert [record["planner"] for record in records] == ["swap", "greedy"]
    lines = sum(max(len({*records[0][key], *records[1][key]}), 1) for key in BY_STATUS)
    assert len(rows) == 4 + len(LINES) - len(BY_STATUS) + lines
    assert records[0]["digest"] in rows["digest"] and records[1]["digest"] in rows["digest"]


def test_a_status_has_a_line_of_its_own(ask: Ask, yard_run: Path) -> None:
    record = ask("metrics", yard_run, "--json").record
    one = {**record, "rejections": {"conflict": 1200, "low_energy": 3}, "not_ready": {}}
    two = {**record, "rejections": {"low_energy": 4}, "not_ready": {}}
    lines = [" ".join(line.split()) for line in described([one, two], None).splitlines()]
    assert [line for line in lines if line.startswith(("turned", "not ready"))] == [
        "turned down: conflict 1 200 0",
        "turned down: low_energy 3 4",
        "not ready none none",
    ]


def test_the_picture_shows_a_curve_of_each_run(ask: Ask, yard_run: Path, greedy_run: Path, tmp_path: Path) -> None:
    told = ask("metrics", yard_run, greedy_run, "--png", tmp_path / "a.png", "--json")
    assert [record["png"] for record in told.records] == [str(tmp_path / "a.png")] * 2
    ask("metrics", yard_run, greedy_run, "--png", tmp_path / "b.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    pixels = np.asarray(Image.open(tmp_path / "a.png"))
    for colour in RUNS[:2]:
        assert (pixels == colour).all(axis=2).sum() > 500
    assert not (pixels == RUNS[2]).all(axis=2).any()


def test_what_is_asked_wrongly_is_told_before_anything_is_read(ask: Ask, yard_run: Path, tmp_path: Path) -> None:
    told = ask("metrics", yard_run, "--png", tmp_path / "a.jpg")
    assert (told.code, told.err) == (
        2, f"error: {tmp_path}/a.jpg: expected an output that ends in .png, got '.jpg'\n",
    )  # fmt: skip
    told = ask("metrics", yard_run, "--from", 9, "--to", 3)
    assert (told.code, told.err) == (2, "error: expected --from at or before --to, got 9 and 3\n")
    told = ask("metrics", yard_run, "--from", 500)
    assert told.code == 2
    assert told.err.splitlines()[0] == f"error: {yard_run}: expected planned ticks from 500, found none"
    told = ask("metrics", tmp_path / "nothing")
    assert told.code == 3 and str(tmp_path / "nothing") in told.err


def test_columns_are_shared_when_there_are_too_many() -> None:
    series = Series()
    for tick in range(10_000):
        series.add(tick, [("gap", float(tick)), ("rare", 1.0 if tick % 1000 == 0 else None)])
    assert len(series.columns) <= COLUMNS_MAX
    spans = [span for _, span in series.of("gap")]
    assert sum(span.count for span in spans) == 10_000
    assert [span.low for span in spans[1:]] == [span.high + 1 for span in spans[:-1]]
    assert sum(span.count for _, span in series.of("rare")) == 10


@pytest.mark.parametrize("values", [[], [0.0], [-3e9, 7e-9], [5.0] * 700, [1e18, -1e18]])
def test_any_series_can_be_drawn(values: list[float], tmp_path: Path) -> None:
    series = Series()
    for tick, value in enumerate(values):
        series.add(tick, [("a", value)])
    curves = [Curve("a run with a long name " * 4, series)] * 5
    MetricsPicture("ä", "", curves, [Panel("a", "a"), Panel("b", "b", dots=True)]).save(tmp_path / "a.png")
    assert Image.open(tmp_path / "a.png").size[0] == 1600


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-5.0, 93.0), (1e-9, 3e-9), (-2e12, 7e12), (3.0, 3.0)])
def test_axis_marks_enclose_the_values_and_read_differently(low: float, high: float) -> None:
    marks = ticks_of(low, high, 4)
    assert marks[0] <= low and marks[-1] >= high and 2 <= len(marks) <= 7
    texts = [number_text(mark, marks[1] - marks[0]) for mark in marks]
    assert len(set(texts)) == len(texts)
    assert max(map(len, texts)) <= 7
