"""`droveway demo [-o DIR]`."""

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from droveway import __version__, exits
from droveway.exits import LimitProblem, UsageProblem, quoted, writing
from droveway.interrupt import deferred
from droveway.main import PATH
from droveway.main import command as declare
from droveway.output import Output

if TYPE_CHECKING:
    from droveway.demo import Audited, Rendered, Searched, Simulated

T = TypeVar("T")


@declare("demo")
@click.option(
    "-o", "--output", "folder", metavar="DIR", type=PATH, help="Keep run, index, scene and picture in a new folder."
)
def command(out: Output, folder: Path | None) -> int:
    """Walk all four journeys on a warehouse that is made by rule: simulate, search, render, audit.

    Needs no download and no network, takes seconds, and ends with one root that stands for every decision, every
    answer of the search and every pixel. It is compared with the root recorded for this version, which the README
    prints, too: exit 0 where they are the same, 1 where they differ or the audit finds something. Without -o everything
    is made in a temporary folder, which is removed. An interrupted demo removes what it made.
    """
    from droveway import demo

    place: Path | None = None
    was_there = done = False
    try:
        with deferred():
            place, was_there = (_temporary(), False) if folder is None else _claimed(folder)
        with writing(place):
            code = _walk(out, place, keep=folder is not None)
        done = True
    finally:
        if place is not None and (not done or folder is None):
            with deferred(), contextlib.suppress(OSError):  # what led here is the answer
                if folder is None:
                    demo.remove_folder(place)
                else:  # what others put into it stays there
                    demo.remove_made(place)
                    if not was_there:
                        place.rmdir()
    return code


def _claimed(folder: Path) -> tuple[Path, bool]:
    """A new or empty folder, held by this demo alone, and whether it was there before."""
    from droveway.commands.simulate import require_new_folder
    from droveway.demo import claim

    with writing(folder):
        require_new_folder(folder)
        was_there = folder.is_dir()
        folder.mkdir(exist_ok=True)
        try:
            claim(folder)
        except FileExistsError as error:
            text = "expected a new or empty folder, got one that another demo is just filling"
            raise UsageProblem(folder, text, "choose another output with -o") from error
    return folder, was_there


def _temporary() -> Path:
    """A new folder in $TMPDIR or /tmp. (tempfile would bring 1 MB of modules.)"""
    folder = Path(os.environ.get("TMPDIR") or "/tmp") / f"droveway-demo-{os.getpid()}-{os.urandom(4).hex()}"
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:
        text = (error.strerror or str(error)).lower()
        if error.errno in exits.FULL:
            raise LimitProblem(folder.parent, f"expected room to write, got: {text}", "free some space") from error
        raise UsageProblem(
            folder.parent,
            f"expected a folder for temporary files, got: {text}",
            "set TMPDIR, or choose a place with -o",
        ) from error
    return folder


def _walk(out: Output, folder: Path, *, keep: bool) -> int:
    from droveway import demo

    if not out.as_json:
        out.text("Four journeys over one warehouse of 64 × 40 cells, made by rule: nothing is downloaded.\n")
    simulated = _journey(out, "simulate", lambda: demo.simulate_fleet(folder), _simulated)
    searched = _journey(out, "search", lambda: demo.search_moments(folder), _searched)
    rendered = _journey(out, "render", lambda: demo.render_scene(folder), lambda told: _rendered(told, keep))
    audited = _journey(out, "audit", lambda: demo.audit_run(folder), _audited)
    del simulated, searched, rendered
    recorded = demo.recorded_root()
    root = audited.root.hex()
    sound = audited.ok and audited.search_again and audited.render_again and audited.found
    ok = sound and recorded in (None, root)
    record = {
        "journey": "answer",
        "ok": ok,
        "recorded": recorded,
        "folder": folder if keep else None,
        "size": audited.size,
        "root": root,
    }
    out.result(record, _answer(root, recorded, sound, folder if keep else None, audited.size))
    return exits.YES if ok else exits.NO


