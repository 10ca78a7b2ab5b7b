"""The demo: one root for all four journeys, the one recorded; a ledger that every reader takes; nothing left behind."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from droveway import demo, exits

Ask = Callable[..., Any]
FILES = [
    "camera.json",
    "moments.jvim",
    "queries.npy",
    "run",
    "warehouse.map",
    "warehouse.ply",
    "warehouse.png",
    "warehouse.toml",
]


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder that the demo filled, and what it said."""
    folder = tmp_path_factory.mktemp("demo") / "d e"  # a space, for the hints
    done = subprocess.run(
        [sys.executable, "-m", "droveway", "demo", "-o", str(folder)],
        cwd=folder.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stderr == ""
    return folder, done.stdout


def test_the_root_the_index_and_the_picture_are_those_that_the_twins_gave(
    ask: Ask, golden: dict[str, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    told = ask("demo", "--json")
    assert (told.code, told.err) == (0, "")
    records = {record["journey"]: record for record in told.records}
    assert list(records) == ["simulate", "search", "render", "audit", "answer"]
    recorded = golden["demo"]
    assert records["answer"]["root"] == recorded["root"] == records["answer"]["recorded"]
    assert records["search"]["cid"] == recorded["index"] and records["render"]["digest"] == recorded["picture"]
    assert list(tmp_path.iterdir()) == []


def test_the_answers_are_good_ones(ask: Ask) -> None:
    simulated, searched, rendered, audited, answer = ask("demo", "--json").records
    assert simulated["services"] > 400 and simulated["size"] == 2 * simulated["ticks"] + 1
    assert searched["recognised"] == searched["queries"] == 16 and searched["recall"] >= 0.88
    assert (searched["rows"], searched["dim"], searched["bits"]) == (4096, 128, 4)
    assert searched["file_bytes"] < 4096 * (128 // 2 + 16 + 4)
    assert searched["like_it"][0] == searched["example"]
    assert (rendered["splats"], rendered["width"], rendered["height"]) == (20_000, 640, 360)
    checks = ("ok", "search_again", "render_again", "found")
    assert all(audited[name] is True for name in checks)
    assert audited["decisions"] == audited["resimulated"] == 200
    assert audited["size"] == answer["size"] == simulated["size"] + 2
    assert answer["ok"] is True


def test_the_text_tells_each_journey_and_the_root_in_twenty_lines(walked: tuple[Path, str]) -> None:
    folder, text = walked
    lines = text.splitlines()
    assert len(lines) <= 24 and max(map(len, lines[:15])) <= 120
    assert [line.split()[0] for line in lines if line[:1].islower()] == [
        "simulate",
        "search",
        "render",
        "audit",
        "root",
    ]
    assert text.count(" s]") == 4
    assert "Made again: 200 decisions with their inputs, the search, the picture: all the same." in text
    assert "One bit flipped in a copy: found, rank" in text
    assert "It is the root recorded for droveway " in text
    assert sorted(path.name for path in folder.iterdir()) == FILES


def test_every_command_that_it_proposes_works_and_the_picture_comes_out_again(
    walked: tuple[Path, str], ask: Ask, golden: dict[str, dict[str, str]]
) -> None:
    import shlex

    lines = [shlex.split(line) for line in walked[1].splitlines() if line.startswith("  droveway ")]
    assert [words[1] for words in lines] == ["replay", "explain", "verify", "search", "render"]
    for words in lines:
        told = ask(*words[1:])
        assert told.code == 0, told.err
        if words[1] == "render":
            assert golden["demo"]["picture"] in told.out
        if words[1] == "search":
            assert golden["demo"]["index"] in told.out
    for name in ("paths.png", "again.png"):
        (walked[0] / name).unlink()


def test_every_reader_takes_the_ledger_and_says_what_it_holds(walked: tuple[Path, str], ask: Ask) -> None:
    run = walked[0] / "run"
    told = ask("verify", run, "--resimulate")
    assert told.code == 0
    assert told.out.startswith(
        "verified: 403 events, 200 decisions, 200 made again, 200 with all their inputs; of other kinds the bytes only"
        ": 1 demo.render, 1 demo.search\n"
    )
    answer = ask("verify", run, "--json").record
    assert answer["other_events"] == {"demo.search": 1, "demo.render": 1}
    kinds = ask("info", run, "--json").record["kinds"]
    assert kinds == {"coord.scenario": 1, "coord.inputs": 200, "coord.frame": 200, "demo.search": 1, "demo.render": 1}
    assert ask("replay", run).code == 0
    assert ask("explain", run, "--tick", 199, "--agent", 3).code == 0
    assert ask("diff", run, run).code == 0


@pytest.mark.parametrize("command", ["verify", "info", "replay", "diff"])
def test_the_folder_around_the_run_is_led_to_the_run(command: str, walked: tuple[Path, str], ask: Ask) -> None:
    folder = walked[0]
    told = ask(command, folder, *((folder,) if command == "diff" else ()))
    assert told.code == 3
    assert told.err == (
        f"error: {folder}: holds no ledger (expected {folder}/ledger and HEAD)\nhint: its run is '{folder / 'run'}'\n"
    )


def test_diff_names_the_key_of_another_answer(walked: tuple[Path, str], ask: Ask, tmp_path: Path) -> None:
    from dataclasses import replace

    from storage import Ledger, canonical

    with Ledger.open(walked[0] / "run", mode="r") as old, Ledger.open(tmp_path / "run", sync="os") as new:
        for _, event in old.scan():
            if event.kind == "demo.search":
                effect = canonical.unpack(event.effect)
                event = replace(event, effect=canonical.pack({**effect, "k": 11}))  # noqa: PLW2901
            new.append(event)
    told = ask("diff", walked[0] / "run", tmp_path / "run", "--json")
    assert told.code == 1
    record = told.record
    assert (record["rank"], record["kind"], record["field"], record["expected"], record["got"]) == (
        401, "demo.search", "k", 10, 11,
    )  # fmt: skip
    assert record["decision"] is None


def test_the_events_are_those_of_the_page(walked: tuple[Path, str], repository: Path) -> None:
    import re

    from storage import Ledger, canonical

    page = (repository / "docs" / "formats" / "demo-events.md").read_text()
    tables = page.split("| `demo.render` | value |")
    with Ledger.open(walked[0] / "run", mode="r") as ledger:
        frame, search, render = (ledger.at(rank) for rank in (400, 401, 402))
        scenario = ledger.at(0)
    assert search.parents == (frame.id,) and render.parents == (scenario.id,)
    assert (search.producer, search.sequence, search.tick, search.wall_ns) == (frame.producer, 401, 199, None)
    for event, table in ((search, tables[0]), (render, tables[1])):
        keys = re.findall(r"^\| (`[^|]*`) \| ", table.partition("| parents |")[2], re.MULTILINE)
        assert sorted(re.findall(r"`(\w+)`", " ".join(keys))) == list(canonical.unpack(event.effect))


def test_the_effects_are_those_of_the_pages_examples(repository: Path) -> None:
    import re

    from splat import Camera, Scene, render
    from storage import canonical
    from vector import IdMapIndex

    page = (repository / "docs" / "formats" / "demo-events.md").read_text()
    blocks = {name: bytes.fromhex(text) for name, text in re.findall(r"```hex (\w+)\n(.*?)```", page, re.DOTALL)}
    index = IdMapIndex(2, metric="cosine")
    index.add(np.float32([[3, 1], [0, 2], [5, 5]]), np.uint64([0, 1, 90]))
    query = np.float32([[1, 0.9]])
    answer, among = index.search(query, 2), index.search(query, 2, allow=np.uint64([0, 1]))
    assert (answer[1].tolist(), among[1].tolist()) == ([[90, 0]], [[0, 1]])
    assert canonical.pack(demo.search_effect(index, query, answer, among)) == blocks["search"]
    none = np.zeros((0, 4), np.float32)
    scene = Scene(none[:, :3], none[:, :3], none, none[:, 0], none[:, None, :3])
    camera = Camera(2, 1, 3.0, 3.0, 1.0, 0.5, np.eye(4))
    assert canonical.pack(demo.render_effect(scene, camera, render(scene, camera))) == blocks["render"]
    assert re.findall(r"(\d+) bytes:", page) == [str(len(block)) for block in blocks.values()]


def test_the_run_is_the_one_that_its_own_site_gives(walked: tuple[Path, str], ask: Ask, tmp_path: Path) -> None:
    record = ask("simulate", walked[0] / "warehouse.toml", "-o", tmp_path / "run", "--sync", "os", "--json").record
    with_demo = ask("verify", walked[0] / "run", "--expect", f"{record['size']}:{record['root']}")
    assert with_demo.code == 0


def test_an_index_of_the_run_holds_its_moments(walked: tuple[Path, str], ask: Ask, tmp_path: Path) -> None:
    record = ask("index", "build", walked[0] / "run", "-o", tmp_path / "m.jvim", "--json").record
    assert (record["rows"], record["dim"], record["metric"]) == (200, 128, "cosine")
    told = ask("search", tmp_path / "m.jvim", walked[0] / "queries.npy", "-k", 1, "--json").records
    assert [query["ids"] for query in told[:-1]] == [[6 + 12 * i] for i in range(16)]


@pytest.mark.parametrize("what", ["a file in it", "a file", "no folder above"])
def test_a_folder_that_is_in_use_is_exit_2_and_untouched(what: str, ask: Ask, tmp_path: Path) -> None:
    folder = tmp_path / "d"
    if what == "a file":
        folder.write_text("mine")
    elif what == "a file in it":
        folder.mkdir()
        (folder / "mine").write_text("mine")
    else:
        folder = tmp_path / "no" / "d"
    before = sorted(tmp_path.rglob("*"))
    told = ask("demo", "-o", folder)
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith(f"error: {folder}: expected ")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_missing_place_for_temporary_files_is_exit_2_and_names_both_ways_out(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "no"))
    told = ask("demo")
    assert (told.code, told.out, told.err) == (
        2, "",
        f"error: {tmp_path / 'no'}: expected a folder for temporary files, got: no such file or directory\n"
        "hint: set TMPDIR, or choose a place with -o\n",
    )  # fmt: skip


@pytest.mark.parametrize("was_there", [False, True])
@pytest.mark.parametrize("journey", ["simulate_fleet", "search_moments", "render_scene", "audit_run"])
def test_a_full_disk_is_exit_4_and_leaves_the_folder_as_it_was(
    journey: str, was_there: bool, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "d"
    if was_there:
        folder.mkdir()

    def full(place: Path) -> None:
        (place / demo.COPY).mkdir()
        for half in (place / demo.COPY / "written", place / demo.RUN / "written", place / demo.INDEX):
            half.write_bytes(b"x")
        raise OSError(errno.ENOSPC, "No space left on device", str(half))

    for name in ("simulate_fleet", "search_moments", "render_scene", "audit_run"):
        monkeypatch.setattr(demo, name, full if name == journey else _quick(name))
    told = ask("demo", "-o", folder, "--json")
    assert told.code == 4
    assert told.err == f"error: {folder}: expected room to write, got: no space left on device\nhint: free some space\n"
    assert folder.is_dir() == was_there
    assert not was_there or list(folder.iterdir()) == []


def test_a_failing_demo_leaves_what_others_put_into_its_folder(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(place: Path) -> None:
        (place / "mine").write_text("mine")
        (place / demo.SITE).write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(demo, "simulate_fleet", failing)
    assert ask("demo", "-o", tmp_path / "d").code == 4
    assert [path.name for path in (tmp_path / "d").iterdir()] == ["mine"]


@pytest.mark.parametrize("was_there", [False, True])
def test_of_two_demos_for_one_folder_one_gets_it_and_the_other_takes_nothing_away(
    was_there: bool, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from droveway.commands import simulate

    folder, look = tmp_path / "d", simulate.require_new_folder
    if was_there:
        folder.mkdir()

    def looked_at_before_the_other_began(place: Path) -> None:
        look(place)
        place.mkdir(exist_ok=True)
        demo.claim(place)
        (place / demo.INDEX).write_text("the other's")

    monkeypatch.setattr(simulate, "require_new_folder", looked_at_before_the_other_began)
    told = ask("demo", "-o", folder)
    assert (told.code, told.out, told.err) == (
        2, "",
        f"error: {folder}: expected a new or empty folder, got one that another demo is just filling\n"
        "hint: choose another output with -o\n",
    )  # fmt: skip
    assert sorted(path.name for path in folder.iterdir()) == [demo.INDEX, demo.RUN]


@pytest.mark.parametrize("moment", ["remove_made", "claim"])
def test_a_signal_in_a_moment_that_must_be_whole_leaves_nothing(
    moment: str, tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = getattr(demo, moment)

    def interrupted(folder: Path) -> None:
        signal.raise_signal(signal.SIGINT)
        whole(folder)
        signal.raise_signal(signal.SIGINT)

    def stopped(folder: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, moment, interrupted)
    monkeypatch.setattr(demo, "simulate_fleet", stopped)
    told = ask("demo", "-o", tmp_path / "d")
    assert told.code == exits.INTERRUPTED
    assert list(tmp_path.iterdir()) == []


def _quick(name: str) -> Callable[[Path], object]:
    made = {
        "simulate_fleet": demo.Simulated(1, 1, 1, "swap", 1, 1, 3, bytes(32)),
        "search_moments": demo.Searched(1, 1, 4, 1, 1, 1, 1.0, 1, 0, [0], "00", 4, bytes(32)),
        "render_scene": demo.Rendered(1, 0, 1, 1, "00", 5, bytes(32)),
    }
    return lambda folder: made[name]


def test_another_root_than_the_recorded_one_is_exit_1_and_says_so(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = demo.Audited(True, 5, 1, 1, True, True, "a.sst", 3, True, "ranks 1..2", 5, bytes(32))
    for name in ("simulate_fleet", "search_moments", "render_scene"):
        monkeypatch.setattr(demo, name, _quick(name))
    monkeypatch.setattr(demo, "audit_run", lambda folder: sound)
    monkeypatch.setattr(demo, "recorded_root", lambda: "ab" * 32)
    told = ask("demo")
    assert told.code == exits.NO
    assert f"has another root recorded: {'ab' * 32}. `droveway doctor` looks for the reason." in told.out
    monkeypatch.setattr(demo, "recorded_root", lambda: None)
    told = ask("demo")
    assert told.code == 0 and "This install has no recorded root" in told.out


@pytest.mark.parametrize("wrong", ["ok", "search_again", "render_again", "found"])
def test_whatever_the_audit_finds_is_exit_1(wrong: str, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    sound = demo.Audited(True, 5, 1, 1, True, True, "a.sst", 3, True, "ranks 1..2", 5, bytes(32))
    for name in ("simulate_fleet", "search_moments", "render_scene"):
        monkeypatch.setattr(demo, name, _quick(name))
    monkeypatch.setattr(demo, "recorded_root", lambda: bytes(32).hex())
    monkeypatch.setattr(demo, "audit_run", lambda folder: replace(sound, **{wrong: False}))
    told = ask("demo")
    assert told.code == exits.NO
    assert ("NOT FOUND" if wrong == "found" else "NOT THE SAME") in told.out
    assert "this install or this machine is not sound" in told.out


def test_an_index_that_answers_otherwise_is_noticed(walked: tuple[Path, str], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(walked[0], tmp_path / "d"))
    queries = np.load(folder / "queries.npy")
    np.save(folder / "queries.npy", queries + np.float32(0.001))
    (folder / "camera.json").write_text((folder / "camera.json").read_text().replace("640", "641"))
    audited = demo.audit_run(folder)
    assert audited.ok and not audited.search_again and not audited.render_again
    assert not (folder / "copy").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_is_exit_130_and_leaves_nothing(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    environment = {**os.environ, "DROVEWAY_ISA": "ref", "TMPDIR": str(tmp_path / "tmp")}  # slow, so that it is in time
    for arguments in ([], ["-o", str(tmp_path / "d")]):
        child = subprocess.Popen(
            [sys.executable, "-m", "droveway", "demo", *arguments],
            cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        place = tmp_path / "d" if arguments else tmp_path / "tmp"
        deadline = time.monotonic() + 60
        while not list(place.glob("**/HEAD")) and time.monotonic() < deadline and child.poll() is None:
            time.sleep(0.02)
        child.send_signal(number)
        out, err = child.communicate(timeout=60)
        assert child.returncode == 130, (out, err)
        assert err.strip() == "error: interrupted"
        assert "root" not in out
        assert [path.name for path in tmp_path.iterdir()] == ["tmp"] and list((tmp_path / "tmp").iterdir()) == []
