"""What checking a ledger takes, and decision frames: `python benchmarks/audit.py [--gigabytes G] [--installed]`.

A ledger of the mix (90 % events of 256 bytes, 10 % of 8,000) is checked as `droveway verify --no-replan` does, by
`coord.audit`: every event's canonical bytes, id, leaf and sequence, every tile, the roots, `ids`, cursors and HEAD, and
what the events mean (the mix is no run: its events are counted by kind). The bytes alone, `storage.verify_ledger`, have
a line of their own. The peer is SHA-256 over the same bytes in memory; medians of processor time in turns. The
process's peak is VmHWM at its exit, from a wheel of this checkout in an environment of its own; --installed takes the
environment of this Python, which must hold a regular install.

A decision frame of 1,000 rows is encoded and decoded, and the peer is msgspec's decode alone of a msgpack array of
1,000 maps with the same values under the same names. Both hold all rows afterwards: ours as an array of records on a
copy of the frame's bytes, msgspec as 1,000 dicts. Neither looks at what the rows say. A second line decodes with every
rule of the format checked.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from harness import Report, alternate, prepare

prepare()

import numpy as np  # noqa: E402
from footprint import AT_EXIT, install, peak  # noqa: E402
from ledger_peers import mix  # noqa: E402

from coord import audit  # noqa: E402
from coord.frames.frame import DecisionFrame, decode_frame_event, encode_frame_event, rows_digest  # noqa: E402
from coord.records import ROW_DTYPE  # noqa: E402
from storage import Ledger, verify_ledger  # noqa: E402

ROUNDS = 5
MEMORY_LIMIT_MB = 64.0
ROWS = 1000
BLOCK_BYTES = 64 << 20
# The whole command.
VERIFY = (
    AT_EXIT
    + """
from droveway.main import main
sys.argv[0] = 'droveway'
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
"""
)


def say(text: str) -> None:
    """What is being done, on stderr."""
    sys.stderr.write(f"audit: {text}\n")
    sys.stderr.flush()


def fill(run: Path, gigabytes: float) -> tuple[int, int]:
    """A ledger of about so many bytes of events; how many events, and how many bytes."""
    events = done = 0
    with Ledger.open(run, sync="os") as ledger:
        while done < gigabytes * 1e9:
            part = mix(1000, events)
            ledger.append_many(part)
            events += len(part)
            done += sum(len(event.encode()) for event in part[:10]) * (len(part) // 10)
    return events, done


def auditing(report: Report, run: Path, events: int, size: int) -> None:
    """Processor seconds of this thread for the audit, and for SHA-256 of as many bytes."""
    block = bytes(range(256)) * (BLOCK_BYTES // 256)
    times: list[list[float]] = [[], [], []]

    def whole() -> None:
        checked = audit(run, replan=False)
        assert (checked.size, checked.problems) == (events, [])

    def alone() -> None:
        checked = verify_ledger(run)
        assert checked.ok and checked.size == events

    def hashing() -> None:
        hash_of = hashlib.sha256()
        for at in range(0, size, BLOCK_BYTES):
            hash_of.update(block[: min(BLOCK_BYTES, size - at)])
        hash_of.digest()

    for _ in range(ROUNDS):
        for call, taken in zip((whole, alone, hashing), times, strict=True):
            start = time.thread_time()
            call()
            taken.append(time.thread_time() - start)
    case = f"audit of {size / 1e9:.2g} GB, {events:,} events"
    ours, bytes_only, peer = map(statistics.median, times)
    report.add(case, ours, peer, "SHA-256 of the same bytes", "s", "lower")
    report.add(case, size / ours / 1e6, size / peer / 1e6, "SHA-256 of the same bytes", "MB/s", "higher")
    report.add(case, events / ours, events / peer, "SHA-256 of the same bytes", "events/s", "higher")
    report.add(f"{case}, the bytes alone", bytes_only, peer, "SHA-256 of the same bytes", "s", "lower")


def process_peak(report: Report, run: Path, python: str, folder: Path, size: int) -> None:
    """Memory of the whole process that audits."""
    used = peak(python, VERIFY, "verify", str(run), "--no-replan", folder=folder)
    case = f"audit of {size / 1e9:.2g} GB, the whole process"
    report.add(case, used.megabytes, MEMORY_LIMIT_MB, "limit", "MB", "lower")


def decision() -> tuple[DecisionFrame, Any]:
    """A frame of 1,000 assigned agents."""
    draw = np.random.Generator(np.random.PCG64(1))
    rows = np.zeros(ROWS, ROW_DTYPE)
    rows["agent"] = np.arange(ROWS)
    rows["zone"] = draw.permutation(5 * ROWS)[:ROWS]
    rows["score"] = draw.integers(-(10**6), 10**6, ROWS)
    rows["travel"], rows["idle"] = draw.integers(0, 500, ROWS), draw.integers(0, 5000, ROWS)
    rows["stale"], rows["reason"] = draw.integers(0, 9, ROWS), 256
    frame = DecisionFrame(
        frame_id=3, tick=60, agents=ROWS, zones=5 * ROWS, assigned=ROWS, rows_digest=rows_digest(rows),
        score_sum=int(rows["score"].sum(dtype=np.int64)),
    )  # fmt: skip
    return frame, rows


def framing(report: Report) -> None:
    """A frame's rows as one block of bytes, against msgpack maps of the same rows."""
    import msgspec

    frame, rows = decision()
    packed = msgspec.msgpack.encode([dict(zip(ROW_DTYPE.names or (), row, strict=True)) for row in rows.tolist()])
    effect = encode_frame_event(frame, rows)

    def both() -> None:
        data = encode_frame_event(frame, rows)
        DecisionFrame.decode(data[:128])
        np.frombuffer(data, ROW_DTYPE, offset=128)

    found = msgspec.msgpack.decode(packed)
    again = np.frombuffer(effect, ROW_DTYPE, offset=128)
    assert [tuple(row.values()) for row in found] == again.tolist() and frame == DecisionFrame.decode(effect[:128])

    peer = msgspec.msgpack.Decoder().decode
    case = f"decision frame, {ROWS:,} rows"
    for what, call in (("encode + decode", both), ("decode, every rule checked", lambda: decode_frame_event(effect))):
        seconds = alternate(call, lambda: peer(packed))
        report.add(f"{case}, {what}", *(1e6 * s for s in seconds), "msgspec's decode of the rows", "µs", "lower")


def installed(folder: Path) -> str:
    """The interpreter of an environment with a regular install of this checkout."""
    for _ in install(folder):
        pass
    return str(folder / "venv" / "bin" / "python")


def main() -> None:
    """All cases."""
    options = argparse.ArgumentParser(add_help=False)
    options.add_argument("--gigabytes", type=float, default=1.0, help="of events in the ledger that is checked")
    options.add_argument("--installed", action="store_true", help="measure the process's memory with this Python")
    report = Report("audit", options)
    with tempfile.TemporaryDirectory(prefix="droveway-bench-") as name:
        folder = Path(name)
        say("decision frames")
        framing(report)
        say(f"a ledger of {report.asked.gigabytes:g} GB")
        events, size = fill(folder / "run", report.asked.gigabytes)
        say("audits")
        auditing(report, folder / "run", events, size)
        say("a process that audits")
        python = sys.executable if report.asked.installed else installed(folder)
        process_peak(report, folder / "run", python, folder, size)
    report.finish()


if __name__ == "__main__":
    main()
