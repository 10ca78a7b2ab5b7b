"""`droveway simulate SITE.toml -o RUN`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from droveway import exits
from droveway.exits import InputProblem, UsageProblem, quoted, reading, writing
from droveway.interrupt import StopRequest
from droveway.main import PATH, WholeNumber
from droveway.main import command as declare
from droveway.output import Output, table
from droveway.progress import Progress

if TYPE_CHECKING:
    from storage import Signer

U64_MAX: Final = 2**64 - 1


@declare("simulate")
@click.argument("site", metavar="SITE.toml", type=PATH)
@click.option("-o", "--output", "folder", metavar="RUN", type=PATH, required=True, help="A new or empty folder.")
@click.option("--ticks", metavar="N", type=WholeNumber(1, U64_MAX), default=200, show_default=True)
@click.option("--seed", metavar="S", type=WholeNumber(0, U64_MAX), help="Instead of the seed in SITE.toml.")
@click.option(
    "--planner",
    type=click.Choice(["greedy", "swap", "auction", "exact"]),
    help="Instead of the planner in SITE.toml.",
)
@click.option(
    "--sync",
    type=click.Choice(["fsync", "os"]),
    default="fsync",
    show_default=True,
    help="fsync: each decision is on the disk before the next. os: when the system likes.",
)
@click.option(
    "--key",
    metavar="KEYFILE",
    type=PATH,
    help="Sign a checkpoint at the end with this key (droveway keygen).",
)
def command(
    out: Output,
    site: Path,
    folder: Path,
    ticks: int,
    seed: int | None,
    planner: str | None,
    sync: Literal["fsync", "os"],
    key: Path | None,
) -> int:
    """Run the fleet of SITE.toml and write every decision into the ledger RUN.

    SIGINT and SIGTERM end the run after the tick at hand: the ledger is whole and verifies, the exit code is 130. A run
    can't be continued, only made again.
    """
    with writing(folder):
        require_new_folder(folder)
    signer = None
    if key is not None:
        from droveway.keys_given import log_signer

        signer = log_signer(key)
    if site.suffix.lower() in (".map", ".scen") and site.is_file():
        options = "" if site.suffix.lower() == ".scen" else " --agents N --zones M"
        raise InputProblem(
            site,
            f"expected a SITE.toml, got a MovingAI {site.suffix.lower()} file",
            f"droveway import {quoted(site)}{options} -o SITE.toml",
        )
    from coord.simulation.simulate import simulate
    from coord.sites.scenario import Scenario

    with reading(site):
        scenario = Scenario.load(site)
    note_missing_scene(out, scenario)
    begun = 0

    def on_tick(tick: int, *_: object) -> None:
        nonlocal begun
        begun = tick + 1
        progress.update(begun, ticks)

    with StopRequest("finishing the tick") as stop, Progress("ticks", quiet=out.quiet) as progress:
        try:
            with writing(folder):
                run = simulate(
                    scenario, ticks, seed, folder, planner=planner, sync=sync, should_stop=stop, on_tick=on_tick
                )
        except Exception as error:
            if begun and folder.is_dir():
                out.note(f"{folder}: holds the run up to tick {begun - 1}; it verifies")
            told = _told(error, site, folder)
            if told is error:
                raise
            raise told from error
    if signer is not None:
        sign(folder, signer)
    if run.interrupted:
        out.note(f"{folder}: holds the run up to here and verifies; a run can't be continued, only made again")
    record = summary(run, scenario, folder, seed, planner)
    record["checkpoint"] = None if signer is None else signer.name
    out.result(record, described(record, zones_to_come(scenario)))
    return exits.INTERRUPTED if run.interrupted else exits.YES


def sign(folder: Path, signer: "Signer") -> None:
    """Sign the head of the run: the note is kept in its ledger, and in RUN/checkpoint."""
    from storage import Ledger

    with Ledger.open(folder) as ledger:
        ledger.checkpoint(signer)


def note_missing_scene(out: Output, scenario: Any) -> None:
    """A scene never reaches a decision, so a run goes on without it, but says so."""
    scene = scenario.document.get("scene")
    if scene is not None and not (scenario.base_dir / scene["file"]).is_file():
        out.note(f"{scenario.file}: [scene] file: {scenario.base_dir / scene['file']} is missing; the run does without")


def _told(error: Exception, site: Path, folder: Path) -> Exception:
    """The same trouble with the file it is about: bad input is the site's, what storage refuses is the folder's."""
    ending = exits.ending_of(error)
    if ending.code != exits.INPUT:
        return error
    if type(error).__module__.startswith("storage."):
        text = ending.message.removeprefix(f"{folder}: ")
        return UsageProblem(folder, f"expected to write a ledger, got: {text}", "choose another output with -o")
    text = ending.message
    return InputProblem(None, text) if text.startswith(str(site)) else InputProblem(site, text)


def require_new_folder(folder: Path) -> None:
    """Refuse an output that exists and is not an empty folder, or whose parent is missing: exit 2."""
    hint = "choose another output with -o, or remove it"
    if folder.is_dir():
        if any(folder.iterdir()):
            raise UsageProblem(folder, "expected a new or empty folder, got one that is not empty", hint)
    elif folder.exists() or folder.is_symlink():
        raise UsageProblem(folder, "expected a new or empty folder, got a file", hint)
    elif not folder.parent.is_dir():
        raise UsageProblem(folder, f"expected the folder {folder.parent} to exist", f"mkdir -p {quoted(folder.parent)}")


def summary(run: Any, scenario: Any, folder: Path, seed: int | None, planner: str | None) -> dict[str, object]:
    """The result of a simulation as one record."""
    setup = scenario.setup
    return {
        "run": folder,
        "name": setup.name,
        "seed": setup.seed if seed is None else seed,
        "planner": setup.planner if planner is None else planner,
        "agents": len(setup.agents),
        "zones": len(setup.zones),
        "ticks": run.ticks,
        "frames": run.frames,
        "assigned_of_ready": run.assigned_of_ready if run.ready else None,
        "served": run.served,
        "zones_served": run.zones_served,
        "cell_conflicts": None if setup.grid is None else run.cell_conflicts,
        "waits": run.waits,
        "events": dict(run.events),
        "tasks_opened": run.tasks_opened,
        "tasks_served": run.tasks_served,
        "tasks_expired": run.tasks_expired,
        "tasks_refused": run.tasks_refused,
        "health": run.health,
        "interrupted": run.interrupted,
        "size": run.size,
        "root": run.root,
    }


def happened(record: dict[str, object]) -> list[tuple[str, str]]:
    """What came from outside and what became of the tasks, where anything did."""
    events = record["events"]
    assert isinstance(events, dict)
    rows = []
    if events:
        from droveway.change_text import counted

        rows.append(("events", counted(events)))
    if record["tasks_opened"] or record["tasks_refused"]:
        counts = [(name, record[f"tasks_{name}"]) for name in ("opened", "served", "expired", "refused")]
        rows.append(("tasks", ", ".join(f"{count} {name}" for name, count in counts)))
    return rows


def zones_to_come(scenario: Any) -> str:
    """What brings zones besides those of the file: "tasks", "zones" (events), or nothing."""
    from coord.simulation.events import EventKind

    setup = scenario.setup
    if setup.demand.model != "persistent" and setup.demand.where == "tasks":
        return "tasks"
    return "zones" if any(event.kind == EventKind.ZONE_ADDED for event in setup.events) else ""


def described(record: dict[str, object], come: str) -> str:
    """The same for people: one line a topic, the root last."""
    root, events = record["root"], record["events"]
    assert isinstance(root, bytes)
    assert isinstance(events, dict)
    cut = " (interrupted)" if record["interrupted"] else ""
    ready = record["assigned_of_ready"]
    share = "no agent was ever ready" if ready is None else f"{ready:.1%} of ready agents assigned"
    if not record["agents"]:
        share = "nothing to assign: the site has no agents"
    elif not (record["zones"] or record["tasks_opened"] or "zone_added" in events):
        share = f"nothing to assign: no {come} came" if come else "nothing to assign: the site has no zones"
    health = str(getattr(record["health"], "name", record["health"])).lower()
    rows = [
        ("run", f"{record['run']}"),
        ("site", f"{record['name']}, seed {record['seed']}, planner {record['planner']}"),
        ("fleet", f"{record['agents']} agents, {record['zones']} zones" + (f", {come} come" if come else "")),
        ("ticks", f"{record['ticks']}{cut}, {record['frames']} plans, worst health {health}"),
        (
            "work",
            f"{record['served']} services at {record['zones_served']} zones, {share}",
        ),
        *([("waits", f"{record['waits']} times an agent found no way, or none yet")] if record["waits"] else ()),
        *happened(record),
        ("ledger", f"{record['size']} events"),
        ("root", root.hex()),
    ]
    if record["checkpoint"] is not None:
        rows.append(("signed", f"{record['checkpoint']}: {record['run']}/checkpoint"))
    if record["cell_conflicts"] is not None:
        rows.insert(5, ("cells", f"{record['cell_conflicts']} times an agent stood in the cell of another"))
    return table(rows)
