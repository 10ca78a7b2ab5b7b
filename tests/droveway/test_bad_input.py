"""Every kind of bad input: its message, its exit code, and nothing half-written."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Ask = Callable[..., Any]

HEAD = 'version = 1\nname = "a"\n'
FLEET = HEAD + "[agents]\nrandom = 2\n[zones]\nrandom = 3\n"
MAPPED = FLEET + '[map]\nfile = "t.map"\n'
ONE = "[zones]\nrandom = 2\n[[agent]]\nid = 1\ny = 0.0\n"

REFUSED_SITES = {
    "a NaN position": (HEAD + ONE + "x = nan\n", "[[agent]] 1 x: expected a finite number, got nan"),
    "an infinite position": (HEAD + ONE + "x = inf\n", "[[agent]] 1 x: expected a finite number, got inf"),
    "a far position": (HEAD + ONE + "x = 2e6\n", "[[agent]] 1 x: expected -1048576.0 to 1048576.0, got 2000000.0"),
    "agents of one id": (
        HEAD + ONE + "x = 1.0\n[[agent]]\nid = 1\nx = 2.0\ny = 0.0\n",
        "[[agent]] 1 and 2: have the same id 1",
    ),
    "zones of one id": (
        HEAD + "[agents]\nrandom = 1\n" + "[[zone]]\nid = 4\nx = 1.0\ny = 2.0\n" * 2,
        "[[zone]] 1 and 2: have the same id 4",
    ),
    "an unknown key": (FLEET + "[plan]\nw_prioritty = 1.0\n", "[plan] w_prioritty: unknown key (nearest: w_priority)"),
    "an unknown table": (FLEET + "[plans]\n", "plans: unknown key (nearest: plan)"),
    "a text for a number": (
        HEAD + '[agents]\nrandom = "two"\n[zones]\nrandom = 3\n',
        "[agents] random: expected an integer, got text 'two'",
    ),
    "a planner that does not exist": (
        FLEET + '[plan]\nplanner = "auctoin"\n',
        '[plan] planner: expected greedy or swap or auction or exact, got "auctoin" (nearest: auction)',
    ),
    "a sigma of zero": (
        FLEET + "[[kernel]]\nx = 1.0\ny = 1.0\nsigma = 0.0\nweight = 1.0\n",
        "[[kernel]] 1 sigma: expected 0.0009765625 to 1048576.0, got 0.0",
    ),
    "text that is no TOML": (HEAD + "[agents\n", "is not TOML: Expected ']' at the end of a table declaration"),
    "another version": ("version = 2\nname = 'a'\n", "version: expected 1 to 1, got 2"),
    "a missing map": (
        MAPPED.replace("t.map", "no.map"),
        "[map] file: {folder}/no.map: expected to read it, got: no such file",
    ),
}
MAP = "type octile\nheight 2\nwidth 3\nmap\n..@\n...\n"
REFUSED_MAPS = {
    "truncated in a row": (MAP[:-2], "t.map:6:3: the file ends in row 2 of 2, after 2 of 3 cells"),
    "truncated between rows": (MAP[:-4], "t.map:6:1: the file ends"),
    "carriage returns": (MAP.replace("\n", "\r\n"), "t.map:1:12: expected lines that end in LF, got CR"),
    "a row too wide": (MAP.replace("..@", "...@"), "t.map:5:4: expected 3 cells (the width), got 4"),
    "a row too many": (MAP + "...\n", "t.map:7:1: expected the end of the file after 2 rows (the height)"),
    "an unknown glyph": (MAP.replace("@", "x"), "t.map:5:3: unknown glyph 'x' (expected one of . G S @ O T W)"),
    "another type": (MAP.replace("octile", "tile"), "t.map:1:6: expected \"type octile\", got 'type tile'"),
    "an impossible width": (MAP.replace("3", "99999999"), "t.map:3:7: expected at most 1048576 cells, got 99999999"),
    "an impossible area": (
        MAP.replace("2", "99999").replace("3", "99999"),
        "t.map:2:1: expected at most 33554432 cells, got 99999 × 99999",
    ),
    "a width that is no number": (MAP.replace("width 3", "width x"), "t.map:3:7: expected a number above 0, got 'x'"),
    "all cells blocked": (
        MAP.replace(".", "@"),
        "[agents] random: 2 agents need distinct free cells, the largest component of the map has 0",
    ),
}
GOOD_SITES = {
    "no agents": HEAD + "[agents]\nrandom = 0\n[zones]\nrandom = 3\n",
    "no zones": HEAD + "[agents]\nrandom = 3\n[zones]\nrandom = 0\n",
    "all zones blocked": FLEET + '[[obstacle]]\nkind = "box"\nx = 50.0\ny = 50.0\nradius = 500.0\nhalf_y = 500.0\n',
    "all agents in one place": HEAD + "[agents]\nrandom = 9\nbox = [1.0, 1.0, 1.0, 1.0]\n[zones]\nrandom = 4\n",
    "equal scores": HEAD
    + "[zones]\nrandom = 9\nbox = [1.0, 1.0, 1.0, 1.0]\n[agents]\nrandom = 4\nbox = [2.0, 2.0, 2.0, 2.0]\n",
    "saturating scores": FLEET + "priority = 1e30\n",
    "scores that saturate below": FLEET + "priority = -1e30\n",
    "agents that can't move": HEAD + "[agents]\nrandom = 3\nspeed = 0.0\n[zones]\nrandom = 3\n",
}


def listing(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("case", REFUSED_SITES)
def test_a_bad_site_is_exit_3_with_its_place_and_leaves_nothing(case: str, ask: Ask, tmp_path: Path) -> None:
    text, words = REFUSED_SITES[case]
    site = tmp_path / "s.toml"
    site.write_text(text)
    told = ask("simulate", site, "-o", tmp_path / "run", "--ticks", 3)
    assert told.code == 3 and told.out == ""
    assert told.err.startswith(f"error: {site}: {words.replace('{folder}', str(tmp_path))}")
    assert "Traceback" not in told.err
    assert listing(tmp_path) == ["s.toml"]
    assert ask("info", site).code == 3


@pytest.mark.parametrize("case", REFUSED_MAPS)
def test_a_bad_map_is_exit_3_with_line_and_column_and_leaves_nothing(case: str, ask: Ask, tmp_path: Path) -> None:
    text, words = REFUSED_MAPS[case]
    (tmp_path / "t.map").write_bytes(text.encode())
    site = tmp_path / "s.toml"
    site.write_text(MAPPED)
    told = ask("simulate", site, "-o", tmp_path / "run", "--ticks", 3)
    assert told.code == 3 and told.out == ""
    place = words if words.startswith("[") else f"{tmp_path}/{words}"
    assert told.err.startswith(f"error: {site}: {place}")
    (tmp_path / "new").mkdir()
    told = ask("import", tmp_path / "t.map", "-o", tmp_path / "new" / "s.toml", "--agents", 2, "--zones", 1)
    assert told.code == 3 and told.out == "" and told.err.startswith("error: ")
    assert words.split(": ", 1)[1][:20] in told.err
    assert listing(tmp_path) == ["new", "s.toml", "t.map"]


@pytest.mark.parametrize("case", GOOD_SITES)
def test_an_extreme_site_runs_and_verifies(case: str, ask: Ask, tmp_path: Path) -> None:
    site = tmp_path / "s.toml"
    site.write_text(GOOD_SITES[case])
    for planner in ("greedy", "swap"):
        run = tmp_path / planner
        told = ask("simulate", site, "-o", run, "--ticks", 4, "--planner", planner, "--json")
        assert told.code == 0, told.err
        assert ask("verify", run, "--resimulate").code == 0
        assert ask("replay", run).code == 0


@pytest.mark.parametrize("name", ["s.toml", "t.map", "t.scen", "a.npy", "map of a .scen", "map of a site"])
def test_a_pipe_for_a_file_is_refused_and_not_waited_for(name: str, tmp_path: Path) -> None:
    (tmp_path / "t.map").write_text(MAP)
    (tmp_path / "t.scen").write_text("version 1\n0\tt.map\t3\t2\t0\t0\t0\t1\t1\n")
    (tmp_path / "s.toml").write_text(MAPPED if "map" in name else FLEET.replace("random = 2", 'file = "a.npy"'))
    pipe = tmp_path / ("t.map" if name.startswith("map of") else name)
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    from_site = ["simulate", "s.toml", "-o", "run", "--ticks", "3"]
    commands = {
        "s.toml": [from_site, ["info", "s.toml"]],
        "t.map": [["import", "t.map", "-o", "n.toml", "--agents", "1", "--zones", "1"], ["info", "t.map"]],
        "t.scen": [["import", "t.scen", "-o", "n.toml"], ["info", "t.scen"]],
        "a.npy": [from_site],
        "map of a .scen": [["import", "t.scen", "-o", "n.toml"]],
        "map of a site": [from_site],
    }
    before = listing(tmp_path)
    for command in commands[name]:
        done = subprocess.run(
            [sys.executable, "-m", "droveway", *command],
            cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=30,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (3, ""), (command, done)
        assert done.stderr.startswith("error: ") and "is not a regular file" in done.stderr
    assert listing(tmp_path) == before


def test_an_agent_on_an_obstacle_is_named(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "t.map").write_text(MAP)
    site = tmp_path / "s.toml"
    site.write_text(HEAD + "[[agent]]\nid = 1\nx = 2.5\ny = 1.5\n[zones]\nrandom = 3\n[map]\nfile = 't.map'\n")
    told = ask("simulate", site, "-o", tmp_path / "run")
    assert told.code == 3
    assert told.err.startswith(
        f"error: {site}: agent 1: (2.5, 1.5, 0.0) is on an obstacle (column 2, row 0 of the map)"
    )


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("0\tt.map\t3\t2\t2\t0\t0\t1\t1", "t.scen:2:1: start (2, 0) is on an obstacle"),
        ("0\tt.map\t3\t2\t0\t0\t2\t0\t1", "t.scen:2:1: goal (2, 0) is on an obstacle"),
        ("0\tt.map\t3\t2\t9\t0\t0\t1\t1", "t.scen:2:1: start (9, 0) lies outside the map of 3 × 2"),
        ("0\tt.map\t4\t2\t0\t0\t0\t1\t1", "t.scen:2:9: expected a map of 4 × 2 cells, t.map has 3 × 2"),
        ("0\tt.map\t3\t2\t0\t0\t0\t1", "t.scen:2:1: expected 9 columns separated by tabs, got 8"),
        ("0\tt.map\t3\t2\t0\tx\t0\t1\t1", "t.scen:2:15: expected a whole number, got 'x'"),
        ("0\t/far/away/gone.map\t3\t2\t0\t0\t0\t1\t1", "t.scen:2:1: expected the map gone.map beside the file"),
    ],
)
def test_a_bad_scenario_line_is_named_and_leaves_nothing(line: str, words: str, ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "t.map").write_text(MAP)
    (tmp_path / "t.scen").write_text(f"version 1\n{line}\n")
    (tmp_path / "new").mkdir()
    told = ask("import", tmp_path / "t.scen", "-o", tmp_path / "new" / "s.toml")
    assert told.code == 3 and told.out == ""
    assert told.err.startswith(f"error: {tmp_path}/{words}")
    assert listing(tmp_path / "new") == []


def test_an_absolute_foreign_path_in_a_scenario_means_the_map_beside_it(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "t.map").write_text(MAP)
    (tmp_path / "t.scen").write_text("version 1\n0\tC:\\maps\\t.map\t3\t2\t0\t0\t0\t1\t1\n")
    (tmp_path / "new").mkdir()
    assert ask("import", tmp_path / "t.scen", "-o", tmp_path / "new" / "s.toml").code == 0
    assert listing(tmp_path / "new") == ["s.toml", "t.map"]


def test_too_few_lines_in_a_scenario(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "t.scen").write_text("version 1\n")
    told = ask("import", tmp_path / "t.scen", "-o", tmp_path / "s.toml", "--agents", 3)
    assert told.code == 3 and "expected 3 agents, the file has 0" in told.err


@pytest.mark.parametrize(
    "command", ["verify", "verify range", "verify jobs", "replay", "info", "explain", "diff", "metrics"]
)
@pytest.mark.parametrize("what", ["missing", "empty folder", "folder of other things", "file"])
def test_a_path_that_is_no_ledger_is_exit_3(command: str, what: str, ask: Ask, tmp_path: Path) -> None:
    path = tmp_path / "run"
    if what == "file":
        path.write_text("text")
    elif what != "missing":
        path.mkdir()
        if what == "folder of other things":
            (path / "notes.txt").write_text("mine")
    before = listing(tmp_path)
    more = {"explain": ("--tick", 0, "--agent", 1), "diff": (path,), "verify range": ("--from", 2),
            "verify jobs": ("--jobs", 2)}.get(command, ())  # fmt: skip
    told = ask(command.split(maxsplit=1)[0], path, *more)
    assert told.code == 3, told
    assert told.out == ""
    assert told.err.startswith(f"error: {path}") and "Traceback" not in told.err
    assert listing(tmp_path) == before


@pytest.fixture
def copied(yard_run: Path, tmp_path: Path) -> Path:
    """A copy of a good run, to be damaged."""
    return Path(shutil.copytree(yard_run, tmp_path / "run"))


def put(run: Path, family: str, key: bytes, value: bytes) -> None:
    """Write one value behind the ledger's back."""
    from storage.engine.rocks import RocksStore
    from storage.layout import store_path

    store = RocksStore.open(store_path(run), read_only=False)
    store.write([(family, key, value)], sync=True)
    store.close()


