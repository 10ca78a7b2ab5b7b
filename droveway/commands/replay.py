"""`droveway replay RUN|URL`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from droveway import exits
from droveway.exits import InputProblem, UsageProblem, quoted, writing
from droveway.main import PATH, WholeNumber, place
from droveway.main import command as declare
from droveway.output import Output, table

CHANGES_SHOWN: Final = 12


@declare("replay")
@click.argument("run", metavar="RUN|URL", type=place)
@click.option("--from", "start", metavar="T", type=WholeNumber(0), help="First tick; default: the run's.")
@click.option("--to", "stop", metavar="T", type=WholeNumber(0), help="Last tick; default: the run's.")
@click.option("--png", metavar="F", type=PATH, help="Draw paths and zones into this file.")
def command(out: Output, run: Path | str, start: int | None, stop: int | None, png: Path | None) -> int:
    """Say what happened in a run, from its ledger alone or from where it is published, and draw it with --png.

    The ledger holds the state at the start of each planned tick: services and ways count up to the start of the last
    one, and what the run did after that is not in it. Nothing is planned again and nothing is proven: that is
    `droveway verify`.
    """
    if start is not None and stop is not None and start > stop:
        raise UsageProblem(None, f"expected --from at or before --to, got {start} and {stop}")
    if png is not None and png.suffix.lower() != ".png":
        raise UsageProblem(png, f"--png: expected a file that ends in .png, got '{png.suffix}'")
    if png is not None and not png.parent.is_dir():
        raise UsageProblem(png, f"expected the folder {png.parent} to exist", f"mkdir -p {quoted(png.parent)}")
    from coord.health import CoordHealth
    from droveway.change_text import change_counts, change_line
    from droveway.reading_run import opened_run
    from droveway.run_tracks import draw_tracks, read_tracks

    with opened_run(out, run) as reader:
        setup = reader.scenario
        tracks = read_tracks(reader, start, stop, keep_points=png is not None)
        size, root = reader.size, reader.root
    if tracks.first is None:
        wanted = f"from {start or 0}" + ("" if stop is None else f" to {stop}")
        if start is None and stop is None:
            raise InputProblem(run, "expected at least one planned tick, found none")
        hint = f"droveway info {quoted(run)} shows its ticks"
        raise UsageProblem(run, f"expected planned ticks {wanted}, found none", hint)
    health = CoordHealth(tracks.health_worst).name.lower()
    record: dict[str, object] = {
        "run": run,
        "name": setup.name,
        "seed": setup.seed,
        "planner": setup.planner,
        "first_tick": tracks.first,
        "last_tick": tracks.last,
        "frames": tracks.frames,
        "agents": len(tracks.agents),
        "zones": len(tracks.zones),
        "assigned_per_frame": tracks.assigned / tracks.frames,
        "rejected_per_frame": tracks.rejected / tracks.frames,
        "conflicts_per_frame": tracks.conflicts / tracks.frames,
        "services": tracks.services,
        "zones_served": int((tracks.served > 0).sum()),
        "way_m": tracks.steps_m,
        "health_worst": health,
        "events": change_counts(tracks.changes),
        "size": size,
        "root": root,
        "png": png,
    }
    if png is not None:
        ticks = f"ticks {tracks.first} to {tracks.last}"
        fleet = f"{len(tracks.agents)} agents · {len(tracks.zones)} zones · {tracks.services} services"
        subtitle = f"{ticks} · {fleet} · planner {setup.planner} · seed {setup.seed}"
        with writing(png):
            draw_tracks(tracks, setup, subtitle, f"drawn from the ledger alone · root {root.hex()}", png)
    out.result(record, described(record, [change_line(change) for change in tracks.changes]))
    return exits.YES


def described(record: dict[str, object], changes: Sequence[str]) -> str:
    """The record for people, with a line a change from outside: the first ones where there are many."""
    root = record["root"]
    assert isinstance(root, bytes)
    fleet = f"{record['agents']} agents, {record['zones']} zones"
    plan = (
        f"{record['assigned_per_frame']:.2f} agents with a zone, {record['rejected_per_frame']:.2f} turned down "
        f"({record['conflicts_per_frame']:.2f} as others won every zone they could take); "
        f"worst health {record['health_worst']}"
    )
    services = f"{record['services']} services"
    more = len(changes) - CHANGES_SHOWN
    rows = [
        ("run", f"{record['run']}"),
        ("site", f"{record['name']}, seed {record['seed']}, planner {record['planner']}"),
        ("fleet", fleet),
        ("ticks", f"{record['first_tick']} to {record['last_tick']}, {record['frames']} plans"),
        ("a plan", plan),
        ("zones", f"{services} at {record['zones_served']} zones, up to the start of tick {record['last_tick']}"),
        ("way", f"{record['way_m']:.0f} m, all agents together"),
        *(("events" if i == 0 else "", line) for i, line in enumerate(changes[:CHANGES_SHOWN])),
        *([("", f"and {more} more: --json counts them")] if more > 0 else ()),
        ("ledger", f"{record['size']} events"),
        ("root", root.hex()),
    ]
    if record["png"] is not None:
        rows.append(("picture", f"{record['png']}"))
    return table(rows)
