"""Audit a run: make every decision again, then rewrite one decision and see that the audit names it.

python examples/02_audit.py [FOLDER]: writes two runs into FOLDER (default: a new temporary
one), and audit.png, the tracks of the honest one.
"""

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from coord import Scenario, audit, decode_frame_event, encode_frame_event, simulate
from coord.frames.frame import rows_digest
from coord.stl import open_run
from droveway.run_tracks import draw_tracks, read_tracks
from storage import Event, Ledger

SITE = 'version = 1\nname = "field"\nseed = 5\nagents.random = 6\nzones.random = 30\n'

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
run = simulate(Scenario.loads(SITE), ticks=60, ledger=folder / "honest")
report = audit(folder / "honest", resimulate=True)
print(f"honest: ok {report.ok}, {report.frames} decisions made again, root {run.root.hex()[:16]}…")


def forged(event: Event) -> bytes:
    """The effect of an event; at tick 20 agent 2 is given the zone of agent 3."""
    if event.kind != "coord.frame" or event.tick != 20:
        return event.effect
    frame, rows = decode_frame_event(event.effect)
    rows = rows.copy()
    rows["zone"][rows["agent"] == 2] = rows["zone"][rows["agent"] == 3]
    return encode_frame_event(replace(frame, rows_digest=rows_digest(rows)), rows)


with Ledger.open(folder / "honest", mode="r") as old, Ledger.open(folder / "forged") as new:
    ids: dict[bytes, bytes] = {}
    for _, event in old.scan():  # every id, parent and the whole tree are made again: the ledger is consistent
        parents = tuple(sorted(ids[parent] for parent in event.parents))
        ids[event.id] = new.append(replace(event, effect=forged(event), parents=parents)).id

report = audit(folder / "forged")
print(f"forged: ok {report.ok}; {report.first_divergence}")

with open_run(folder / "honest") as reader:
    tracks = read_tracks(reader, None, None, keep_points=True)
    draw_tracks(
        tracks, reader.scenario, "audited: 60 decisions made again", f"root {run.root.hex()}", folder / "audit.png"
    )
print(f"picture: {folder / 'audit.png'}")
