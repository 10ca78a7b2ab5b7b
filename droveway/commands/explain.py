"""`droveway explain RUN --tick T (--agent ID | --zone ID)`."""

import sys
from pathlib import Path

import click

from droveway import exits
from droveway.exits import UsageProblem
from droveway.main import WholeNumber, place
from droveway.main import command as declare
from droveway.output import Output

SHOWN = 8


@declare("explain")
@click.argument("run", metavar="RUN|URL", type=place)
@click.option("--tick", metavar="T", type=WholeNumber(0), required=True)
@click.option("--agent", metavar="ID", type=WholeNumber(0), help="Why this agent has its zone, or none.")
@click.option("--zone", metavar="ID", type=WholeNumber(0), help="Why this zone went to its agent, or to nobody.")
@click.option("--all", "show_all", is_flag=True, help=f"All options exactly, not the {SHOWN} best.")
def command(out: Output, run: Path | str, tick: int, agent: int | None, zone: int | None, show_all: bool) -> int:
    """Explain one decision of a run: every term of every score, the failing test, who won, what would have to change.

    With --agent and --zone: that one pair. The decision is the last one made at or before T. A score is a whole number,
    65536 times the sum of its terms; "wins with" is the least change of it that would put the pair into the plan: with
    "~" an estimate: of the auction, of swap above 250,000 pairs of agents and zones, and where the plan is not the
    named planner's own.
    """
    if agent is None and zone is None:
        raise UsageProblem(None, "expected --agent ID or --zone ID, got neither", "droveway explain --help")
    from droveway.outside_ids import OutsideIds
    from droveway.reading_run import opened_run

    with opened_run(out, run) as reader:
        every = reader.scenario.every_ticks
        view = reader.state_at(tick)
        if view.frame.tick + every <= tick:
            raise UsageProblem(
                run, f"expected a tick of the run, got --tick {tick}", f"its last plan is of tick {view.frame.tick}"
            )
        ids = OutsideIds.of(reader.scenario)
        inside = {"agent": agent, "zone": zone}
        inside = {what: None if number is None else ids.inside(what, number) for what, number in inside.items()}
        told = view.explain(agent=inside["agent"], zone=inside["zone"], exact=sys.maxsize if show_all else SHOWN)
        told, queued = ids.explanation(told), ids.queued(view.rows)
    if view.frame.tick != tick:
        out.note(f"tick {tick} was not planned: this is the decision of tick {view.frame.tick}")
    from droveway.explanation_text import explanation_text

    record = {"frame_id": view.frame.frame_id, "rank": view.rank, **told.to_dict()}
    if ids.agents or ids.zones:
        record |= {f"internal_{what}": number for what, number in inside.items()}
    out.result(record, explanation_text(told, len(told.options) if show_all else SHOWN, queued))
    return exits.YES
