"""`droveway doctor`."""

from typing import Final

from droveway import exits
from droveway.main import command as declare
from droveway.output import Output

MARKS: Final = {"ok": "ok   ", "note": "note ", "wrong": "WRONG"}


@declare("doctor", checks_build=False)
def command(out: Output) -> int:
    """Check this installation; exit 1 if something is wrong.

    Compares the build of each package and the recorded hash of each installed file, says which foreign distribution
    sits in the way, runs the self-test of each instruction set against the recorded digests, and looks at
    dependencies, disk and file locks. With --quiet only what is not ok is told, and the answer.
    """
    from droveway.doctor import findings

    wrong = 0
    for finding in findings():
        wrong += finding.state == "wrong"
        record = {"check": finding.check, "state": finding.state, "detail": finding.detail}
        if out.quiet and finding.state == "ok" and not out.as_json:
            continue
        out.result(record, f"{MARKS[finding.state]}  {finding.check.ljust(12)}  {finding.detail}")
    answer = "all is well" if not wrong else f"{wrong} wrong"
    text = answer if out.quiet else f"\n{answer}"
    out.result({"check": "answer", "state": "wrong" if wrong else "ok", "detail": answer}, text)
    return exits.NO if wrong else exits.YES
