"""`droveway verify RUN|URL`."""

import contextlib
import dataclasses
import time
from pathlib import Path
from typing import Any

import click

from droveway import exits
from droveway.exits import InputProblem, UsageProblem, quoted, reading
from droveway.keys_given import verifier_key
from droveway.main import WholeNumber, place
from droveway.main import command as declare
from droveway.output import Output
from droveway.outside_ids import OutsideIds
from droveway.problem_groups import group_text, grouped
from droveway.progress import Progress
from droveway.rank_ranges import shown

SHOWN_MAX = 10
JOBS_MAX = 1024
CHECKPOINT_BYTES_MAX = 1 << 16


@declare("verify")
@click.argument("run", metavar="RUN|URL", type=place)
@click.option("--resimulate", is_flag=True, help="Also make every input again, from scenario and seed.")
@click.option("--no-replan", is_flag=True, help="Check the ledger and the frames, but make no decision again.")
@click.option(
    "--expect",
    metavar="CHECKPOINT",
    help="What the ledger must contain: a checkpoint file kept elsewhere, or SIZE:ROOT as simulate printed them.",
)
@click.option(
    "--key",
    "keys",
    metavar="VKEY",
    multiple=True,
    help="Verifier key of the log: every checkpoint kept in RUN must be signed by it. Repeatable.",
)
@click.option("--from", "first", metavar="T", type=WholeNumber(0), help="Only the decisions of tick T and later.")
@click.option("--to", "last", metavar="T", type=WholeNumber(0), help="Only the decisions up to tick T, included.")
@click.option(
    "--jobs", metavar="N", type=WholeNumber(1, JOBS_MAX), default=1, help="Processes that share the decisions."
)
def command(
    out: Output,
    run: Path | str,
    resimulate: bool,
    no_replan: bool,
    expect: str | None,
    keys: tuple[str, ...],
    first: int | None,
    last: int | None,
    jobs: int,
) -> int:
    """Check a run: its ledger byte by byte, then every decision, made again from the stored inputs and compared.

    RUN is the folder of a run, or a URL or folder where one is published. Exit 0 when all is the same, 1 for any
    damage, gap, rollback or divergence, 3 only where RUN is no ledger or can't be opened at all. Whoever owns RUN can
    rewrite it consistently: only --expect, with a checkpoint kept elsewhere, shows that. Without --key the
    signatures of checkpoints are not checked.

    With --from and --to the decisions of these ticks are sought, made again from the key of inputs before them, held
    against the chain on both sides, and their leaves led to the root: the answer says what was left unchecked. The
    report is the same with any number of --jobs; --resimulate is one process.
    """
    if resimulate and no_replan:
        raise UsageProblem(
            None, "expected --resimulate or --no-replan, got both", "--resimulate plans everything again"
        )
    _require_range(first, last, resimulate, keys)
    from coord.auditing.audit import audit
    from coord.stl import is_published
    from droveway.reading_run import reading_ledger

    for key in keys:
        verifier_key("--key", key)
    wanted = None if expect is None else checkpoint(expect, keys)
    with Progress("events", quiet=out.quiet) as progress, reading_ledger(run):
        report = audit(run, replan=not no_replan, resimulate=resimulate, expect=wanted, keys=keys, first_tick=first,
                       last_tick=last, jobs=jobs, progress=progress.update, now_ns=time.time_ns())  # fmt: skip
    tell(out, run, report, keys)
    if any(map(is_damage, report.problems)) and not is_published(run):
        out.note(f"hint: droveway repair {quoted(run)} puts right what can be, and names what is lost")
    if any(map(lacks_signature, report.problems)):
        out.note("hint: --key takes the verifier key that droveway keygen printed for the key that signed")
    return exits.YES if report.ok else exits.NO


def _require_range(first: int | None, last: int | None, resimulate: bool, keys: tuple[str, ...]) -> None:
    """UsageProblem for a range that is none, and for options that are about the whole ledger."""
    if first is None and last is None:
        return
    if last is not None and last < (first or 0):
        raise UsageProblem(None, f"expected --to of at least --from, got --from {first or 0} --to {last}")
    if resimulate:
        raise UsageProblem(
            None, "expected --resimulate or a range, got both", "a run is made again from its first tick"
        )
    if keys:
        raise UsageProblem(None, "expected --key or a range, got both", "--key is about the checkpoints of the whole")


