"""`droveway sweep SITE.toml --seeds A..B [--set KEY=VALUES …]`."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from droveway import exits
from droveway.exits import UsageProblem, quoted, reading, writing
from droveway.interrupt import StopRequest
from droveway.main import PATH, WholeNumber
from droveway.main import command as declare
from droveway.output import Output, table
from droveway.progress import Progress

SEEDS_MAX: Final = 1_000_000
# Measures of the text, with their decimals; the JSON has all that are numbers.
SHOWN: Final[tuple[tuple[str, str, int], ...]] = (
    ("services", "services", 1),
    ("coverage", "zones served, share", 4),
    ("assigned_of_ready", "ready agents with a zone, share", 4),
    ("travel_m_mean", "way an agent, m", 1),
    ("travel_ticks_mean", "travel ahead, ticks", 2),
    ("objective", "objective, 1/65536", 0),
    ("gap_median", "proven gap, median share", 4),
    ("gap_max", "proven gap, worst share", 4),
    ("gap_frames", "plans with a bound", 1),
    ("gap_fewer_assigned", "plans that serve fewer than could be", 1),
    ("gap_agents_left", "agents that those leave", 1),
    ("idle_p99_ticks", "idle ticks, p99", 0),
    ("idle_max_ticks", "idle ticks, longest", 0),
    ("fairness_service", "fairness of services", 4),
    ("switches_per_agent_per_100_ticks", "switches an agent, 100 ticks", 3),
    ("conflicts", "agents in conflict", 1),
    ("cell_conflicts", "cells shared", 1),
    ("min_separation_m", "smallest distance, m", 3),
)


@declare("sweep")
@click.argument("site", metavar="SITE.toml", type=PATH)
@click.option("--seeds", metavar="A..B|A,B,…", required=True, help="Seeds of the runs, both ends included.")
@click.option("--set", "settings", metavar="KEY=V,V,…", multiple=True, help="A key of SITE.toml and its values.")
@click.option("--ticks", metavar="N", type=WholeNumber(1, 2**64 - 1), default=200, show_default=True)
@click.option(
    "--jobs", metavar="N", type=WholeNumber(1, 1024), default=1, show_default=True, help="Processes, one thread each."
)
@click.option(
    "--verify", metavar="N", type=WholeNumber(0), default=0, show_default=True, help="Run N cases twice and compare."
)
@click.option(
    "--gap-every", metavar="N", type=WholeNumber(0), default=64, show_default=True, help="As of droveway metrics."
)
@click.option("-o", "--output", "folder", metavar="DIR", type=PATH, help="Keep runs and results; go on with a sweep.")
def command(
    out: Output,
    site: Path,
    seeds: str,
    settings: tuple[str, ...],
    ticks: int,
    jobs: int,
    verify: int,
    gap_every: int,
    folder: Path | None,
) -> int:
    """Run a site for every seed and every combination of values, and sum up what each combination comes to.

    With -o each run is kept in DIR/runs, its measures in DIR/results.jsonl; the same command goes on with a sweep that
    was interrupted. The results never depend on --jobs.
    """
    numbers, parameters = seeds_of(seeds), parameters_of(settings)
    if folder is not None and not folder.parent.is_dir():
        raise UsageProblem(folder, f"expected the folder {folder.parent} to exist", f"mkdir -p {quoted(folder.parent)}")
    from coord.measuring.sweep import process_pool, sweep
    from coord.sites.scenario import Scenario

    with reading(site):
        scenario = Scenario.load(site)
    with (
        StopRequest("finishing the runs at hand") as stop,
        Progress("runs", quiet=out.quiet) as progress,
        writing(folder or Path()),
    ):
        done = sweep(
            scenario, numbers, parameters, ticks, executor=None if jobs == 1 else process_pool(jobs), folder=folder,
            verify=verify, gap_every=gap_every, should_stop=stop, on_case=progress.update,
        )  # fmt: skip
    cases = len(done.cases)
    if done.reused:
        out.note(f"{folder}: {done.reused} runs were there already")
    if done.interrupted and folder is not None:
        out.note(f"{folder}: holds {cases} finished runs; the same command goes on")
    answer = {
        "type": "answer",
        "site": site,
        "name": scenario.setup.name,
        "ticks": ticks,
        "cases": cases,
        "verified": done.verified,
        "interrupted": done.interrupted,
        "digest": done.digest,
        "output": folder,
    }
    groups = done.summaries()
    for group in groups if out.as_json else ():
        measures = {name: spread._asdict() for name, spread in group.spreads.items()}
        record = {"type": "set", "parameters": group.parameters, "seeds": group.seeds, "ticks": ticks}
        out.result({**record, "metrics": measures}, "")
    out.result(answer, described(answer, groups))
    return exits.INTERRUPTED if done.interrupted else exits.YES


def seeds_of(text: str) -> list[int]:
    """Seeds from "0..9", "3", "1,5,7..9".

    >>> seeds_of("1,5,7..9")
    [1, 5, 7, 8, 9]
    """
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,20})(?:\.\.(\d{1,20}))?", part.strip(), re.ASCII)
        if match is None:
            raise UsageProblem(None, f"--seeds: expected A..B or A,B,…, got '{text}'")
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < 2**64:
            raise UsageProblem(
                None, f"--seeds: expected whole numbers below 2^64 in rising order, got '{part.strip()}'"
            )
        if len(found) + last - first >= SEEDS_MAX:
            raise UsageProblem(None, f"--seeds: expected at most {SEEDS_MAX} seeds, got more")
        found += range(first, last + 1)
    return found


def parameters_of(settings: Sequence[str]) -> dict[str, list[Any]]:
    """Keys and values of `--set KEY=V,V`: each value as in SITE.toml, a text also without quotes.

    >>> parameters_of(["plan.planner=greedy,swap", "agents.box=[0,0,5,5],[0,0,9,9]"])
    {'plan.planner': ['greedy', 'swap'], 'agents.box': [[0, 0, 5, 5], [0, 0, 9, 9]]}
    """
    found: dict[str, list[Any]] = {}
    for setting in settings:
        key, equals, values = setting.partition("=")
        key = key.strip()
        if not (key and equals and values.strip()):
            raise UsageProblem(None, f"--set: expected KEY=VALUE,VALUE…, got '{setting}'")
        if key in found:
            raise UsageProblem(None, f"--set: expected each key once, got {key} twice")
        found[key] = [_value(part) for part in _parts(values)]
    return found


def _parts(text: str) -> list[str]:
    """The values of a list: commas inside brackets and quotes do not part them."""
    parts, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        depth += 0 if quote else (character == "[") - (character == "]")
        if character == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _value(text: str) -> Any:
    try:
        parsed = tomllib.loads(f"v = {text}")
    except (tomllib.TOMLDecodeError, ValueError, RecursionError):
        return text
    value = parsed["v"]
    plain = len(parsed) == 1 and isinstance(value, str | int | float | list)
    return value if plain else text


def described(answer: Mapping[str, Any], groups: Sequence[Any]) -> str:
    """A block for each set of parameters, then the answer."""
    from coord.measuring.sweep_case import shown_value

    blocks = []
    for group in groups:
        chosen = ", ".join(f"{key}={shown_value(value)}" for key, value in group.parameters.items()) or "as the site is"
        rows: list[tuple[str, ...]] = [
            (f"{group.seeds} seeds" if group.seeds > 1 else "1 seed", "mean", "median", "min", "max")
        ]
        for key, words, digits in SHOWN:
            spread = group.spreads.get(key)
            if spread is not None:
                rows.append((words, *(f"{value:.{digits}f}" for value in spread[:4])))
        blocks.append(f"{chosen}\n{table(_right(rows), indent='  ')}")
    cut = " (interrupted)" if answer["interrupted"] else ""
    lines = [
        ("site", f"{answer['site']}: {answer['name']}, {answer['ticks']} ticks"),
        ("runs", f"{answer['cases']}{cut}" + (f", {answer['verified']} made twice" if answer["verified"] else "")),
        ("digest", str(answer["digest"])),
    ]
    if answer["output"] is not None:
        lines.append(("results", f"{answer['output']}" + ("" if answer["interrupted"] else "/results.jsonl")))
    return "\n\n".join([*blocks, table(lines)])


def _right(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Numbers stand under each other by their last digit."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [(row[0], *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))) for row in rows]
