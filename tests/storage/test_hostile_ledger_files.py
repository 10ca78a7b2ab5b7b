"""Files that somebody made on purpose: sizes, links, pipes and page numbers."""

import os
import struct
import subprocess
import sys

import pytest

from storage import IntegrityError, Ledger


@pytest.mark.parametrize("name", ["000099.log", "MANIFEST"])
def test_a_log_of_a_terabyte_of_holes_is_refused_at_once(run, fill, name):
    fill(run, 3)
    store = run / "ledger"
    file = next(store.glob("MANIFEST-*")) if name == "MANIFEST" else store / name
    with file.open("ab") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(IntegrityError, match=r"expected at most [0-9]+ bytes, got"):
        Ledger.open(run).close()
    with Ledger.open(run, "r") as ledger:
        assert ledger.manifest_status == "RECOVERY_DEGRADED"
        assert "expected at most" in str(ledger.problems[0])


@pytest.mark.parametrize("make", ["link", "pipe"])
@pytest.mark.parametrize("name", ["HEAD.tmp", "ledger/close.tmp"])
def test_temporary_names_are_never_followed(run, fill, make_event, tmp_path, name, make):
    fill(run, 3)
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    if make == "link":
        (run / name).symlink_to(victim)
    else:
        os.mkfifo(run / name)
    # In a process of its own, as opening a pipe to write would wait for ever.
    program = f"""
from storage import Event, IntegrityError, Ledger
try:
    with Ledger.open({str(run)!r}, sync="os") as ledger:
        ledger.append(Event(producer="a", effect=b"", kind="k", sequence=0, tick=0))
except IntegrityError as error:
    print(str(error).split(": ", 1)[1])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    refused = "expected a regular file, got a"
    assert done.stdout == "" if name == "HEAD.tmp" else refused in done.stdout
    assert victim.read_bytes() == b"precious"


@pytest.mark.parametrize("name", ["rocksdict-config.json", "LOG", "LOCK", "OPTIONS-999999", "IDENTITY"])
def test_a_link_in_the_folder_of_the_engine_is_not_written_through(run, fill, tmp_path, name):
    fill(run, 3)
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (run / "ledger" / name).unlink(missing_ok=True)
    (run / "ledger" / name).symlink_to(victim)
    with pytest.raises(IntegrityError, match=f"{name}: expected a regular file, got a link"):
        Ledger.open(run).close()
    assert victim.read_bytes() == b"precious"


def test_branches_that_lead_to_the_same_pages_again_and_again_end(run, make_event):
    """30 pages whose tree has 200 to the power of 29 leaves, all of them empty."""
    with Ledger.open(run, sync="os", engine="lmdb") as ledger:
        ledger.append_many([make_event(i) for i in range(400)])
    data = run / "ledger" / "data.mdb"
    content = bytearray(data.read_bytes())
    page = 4096
    count = len(content) // page
    depth = 30
    first = count  # the new pages
    header = struct.Struct("=QHHHH")
    for level in range(depth - 1):
        number, child = first + level, first + level + 1
        nodes = 200
        upper = page - 10 * nodes
        block = bytearray(page)
        header.pack_into(block, 0, number, 0, 1, 16 + 2 * nodes, upper)
        for i in range(nodes):
            struct.pack_into("=H", block, 16 + 2 * i, upper + 10 * i)
            struct.pack_into("=HHHH2s", block, upper + 10 * i, child & 0xFFFF, child >> 16, 0, 2, b"zz")
        content += block
    leaf = bytearray(page)
    header.pack_into(leaf, 0, first + depth - 1, 0, 2, 16, page)
    content += leaf
    for meta in (0, 1):
        at = meta * page + 16 + 24 + 48  # the tree of trees
        flags = struct.unpack_from("=IHH", content, at)
        struct.pack_into("=IHHQQQQQ", content, at, flags[0], flags[1], depth, depth - 1, 1, 0, 4, first)
        struct.pack_into("=Q", content, meta * page + 16 + 24 + 96, first + depth - 1)
    data.write_bytes(content)
    program = f"""
from storage import Ledger, StorageError
for mode in ("r", "rw"):
    try:
        Ledger.open({str(run)!r}, mode).close()
    except StorageError as error:
        print(str(error).split(": ", 2)[-1])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "reaches more leaves than the file has pages" in done.stdout