def _journey(out: Output, name: str, walk: Callable[[], T], lines: Callable[[T], list[str]]) -> T:
    """Walk one journey and tell it, with the time it took: times are no results, so JSON has none."""
    begun = time.perf_counter()
    told: Any = walk()
    seconds = time.perf_counter() - begun
    first, *rest = lines(told)
    text = [f"{name:<9} {first}", *(f"{'':<9} {line}" for line in rest)]
    text[-1] += f" [{seconds:.1f} s]"
    out.result({"journey": name, **asdict(told)}, "\n".join(text))
    return told  # type: ignore[no-any-return]


def _simulated(told: "Simulated") -> list[str]:
    return [
        f"{told.agents} agents, {told.zones} zones, {told.ticks} ticks, a plan at each: {told.services} services at "
        f"{told.zones_served} zones.",
        f"Every input and every decision is an event of a ledger: {told.size} events.",
    ]


def _searched(told: "Searched") -> list[str]:
    like = ", ".join(map(str, told.like_it[1:]))
    return [
        f"{told.rows:,} moments of such a fleet, {told.dim} numbers each, in an index of {told.bits} bits a number: "
        f"{told.file_bytes / 1e6:.2f} MB.",
        f"{told.queries} blurred moments looked up: {told.recognised} are recognised. Tick {told.example} is most like "
        f"itself, then like {like}.",
        f"Of the {told.k} nearest, {told.recall:.0%} are those of an exact search.",
    ]


def _rendered(told: "Rendered", keep: bool) -> list[str]:
    from droveway.demo import PICTURE

    where = f" It is {PICTURE}." if keep else ""
    return [
        f"The warehouse as {told.splats:,} Gaussian splats, {told.width} × {told.height} pixels, drawn by the CPU.",
        f"The picture's digest is {told.digest[:16]}….{where}",
    ]


def _audited(told: "Audited") -> list[str]:
    again = {
        f"{told.decisions} decisions with their inputs": told.ok and told.resimulated == told.decisions,
        "the search": told.search_again,
        "the picture": told.render_again,
    }
    other = [what for what, same in again.items() if not same]
    same = f"NOT THE SAME: {', '.join(other)}" if other else "all the same"
    return [
        f"{told.events} events checked against their tree.",
        f"Made again: {', '.join(again)}: {same}.",
        f"One bit flipped in a copy: {f'found, {told.damage}' if told.found else 'NOT FOUND'}.",
    ]


def _answer(root: str, recorded: str | None, sound: bool, folder: Path | None, size: int) -> str:
    lines = ["", f"root      {root}", "It stands for every decision, every answer of the search, and every pixel."]
    if not sound:
        lines.append("The audit found something that must not be: this install or this machine is not sound.")
    if recorded is None:
        lines.append("This install has no recorded root to compare it with; the README prints it.")
    elif recorded == root:
        lines.append(f"It is the root recorded for droveway {__version__} and printed in the README: the same bits.")
    else:
        lines.append(
            f"droveway {__version__} has another root recorded: {recorded}. `droveway doctor` looks for the reason."
        )
    if folder is None:
        lines.append("\ndroveway demo -o DIR keeps run, index, scene and picture to look at.")
    else:
        lines += ["", "To look around:", *(f"  {line}" for line in next_commands(folder, size, root))]
    return "\n".join(lines)


def next_commands(folder: Path, size: int, root: str) -> list[str]:
    """What to try with the files that the demo left."""
    from droveway import demo

    run, index, queries, scene, camera = (
        quoted(folder / name) for name in (demo.RUN, demo.INDEX, demo.QUERY_FILE, demo.SCENE, demo.CAMERA)
    )
    background = ",".join(map(str, demo.BACKGROUND))
    return [
        f"droveway replay {run} --png {quoted(folder / 'paths.png')}",
        f"droveway explain {run} --tick 100 --agent 7",
        f"droveway verify {run} --expect {size}:{root}",
        f"droveway search {index} {queries} -k 3",
        f"droveway render {scene} --camera {camera} --background {background} -o {quoted(folder / 'again.png')}",
    ]
