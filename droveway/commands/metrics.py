"""`droveway metrics RUN|URL …`."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from droveway import exits
from droveway.exits import InputProblem, UsageProblem, quoted
from droveway.main import PATH, WholeNumber, place
from droveway.main import command as declare
from droveway.output import Output, table
from droveway.progress import Progress

if TYPE_CHECKING:
    from droveway.metrics_series import Series


@declare("metrics")
@click.argument("runs", metavar="RUN|URL …", nargs=-1, required=True, type=place)
@click.option("--from", "start", metavar="T", type=WholeNumber(0), help="First tick; default: the run's.")
@click.option("--to", "stop", metavar="T", type=WholeNumber(0), help="Last tick; default: the run's.")
@click.option(
    "--gap-every",
    metavar="N",
    type=WholeNumber(0),
    default=64,
    show_default=True,
    help="Prove a bound for frames with a number that N divides; 0: for none.",
)
@click.option("--png", metavar="F", type=PATH, help="Draw the measures over time into this file.")
def command(
    out: Output, runs: tuple[Path | str, ...], start: int | None, stop: int | None, gap_every: int, png: Path | None
) -> int:
    """Measure runs from their ledgers: travel, objective and gap, coverage, idle times, fairness, conflicts, refusals.

    Several runs stand side by side. What each measure is: docs/metrics.md.
    """
    if start is not None and stop is not None and start > stop:
        raise UsageProblem(None, f"expected --from at or before --to, got {start} and {stop}")
    if png is not None:
        from droveway.whole_file import require_ending, require_place

        require_ending(png, ".png")
        require_place(png)
    measured = [_measure(out, run, start, stop, gap_every, keep=png is not None) for run in runs]
    if png is not None:
        _draw(png, measured)
    for record, _ in measured:
        if out.as_json:
            out.result({**record, "png": png}, "")
    if not out.as_json:
        out.result({}, described([record for record, _ in measured], png))
    return exits.YES


def _measure(
    out: Output, run: Path | str, start: int | None, stop: int | None, gap_every: int, *, keep: bool
) -> tuple[dict[str, Any], "Series"]:
    """The record of one run, and its measures over time where they are wanted."""
    from coord.measuring.metrics import tick_metrics
    from coord.measuring.scorer import Scorer
    from droveway.metrics_series import Series
    from droveway.reading_run import opened_run

    scorer, series = Scorer(), Series()
    with opened_run(out, run) as reader, Progress("frames", quiet=out.quiet) as progress:
        setup = reader.scenario
        ticks = tick_metrics(reader, scorer, first_tick=start, last_tick=stop, gap_every=gap_every)
        for done, one in enumerate(ticks, start=1):
            progress.update(done, None)
            if keep:
                series.add_tick(one)
        size, root = reader.size, reader.root
    found = scorer.result()
    if not found.frames:
        if start is None and stop is None:
            raise InputProblem(run, "expected at least one planned tick, found none")
        wanted = f"from {start or 0}" + ("" if stop is None else f" to {stop}")
        raise UsageProblem(
            run, f"expected planned ticks {wanted}, found none", f"droveway info {quoted(run)} shows its ticks"
        )
    head = {"run": run, "name": setup.name, "seed": setup.seed, "planner": setup.planner}
    return {**head, **found.to_map(), "size": size, "root": root}, series


def _draw(png: Path, measured: Sequence[tuple[dict[str, Any], "Series"]]) -> None:
    from droveway.metrics_picture import Curve, draw_metrics
    from droveway.whole_file import whole_file

    title = ", ".join(sorted({str(record["name"]) for record, _ in measured}))
    with whole_file(png) as file:
        draw_metrics(file, title, [Curve(_label(record), series) for record, series in measured])


def _label(record: Mapping[str, Any]) -> str:
    name = str(record["run"]).rstrip("/").rpartition("/")[2]
    return f"{name}: {record['planner']}, seed {record['seed']}, {record['agents']} agents, {record['zones']} zones"


def _count(value: Any) -> str:
    return f"{value:,}".replace(",", " ")


def _share(value: float) -> str:
    return f"{100 * value:.2f} %"


def _decimal(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 1000 else _count(round(value))


def _fine(value: float) -> str:
    return f"{value:.4f}"


# Key, words, unit, how it is written.
LINES: Final[tuple[tuple[str, str, Callable[[Any], str]], ...]] = (
    ("frames", "plans", _count),
    ("agents", "agents", _count),
    ("zones", "zones", _count),
    ("assigned_of_ready", "ready agents with a zone", _share),
    ("services", "services", _count),
    ("coverage", "zones served", _share),
    ("cover_tick", "all served by tick", _count),
    ("idle_p50_ticks", "idle ticks, median", _count),
    ("idle_p99_ticks", "idle ticks, p99", _count),
    ("idle_max_ticks", "idle ticks, longest", _count),
    ("makespan_ticks", "makespan, ticks", _count),
    ("travel_ticks_mean", "travel ahead, mean ticks", _decimal),
    ("travel_m_total", "way, m", _decimal),
    ("travel_m_mean", "way an agent, m", _decimal),
    ("objective", "objective, 1/65536", _count),
    ("gap_median", "proven gap, median", _share),
    ("gap_p99", "proven gap, p99", _share),
    ("gap_max", "proven gap, worst", _share),
    ("gap_frames", "plans with a bound", _count),
    ("gap_fewer_assigned", "plans that serve fewer than could be", _count),
    ("gap_agents_left", "agents that those leave", _count),
    ("fairness_travel", "fairness of ways", _fine),
    ("fairness_service", "fairness of services", _fine),
    ("switches_per_agent_per_100_ticks", "switches an agent, 100 ticks", _decimal),
    ("conflicts", "agents in conflict", _count),
    ("cell_conflicts", "cells shared", _count),
    ("edge_conflicts", "edges crossed both ways", _count),
    ("min_separation_m", "smallest distance, m", _decimal),
    ("blocked_zones", "zones blocked", _count),
    ("rejections", "turned down", _count),
    ("not_ready", "not ready", _count),
    ("digest", "digest", str),
)
BY_STATUS: Final = ("rejections", "not_ready")  # counts by name: a line a name that one of the runs has


def described(records: Sequence[Mapping[str, Any]], png: Path | None) -> str:
    """The records for people, a column each."""
    rows: list[tuple[str, ...]] = [
        ("run", *(str(record["run"]) for record in records)),
        ("site", *(f"{record['name']}, seed {record['seed']}" for record in records)),
        ("planner", *(str(record["planner"]) for record in records)),
        ("ticks", *(f"{record['first_tick']} to {record['last_tick']}" for record in records)),
    ]
    for key, words, written in LINES:
        if key in BY_STATUS:
            names = dict.fromkeys(name for record in records for name in record[key])
            rows += [(f"{words}: {name}", *(_count(record[key].get(name, 0)) for record in records)) for name in names]
            if not names:
                rows.append((words, *("none" for _ in records)))
            continue
        cells = ["–" if record[key] is None else written(record[key]) for record in records]
        rows.append((words, *cells))
    if png is not None:
        rows.append(("picture", str(png), *("" for _ in records[1:])))
    return table(rows)