def is_damage(problem: Any) -> bool:
    """Whether the store itself is damaged: what a run lacks or says wrongly, no repair puts right."""
    in_store = "/" in problem.where or problem.where == "HEAD" or problem.got in ("damage", "nothing")
    return in_store and problem.where != "checkpoint" and not lacks_signature(problem)


def lacks_signature(problem: Any) -> bool:
    """Whether a checkpoint is sound, but none of the keys that were given has signed it: the store is not damaged."""
    expected: str = problem.expected
    return expected.startswith("a signature of ")


def checkpoint(text: str, keys: tuple[str, ...] = ()) -> tuple[int, bytes]:
    """SIZE:ROOT, or the size and root of a checkpoint file; with keys one of them must have signed that."""
    from coord.auditing.report import parse_checkpoint

    size, colon, _ = text.partition(":")
    path = Path(text)
    if colon and size.isdigit() and not path.exists():
        try:
            return parse_checkpoint(text)
        except ValueError as error:
            raise UsageProblem(
                None, f"--expect: {error}", "SIZE:ROOT with the 64 digits that simulate printed"
            ) from None
    if not path.exists():
        raise InputProblem(path, "expected SIZE:ROOT or a checkpoint file, got: no such file")
    with reading(path), path.open("rb") as stream:
        content = stream.read(CHECKPOINT_BYTES_MAX + 1)
    if len(content) > CHECKPOINT_BYTES_MAX:
        raise InputProblem(path, f"expected a checkpoint of at most {CHECKPOINT_BYTES_MAX} bytes, got more")
    if keys or b"\n\n" in content:
        return signed_checkpoint(path, content, keys)
    try:
        return parse_checkpoint(content.decode("utf-8"))
    except ValueError as error:
        raise InputProblem(path, str(error)) from None


def signed_checkpoint(path: Path, content: bytes, keys: tuple[str, ...]) -> tuple[int, bytes]:
    """Size and root of a signed checkpoint. InputProblem where there are keys and none of them signed it."""
    from storage import NoteError, SignatureError, VerifierKey
    from storage.notes.checkpoint import decode
    from storage.notes.keys import verified

    try:
        found, note = decode(content)
        if keys:
            verified(note, tuple(key for key in map(VerifierKey.parse, keys) if key.name == found.origin))
    except (NoteError, SignatureError) as error:
        readable = isinstance(error, SignatureError) or is_unsigned(content)
        hint = "without --key its signature is not checked" if keys and readable else ""
        raise InputProblem(path, str(error), hint) from None
    return found.size, found.root


def is_unsigned(content: bytes) -> bool:
    """Whether the bytes are a checkpoint without signatures, or SIZE:ROOT."""
    from coord.auditing.report import parse_checkpoint

    with contextlib.suppress(ValueError):
        parse_checkpoint(content.decode())
        return True
    return False