def stored(run: Path, family: str, key: bytes) -> bytes:
    from storage.engine.rocks import RocksStore
    from storage.layout import store_path

    store = RocksStore.open(store_path(run), read_only=True)
    value = store.get(family, key)
    store.close()
    assert value is not None
    return value


def refused(ask: Ask, run: Path, words: str) -> Any:
    """verify says no and names `words`; the other readers end in an orderly way."""
    told = ask("verify", run)
    assert told.code == 1, told
    assert "NOT VERIFIED" in told.out and words in told.out, told.out
    for arguments in (("replay", run), ("explain", run, "--tick", 29, "--agent", 1), ("info", run)):
        other = ask(*arguments)
        assert other.code in (0, 2, 3), (arguments, other)
        assert "Traceback" not in other.err
    return told


MALFORMED = {
    "nothing": b"",
    "a truncated map": b"\x88\xa1a",
    "an array": b"\x90",
    "a float32": b"\x81\xa1a\xca\x3f\x80\x00\x00",
    "a long integer": b"\x81\xa1a\xcd\x00\x05",
    "doubled keys": b"\x82\xa1a\x01\xa1a\x02",
    "unsorted keys": b"\x82\xa1b\x01\xa1a\x02",
    "an integer key": b"\x81\x01\x02",
    "an ext": b"\x81\xa1a\xd4\x01\x00",
    "bad UTF-8": b"\x81\xa1a\xa2\xff\xfe",
    "a huge header": b"\xdf\xff\xff\xff\xff",
    "100,000 levels": b"\x91" * 100_000,
    "trailing bytes": b"\x80\xc0",
    "another NaN": b"\x81\xa1a\xcb\x7f\xf8\x00\x00\x00\x00\x00\x01",
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_event_bytes_are_found_and_located(case: str, ask: Ask, copied: Path) -> None:
    from blake3 import blake3

    from storage.layout import log_key

    data = MALFORMED[case]
    event_id = blake3(data, derive_key_context="droveway ledger event v1").digest()
    put(copied, "log", log_key(20), event_id + data)
    refused(ask, copied, "rank 20")


@pytest.mark.parametrize("place", [0, 31, 32, 60, -1])
def test_a_flipped_bit_in_a_stored_event_is_found_and_located(place: int, ask: Ask, copied: Path) -> None:
    from storage.layout import log_key

    value = bytearray(stored(copied, "log", log_key(33)))
    value[place] ^= 0x10
    put(copied, "log", log_key(33), bytes(value))
    refused(ask, copied, "rank 33")


def test_a_missing_event_is_found_and_located(ask: Ask, copied: Path) -> None:
    from rocksdict import Options, Rdict

    from storage.layout import log_key, store_path

    families = {name: Options(raw_mode=True) for name in ("log", "ids", "tree", "meta", "default")}
    database = Rdict(str(store_path(copied)), Options(raw_mode=True), column_families=families)
    family = database.get_column_family("log")
    family.delete(log_key(40))
    family.close()
    database.close()
    refused(ask, copied, "rank 40")


def test_a_ledger_behind_its_head_file_is_a_rollback(ask: Ask, copied: Path, tmp_path: Path, yard: Path) -> None:
    assert ask("simulate", yard, "-o", tmp_path / "short", "--ticks", 10).code == 0
    shutil.copy(copied / "HEAD", tmp_path / "short" / "HEAD")
    told = refused(ask, tmp_path / "short", "61")
    assert "21" in told.out
    told = ask("replay", tmp_path / "short")
    assert told.code == 0 and told.err.startswith(f"{tmp_path / 'short'}: ")
    assert told.err.endswith(": droveway verify says more\n") and "61" in told.err


def test_a_truncated_table_or_log_file_is_found(ask: Ask, copied: Path) -> None:
    files = [path for path in (copied / "ledger").iterdir() if path.suffix in (".sst", ".log")]
    largest = max(files, key=lambda path: path.stat().st_size)
    with largest.open("r+b") as file:
        file.truncate(largest.stat().st_size // 2)
    told = ask("verify", copied)
    assert told.code == 1 and "NOT VERIFIED" in told.out


def test_a_damaged_head_file_is_found(ask: Ask, copied: Path) -> None:
    data = bytearray((copied / "HEAD").read_bytes())
    data[20] ^= 1
    (copied / "HEAD").write_bytes(bytes(data))
    told = ask("verify", copied)
    assert told.code == 1 and "HEAD" in told.out


@pytest.mark.parametrize("name", ["CURRENT", "MANIFEST"])
def test_a_ledger_without_its_manifest_is_damage(name: str, ask: Ask, copied: Path) -> None:
    for path in (copied / "ledger").glob(f"{name}*"):
        path.unlink()
    told = ask("verify", copied)
    assert told.code == 1 and "Traceback" not in told.err
    assert re.search(r"ranks 0\.\.\d+ are missing\n", told.out)
    assert told.err == f"hint: droveway repair {copied} puts right what can be, and names what is lost\n"
    for command in ("replay", "info"):
        assert ask(command, copied).code == 3


def test_verify_names_frame_agent_and_field_of_a_rewritten_decision(ask: Ask, copied: Path) -> None:
    """One row's zone is rewritten, and every digest, id and tree is made again with our own writer."""
    from blake3 import blake3

    from coord.frames.frame import decode_frame_event
    from storage import Event, Ledger

    shutil.move(copied, copied.with_name("honest"))
    changed = 0xFFFFFFFF
    with Ledger.open(copied.with_name("honest"), mode="r") as old, Ledger.open(copied) as new:
        ids: dict[bytes, bytes] = {}
        digest = bytes(16)
        for _, event in old.scan():
            effect = event.effect
            if event.kind == "coord.frame":
                from dataclasses import replace

                frame, rows = decode_frame_event(effect)
                rows = rows.copy()
                if event.tick == 12:
                    rows["zone"][rows["agent"] == 5] = changed
                frame = replace(frame, rows_digest=blake3(rows.tobytes()).digest(16), prev_digest=digest)
                digest = blake3(frame.encode()).digest(16)
                effect = frame.encode() + rows.tobytes()
            made = Event(
                producer=event.producer,
                effect=effect,
                kind=event.kind,
                parents=tuple(sorted(ids[parent] for parent in event.parents)),
                sequence=event.sequence,
                schema=event.schema,
                tick=event.tick,
            )
            new.append(made)
            ids[event.id] = made.id
    told = ask("verify", copied)
    assert told.code == 1
    assert told.out.startswith("frame 12 (tick 12, rank 26): agent 5: zone: expected ")
    assert f"got {changed}" in told.out.splitlines()[0]
    records = ask("verify", copied, "--json").records
    assert records[0]["type"] == "divergence"
    assert (records[0]["frame_id"], records[0]["agent"], records[0]["field"]) == (12, 5, "zone")
    assert records[-1]["ok"] is False


def test_verify_names_frame_agent_and_field_of_a_rewritten_input(ask: Ask, copied: Path) -> None:
    """An agent's charge is rewritten at tick 12; deltas, input_digest, frame chain, ids and tree are made again."""
    from dataclasses import replace

    from blake3 import blake3

    from coord.frames.digest import input_digest
    from coord.frames.frame import decode_frame_event
    from coord.frames.inputs import ARRAYS, Inputs, apply, encode
    from coord.ground.rings import Rings
    from storage import Ledger, verify_ledger

    shutil.move(copied, copied.with_name("honest"))
    with Ledger.open(copied.with_name("honest"), mode="r") as old, Ledger.open(copied) as new:
        ids: dict[bytes, bytes] = {}
        state: Inputs | None = None  # what was
        written: Inputs | None = None  # what is said now
        chain = bytes(16)
        for _, event in old.scan():
            effect = event.effect
            if event.kind == "coord.inputs":
                state = apply(state, [effect], tick=event.tick)
                now = state.copy()
                if event.tick == 12:
                    now.agents["energy"][now.agents["id"] == 5] = 0.0
                (effect,) = encode(now, event.tick, written if effect[4] else None)
                written = now
            elif event.kind == "coord.frame":
                frame, rows = decode_frame_event(effect)
                arrays = [written.array(name) for name, _ in ARRAYS]
                digest = input_digest(*arrays[:4], Rings.empty(), written.grid)
                assert (digest == frame.input_digest) == (event.tick != 12)
                frame = replace(frame, input_digest=digest, prev_digest=chain)
                chain = blake3(frame.encode()).digest(16)
                effect = frame.encode() + rows.tobytes()
            made = replace(event, effect=effect, parents=tuple(sorted(ids[parent] for parent in event.parents)))
            new.append(made)
            ids[event.id] = made.id
    assert verify_ledger(copied).ok and ask("verify", copied, "--no-replan").code == 0
    told = ask("verify", copied)
    assert told.code == 1
    assert told.out.startswith("frame 12 (tick 12, rank 26): agent 5: ")
    records = ask("verify", copied, "--json").records
    assert records[0]["type"] == "divergence"
    assert (records[0]["frame_id"], records[0]["agent"], records[0]["field"]) == (12, 5, "zone")
    assert records[-1]["ok"] is False
    told = ask("verify", copied, "--resimulate")
    assert told.code == 1
    assert told.out.startswith("frame 12 (tick 12, rank 25): agent 5: inputs.agents.energy: expected ")


def test_verify_refuses_contradicting_options(ask: Ask, yard_run: Path) -> None:
    told = ask("verify", yard_run, "--resimulate", "--no-replan")
    assert told.code == 2 and told.err.startswith("error: expected --resimulate or --no-replan, got both\n")
