"""Write a ledger, follow it while it is written, prove one event to somebody who has the root, and draw the proof.

python examples/07_ledger.py [FOLDER]: writes the ledger and proof.png into FOLDER (default: a new temporary one).
"""

import sys
import tempfile
import threading
from pathlib import Path

from PIL import Image, ImageDraw

from storage import Event, Ledger, follow
from storage.tree import leaf, leaf_hash, verify_inclusion

EVENTS, PROVEN = 50, 29
GREY, PATH, PROOF = (206, 212, 218), (214, 120, 40), (38, 98, 150)

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
Ledger.open(folder / "pump").close()  # a follower needs a ledger that is there


def write() -> None:  # what another process would do: each append returns when the disk has it
    with Ledger.open(folder / "pump") as ledger:
        for tick in range(EVENTS):
            text = b"pressure %d" % (40 + tick * tick % 17)
            ledger.append(Event(producer="pump-1", effect=text, kind="note.text", sequence=tick, tick=tick))


(writer := threading.Thread(target=write)).start()
seen = [event for _, event in follow(folder / "pump", stop=lambda: not writer.is_alive(), poll_s=0.01)]
print(f"followed {len(seen)} events while they were written, the last says {seen[-1].effect.decode()!r}")

with Ledger.open(folder / "pump", mode="r") as ledger:
    head, event, proof = ledger.head(), ledger.at(PROVEN), ledger.prove(PROVEN)
print(f"root of {head.size} events: {head.root.hex()}")
hashed = leaf_hash(leaf(event.id, len(event.encode())))  # all that the other side needs: event, proof, root
answer = verify_inclusion(PROVEN, head.size, hashed, proof, head.root)
print(f"event {PROVEN} is proven by {len(proof)} hashes: {answer}")

picture = Image.new("RGB", (960, 420), (250, 250, 248))
draw = ImageDraw.Draw(picture)


def node(start: int, stop: int, y: int, colour: tuple[int, int, int]) -> tuple[float, int]:
    """Draw the subtree over [start, stop): the way of the proven event, and beside it the hashes of the proof."""
    at = (20 + (start + stop) / 2 * 920 / EVENTS, y)
    if stop - start > 1:
        middle = start + (1 << (stop - start - 1).bit_length() - 1)  # RFC 6962's shape
        for a, b in ((start, middle), (middle, stop)):
            inside = PATH if a <= PROVEN < b else PROOF
            draw.line([at, node(a, b, y + 60, inside if colour == PATH else GREY)], GREY, 1)
    size = 3 if colour == GREY else 7
    draw.ellipse([at[0] - size, y - size, at[0] + size, y + size], colour)
    return at


node(0, EVENTS, 30, PATH)
picture.save(folder / "proof.png")
print(f"picture: {folder / 'proof.png'}")