def tell(out: Output, run: Path | str, report: Any, keys: tuple[str, ...]) -> None:
    """The findings in the order of the ledger, then the answer."""
    kept = SHOWN_MAX if not out.as_json else None
    groups = grouped(report.problems)[:kept]
    for group in groups:
        first = group[0]
        record = {"type": "problem", "rank": first.rank, "last_rank": group[-1].rank, "where": first.where}
        record |= {"expected": first.expected, "got": first.got, "text": group_text(group)}
        out.result(record, group_text(group))
    ids = stored_ids(run) if report.first_divergences else OutsideIds()
    for divergence in report.first_divergences[:kept]:
        outside = ids.divergence(divergence)
        record = {"type": "divergence", **outside._asdict()}
        if ids.agents or ids.zones:
            record["internal_agent"] = divergence.agent
        out.result(record, str(outside))
    hidden = report.problem_count + report.divergences
    if not out.as_json:
        hidden -= sum(map(len, groups)) + len(report.first_divergences[:kept])
        if hidden:
            out.text(f"and {hidden} more")
    record = {
        "type": "answer",
        "run": run,
        "ok": report.ok,
        "name": report.name,
        "size": report.size,
        "root": report.root,
        "frames": report.frames,
        "planned": report.planned,
        "resimulated": report.resimulated,
        "changes_resimulated": report.changes_resimulated,
        "not_resimulated": report.not_resimulated,
        "external": report.external,
        "external_decisions": report.external_decisions,
        "divergences": report.divergences,
        "frames_diverged": report.frames_diverged,
        "problems": report.problem_count,
        "other_events": report.other_events,
        "checkpoints": report.checkpoints,
        "signed_size": report.signed_size,
        "retired": report.retired_count,
        "retired_ranks": report.retired,
        "not_replayable": report.not_replayable_count,
        "not_replayable_ranks": report.not_replayable,
        "warnings": report.warnings,
    }
    if report.checked_range is not None:
        record["range"] = dataclasses.asdict(report.checked_range)
        record["not_checked"] = report.checked_range.NOT_CHECKED
    out.result(record, answer(report, keys))


def stored_ids(run: Path | str) -> OutsideIds:
    """The id tables of the run, where its ledger can be opened."""
    from coord.stl import open_ledger
    from droveway.reading_run import ids_of
    from storage import StorageError

    try:
        with open_ledger(run) as ledger:
            return ids_of(ledger)
    except StorageError:
        return OutsideIds()


def signatures(report: Any, keys: tuple[str, ...]) -> str:
    """One line: how many checkpoints, and what of their signatures is known."""
    count = "1 checkpoint" if report.checkpoints == 1 else f"{report.checkpoints} checkpoints"
    if report.signed_size is None and keys:
        return f"{count}, none of them of this tree and signed by the key"
    if report.signed_size is None:
        return f"{count}, held against the tree only: no --key is given, so no signature was checked"
    return f"{count}; the first {report.signed_size} of {report.size} events are under one that the key signed"


def answer(report: Any, keys: tuple[str, ...]) -> str:
    """One line: verified or not, and how much was done."""
    root = "none" if report.root is None else report.root.hex()
    done = f"{report.size} events, {report.frames} decisions"
    if report.checked_range is not None:
        done = f"{report.frames} decisions"
    if report.planned:
        done += f", {report.planned} made again"
    if report.external_decisions:
        name = report.external.get("planner", "")
        done += f", {report.external_decisions} of an external planner ({name}): checked, not re-planned"
    if report.resimulated:
        done += f", {report.resimulated} with all their inputs"
    if report.changes_resimulated:
        events = "1 event" if report.changes_resimulated == 1 else f"{report.changes_resimulated} events"
        done += f", {events} from outside made again"
    if report.other_events:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(report.other_events.items()))
        done += f"; of other kinds the bytes only: {kinds}"
    lines = [f"root  {root}", *(f"warning: {text}" for text in report.warnings)]
    if report.checked_range is not None:
        lines.append(f"checked: {report.checked_range.checked(report.size)}")
        lines.append(f"not checked: {report.checked_range.NOT_CHECKED}")
    if report.not_resimulated:
        lines.append(f"not made again: {report.not_resimulated}")
    if report.checkpoints:
        lines.append(signatures(report, keys))
    if report.retired_count:
        lines.insert(0, f"retired: ranks {shown(report.retired)}: payloads removed, leaves and proofs kept")
    if report.not_replayable:
        count = f"{report.not_replayable_count} decisions" if report.not_replayable_count != 1 else "1 decision"
        text = f"not replayable at ranks {shown(report.not_replayable)}"
        lines.insert(1, f"{text}: {count} there can't be made again" if report.not_replayable_count else text)
    if report.ok:
        return "\n".join([f"verified: {done}", *lines])
    wrong = []
    if report.divergences:
        wrong.append(f"{report.divergences} fields of {report.frames_diverged} decisions diverge")
    if report.problem_count:
        wrong.append("1 problem" if report.problem_count == 1 else f"{report.problem_count} problems")
    return "\n".join([f"NOT VERIFIED: {', '.join(wrong)} in {done}", *lines])
