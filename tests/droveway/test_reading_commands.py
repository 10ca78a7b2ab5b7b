"""verify, replay, explain, diff, info and import: what they answer about good runs and files."""

import hashlib
import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
YARD = ROOT / "examples" / "sites" / "yard.toml"
MAP = ROOT / "examples" / "sites" / "yard.map"
Ask = Callable[..., Any]


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_verify_says_yes_with_the_root_of_the_run(ask: Ask, yard_run: Path) -> None:
    root = ask("info", yard_run, "--json").record["root"]
    told = ask("verify", yard_run)
    assert (told.code, told.err) == (0, "")
    assert told.out == f"verified: 61 events, 30 decisions, 30 made again\nroot  {root}\n"
    told = ask("verify", yard_run, "--resimulate")
    assert told.out.startswith("verified: 61 events, 30 decisions, 30 made again, 30 with all their inputs\n")
    told = ask("verify", yard_run, "--no-replan")
    assert told.out.startswith("verified: 61 events, 30 decisions\n")


def test_verify_answers_in_json(ask: Ask, yard_run: Path) -> None:
    record = ask("verify", yard_run, "--json").record
    assert list(record) == [
        "type",
        "run",
        "ok",
        "name",
        "size",
        "root",
        "frames",
        "planned",
        "resimulated",
        "changes_resimulated",
        "not_resimulated",
        "external",
        "external_decisions",
        "divergences",
        "frames_diverged",
        "problems",
        "other_events",
        "checkpoints",
        "signed_size",
        "retired",
        "retired_ranks",
        "not_replayable",
        "not_replayable_ranks",
        "warnings",
    ]
    assert record["ok"] is True and record["problems"] == 0 and record["name"] == "yard"


def test_verify_warns_of_wall_times_that_go_back_or_are_a_day_ahead_also_where_a_run_is_published(
    ask: Ask, yard_run: Path, tmp_path: Path
) -> None:
    import time

    from storage import Event, Ledger
    from storage.notes.keys import Signer

    shutil.copytree(yard_run, tmp_path / "run")
    now = time.time_ns()
    with Ledger.open(tmp_path / "run", sync="os") as ledger:
        for i, wall_ns in enumerate([now, now + 48 * 3600 * 10**9, now]):
            ledger.append(Event(producer="note", effect=b"", kind="note.text", sequence=i, tick=0, wall_ns=wall_ns))
        ledger.publish(str(tmp_path / "web"), Signer("a.example", bytes(32)))
    for place in ("run", "web"):
        told = ask("verify", tmp_path / place, "--json")
        assert (told.code, told.record["ok"]) == (0, True)
        ahead, back = told.record["warnings"]
        assert ahead.startswith("rank 62: the wall time of producer 'note' is 1 day, 23:")
        assert ahead.endswith(" ahead")
        assert back == "rank 63: the wall time of producer 'note' goes back by 2 days, 0:00:00"
        assert f"\nwarning: {ahead[:40]}" in ask("verify", tmp_path / place).out


def test_verify_compares_with_a_checkpoint_kept_elsewhere(ask: Ask, yard_run: Path, tmp_path: Path) -> None:
    import base64

    record = ask("info", yard_run, "--json").record
    size, root = record["size"], record["root"]
    assert ask("verify", yard_run, "--expect", f"{size}:{root}").code == 0
    note = tmp_path / "checkpoint"
    note.write_text(f"example/yard\n{size}\n{base64.b64encode(bytes.fromhex(root)).decode()}\n")
    assert ask("verify", yard_run, "--expect", note).code == 0
    told = ask("verify", yard_run, "--expect", f"{size}:{'0' * 64}")
    assert told.code == 1 and "NOT VERIFIED" in told.out
    told = ask("verify", yard_run, "--expect", f"{size + 5}:{root}")
    assert told.code == 1 and "NOT VERIFIED" in told.out


def test_a_malformed_checkpoint_is_usage_on_the_command_line_and_input_in_a_file(
    ask: Ask, yard_run: Path, tmp_path: Path
) -> None:
    told = ask("verify", yard_run, "--expect", "5:abc")
    assert told.code == 2 and told.err.startswith("error: --expect: checkpoint: ")
    note = tmp_path / "note"
    note.write_text("nonsense")
    told = ask("verify", yard_run, "--expect", note)
    assert told.code == 3 and told.err.startswith(
        f"error: {note}: checkpoint: expected SIZE:ROOT, or the lines origin, size"
    )
    for text in ("601", tmp_path / "absent"):
        told = ask("verify", yard_run, "--expect", text)
        assert (told.code, told.out) == (3, "")
        assert told.err == f"error: {text}: expected SIZE:ROOT or a checkpoint file, got: no such file\n"


def test_reading_commands_change_no_byte_of_the_run(ask: Ask, yard_run: Path, tmp_path: Path) -> None:
    before = files_of(yard_run)
    for arguments in (
        ("verify", yard_run),
        ("verify", yard_run, "--resimulate"),
        ("replay", yard_run, "--png", tmp_path / "a.png"),
        ("explain", yard_run, "--tick", 3, "--agent", 0),
        ("diff", yard_run, yard_run),
        ("info", yard_run),
    ):
        assert ask(*arguments).code == 0, arguments
    assert files_of(yard_run) == before


def test_replay_summarises_what_simulate_said(ask: Ask, yard_run: Path) -> None:
    record = ask("replay", yard_run, "--json").record
    assert (record["first_tick"], record["last_tick"], record["frames"]) == (0, 29, 30)
    assert (record["agents"], record["zones"], record["planner"]) == (24, 60, "swap")
    assert record["root"] == ask("info", yard_run, "--json").record["root"]
    assert record["services"] > 20 and record["way_m"] > 100 and record["health_worst"] == "ok"
    text = ask("replay", yard_run).out
    assert (
        f"zones   {record['services']} services at {record['zones_served']} zones, up to the start of tick 29\n" in text
    )
    assert (
        "a plan  24.00 agents with a zone, 0.00 turned down (0.00 as others won every zone they could take); "
        "worst health ok\n" in text
    )


def test_replay_takes_a_part_of_the_run(ask: Ask, yard_run: Path) -> None:
    whole = ask("replay", yard_run, "--json").record
    parts = [
        ask("replay", yard_run, "--json", "--from", 0, "--to", 14).record,
        ask("replay", yard_run, "--json", "--from", 14, "--to", 29).record,
    ]
    assert [part["frames"] for part in parts] == [15, 16]
    assert sum(part["services"] for part in parts) == whole["services"]
    assert sum(part["way_m"] for part in parts) == pytest.approx(whole["way_m"])
    told = ask("replay", yard_run, "--from", 5, "--to", 4)
    assert told.code == 2 and told.err.startswith("error: expected --from at or before --to, got 5 and 4\n")
    told = ask("replay", yard_run, "--from", 500)
    assert told.code == 2 and told.err == (
        f"error: {yard_run}: expected planned ticks from 500, found none\n"
        f"hint: droveway info {yard_run} shows its ticks\n"
    )


def test_replay_draws_the_run(ask: Ask, yard_run: Path, tmp_path: Path) -> None:
    picture = tmp_path / "yard.png"
    told = ask("replay", yard_run, "--png", picture, "--json")
    assert told.record["png"] == str(picture)
    data = picture.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    assert width == 1600 and 900 < height < 1400
    from PIL import Image

    from droveway.paths_picture import WALL

    image = Image.open(picture).convert("RGB")
    colours = image.getcolors(width * height)
    assert colours is not None
    counts = {colour: count for count, colour in colours}
    share = counts[WALL] / (width * height)
    assert 0.2 < share < 0.4, "the racks"
    assert len(counts) > 500, "paths and zones"
    again = tmp_path / "again.png"
    ask("replay", yard_run, "--png", again)
    assert again.read_bytes() == data


SHAPES = (
    '[[obstacle]]\nkind = "circle"\nx = 20.0\ny = 20.0\nradius = 5.0\nmargin = 3.0\n'
    '[[obstacle]]\nkind = "box"\nx = 60.0\ny = 20.0\nradius = 5.0\nhalf_y = 9.0\n'
    '[[obstacle]]\nkind = "polygon"\npoints = [[40.0, 60.0], [60.0, 60.0], [50.0, 80.0]]\nmargin = 2.0\n'
)


@pytest.mark.parametrize("flags", [0, 1])
def test_replay_draws_a_site_without_a_map(flags: int, ask: Ask, tmp_path: Path) -> None:
    site = tmp_path / "open.toml"
    site.write_text(
        f'version = 1\nname = "open"\n[plan]\nflags = {flags}\n[agents]\nrandom = 5\n[zones]\nrandom = 9\n' + SHAPES
    )
    assert ask("simulate", site, "-o", tmp_path / "run", "--ticks", 12).code == 0
    assert ask("replay", tmp_path / "run", "--png", tmp_path / "open.png").code == 0
    from droveway.paths_picture import MARGIN, PASSABLE, WALL

    counts = colours(tmp_path / "open.png")
    assert counts[WALL if flags else PASSABLE] > 5000, "only what binds ways looks like a wall"
    assert counts.get(PASSABLE if flags else WALL, 0) < 100
    assert counts[MARGIN] > 2000


def test_replay_draws_kernels_and_obstacles_on_a_map_unlike_walls(ask: Ask, yard: Path, tmp_path: Path) -> None:
    from droveway.paths_picture import FLOOR, PASSABLE, WALL

    (tmp_path / "yard.map").write_bytes(MAP.read_bytes())
    shown = []
    plain = YARD.read_text()
    kernels = "".join(
        f"[[kernel]]\nx = 12.0\ny = {y}\nsigma = 3.0\nweight = {w}\n" for y, w in ((6.0, 1.0), (24.0, -1.0))
    )
    circle = '[[obstacle]]\nkind = "circle"\nx = 25.0\ny = 15.0\nradius = 4.0\n'
    for name, more in (("plain", ""), ("kernels", kernels), ("circle", circle)):
        site = tmp_path / f"{name}.toml"
        site.write_text(plain + more)
        assert ask("simulate", site, "-o", tmp_path / name, "--ticks", 3).code == 0
        assert ask("replay", tmp_path / name, "--png", tmp_path / f"{name}.png").code == 0
        shown.append(colours(tmp_path / f"{name}.png"))
    bare, field, round_one = shown
    assert field[FLOOR] < bare[FLOOR] - 5000 and field[WALL] > 0.8 * bare[WALL]
    assert bare.get(PASSABLE, 0) < 100
    assert round_one[PASSABLE] > 5000


def colours(picture: Path) -> dict[tuple[int, ...], int]:
    from PIL import Image

    found = Image.open(picture).convert("RGB").getcolors(1 << 22)
    assert found is not None
    return {colour: count for count, colour in found}  # type: ignore[misc]


def test_a_picture_on_a_full_disk_is_exit_4_and_in_a_missing_folder_exit_2(
    ask: Ask, yard_run: Path, tmp_path: Path
) -> None:
    full = tmp_path / "full.png"
    full.symlink_to("/dev/full")
    told = ask("replay", yard_run, "--png", full)
    assert told.code == 4 and told.err.startswith(
        f"error: {full}: expected room to write, got: no space left on device"
    )
    told = ask("replay", yard_run, "--png", tmp_path / "a" / "b.png")
    assert told.code == 2 and told.err.endswith(f"hint: mkdir -p {tmp_path / 'a'}\n")


def test_explain_gives_all_terms_and_what_would_have_to_change(ask: Ask, yard_run: Path) -> None:
    told = ask("explain", yard_run, "--tick", 0, "--agent", 3)
    assert told.code == 0
    lines = told.out.splitlines()
    assert lines[0].startswith("tick 0: agent 3 (ready) has zone ")
    assert " ".join(lines[2].split()) == (
        "zone status score priority idle cover avoid travel switch ticks winner wins with"
    )
    assert any(line.startswith("→") for line in lines)
    assert "what would have to change:" in lines
    record = ask("explain", yard_run, "--tick", 0, "--agent", 3, "--json").record
    assert record["now_tick"] == 0 and record["agent"] == 3 and record["frame_id"] == 0
    assert len(record["options"]) == 60
    best = record["options"][0]
    assert set(best["score"]) >= {"priority", "idle", "cover", "avoid", "travel", "switch", "score_i32"}
    assert {option["status"] for option in record["options"]} <= {"ok", "conflict", "unreachable"}
    exact = [option["winning_change_exact"] for option in record["options"]]
    assert all(exact[:8]) and not all(exact)
    record = ask("explain", yard_run, "--tick", 0, "--agent", 3, "--json", "--all").record
    assert all(option["winning_change_exact"] for option in record["options"])


def test_an_estimate_is_marked_in_the_table() -> None:
    from coord import AgentState, PlanConfig, WorkZone, explain
    from droveway.explanation_text import explanation_text

    agents, zones = [AgentState(id=1), AgentState(id=2, x=4.0)], [WorkZone(id=5), WorkZone(id=6, x=9.0)]
    for exact, about in ((8, ""), (0, "~")):
        told = explain(agents, zones, [], [], PlanConfig(), now_tick=0, agent=1, exact=exact)
        change = next(option.winning_change for option in told.options if option.winning_change)
        lines = explanation_text(told, 8).splitlines()
        assert any(f" {about}+{change} (" in line for line in lines)
        assert ("   ~ marks an estimate, often wrong: the exact change was not found" in lines) is bool(about)


def test_explain_a_zone_and_a_pair(ask: Ask, yard_run: Path) -> None:
    agent = ask("explain", yard_run, "--tick", 0, "--agent", 3, "--json").record
    zone = agent["row"]["zone"]
    told = ask("explain", yard_run, "--tick", 0, "--zone", zone)
    assert told.out.startswith(f"tick 0: zone {zone} (ready) went to agent 3, score {agent['row']['score']}\n")
    pair = ask("explain", yard_run, "--tick", 0, "--zone", zone, "--agent", 3, "--json").record
    assert [option["winning_change"] for option in pair["options"]] == [0]


def test_explain_refuses_what_the_run_does_not_hold(ask: Ask, yard_run: Path) -> None:
    told = ask("explain", yard_run, "--tick", 0, "--agent", 9999)
    assert told.code == 2 and "agent 9999 is not among the 24 agents of this tick" in told.err
    told = ask("explain", yard_run, "--tick", 300, "--agent", 3)
    assert told.code == 2
    assert (
        told.err
        == f"error: {yard_run}: expected a tick of the run, got --tick 300\nhint: its last plan is of tick 29\n"
    )
    told = ask("explain", yard_run, "--tick", 0)
    assert told.code == 2 and told.err.startswith("error: expected --agent ID or --zone ID, got neither\n")


def test_explain_between_plans_tells_the_last_one(ask: Ask, tmp_path: Path) -> None:
    site = tmp_path / "slow.toml"
    site.write_text('version = 1\nname = "slow"\n[plan]\nevery_ticks = 4\n[agents]\nrandom = 2\n[zones]\nrandom = 3\n')
    ask("simulate", site, "-o", tmp_path / "run", "--ticks", 10)
    told = ask("explain", tmp_path / "run", "--tick", 7, "--agent", 0)
    assert told.code == 0
    assert told.err == "tick 7 was not planned: this is the decision of tick 4\n"
    assert ask("explain", tmp_path / "run", "--tick", 7, "--agent", 0, "--quiet").err == ""


def test_diff_of_equal_runs_is_zero(ask: Ask, yard_run: Path, tmp_path: Path) -> None:
    ask("simulate", YARD, "-o", tmp_path / "again", "--ticks", 30)
    told = ask("diff", yard_run, tmp_path / "again")
    assert told.code == 0 and told.out.startswith("equal: 61 events, root ")
    assert ask("diff", yard_run, tmp_path / "again", "--json").record["equal"] is True


def test_diff_names_the_first_difference_in_the_scenario(ask: Ask, yard_run: Path, tmp_path: Path) -> None:
    ask("simulate", YARD, "-o", tmp_path / "other", "--ticks", 30, "--seed", 8)
    told = ask("diff", yard_run, tmp_path / "other", "--json")
    assert told.code == 1
    named = [
        "equal",
        "rank",
        "kind",
        "tick",
        "row",
        "field",
        "expected",
        "got",
        "sizes",
        "roots",
        "common",
        "scenario",
        "decision",
        "drift",
    ]
    assert list(told.record) == named
    assert told.record["common"] == {"size": 0, "root": hashlib.sha256().hexdigest()}
    assert [len(root) for root in told.record["roots"]] == [64, 64]
    assert (told.record["rank"], told.record["kind"]) == (0, "coord.scenario")
    (only,) = told.record["scenario"]
    assert list(only) == named[1:8]
    assert (only["row"], only["field"], only["expected"], only["got"]) == (None, "seed", 7, 8)
    assert list(told.record["decision"]) == named[1:8]
    lines = ask("diff", yard_run, tmp_path / "other").out.splitlines()
    assert lines[0] == "rank 0: coord.scenario, tick 0, seed: 7 ≠ 8"
    assert lines[1] == "the first other decision:"
    assert lines[2].startswith("rank 2: coord.frame, tick 0, agent ")


def test_diff_names_planners_and_settings_by_their_words(ask: Ask, yard: Path, yard_run: Path, tmp_path: Path) -> None:
    ask("simulate", YARD, "-o", tmp_path / "other", "--ticks", 30, "--planner", "greedy")
    told = ask("diff", yard_run, tmp_path / "other")
    assert told.out.startswith("rank 0: coord.scenario, tick 0, config.planner: swap ≠ greedy\n")
    site = tmp_path / "yard.toml"
    site.write_text(YARD.read_text().replace("[plan]", "[plan]\nmin_energy = 0.07"))
    (tmp_path / "yard.map").write_bytes(MAP.read_bytes())
    ask("simulate", site, "-o", tmp_path / "careful", "--ticks", 30)
    told = ask("diff", yard_run, tmp_path / "careful")
    assert told.out.startswith("rank 0: coord.scenario, tick 0, config.min_energy: 0.05 ≠ 0.07\n")
    assert "\nno decision that both have is another\n\n30 ticks planned by both\n" in told.out


def test_diff_names_the_agent_that_starts_elsewhere(ask: Ask, tmp_path: Path) -> None:
    head = 'version = 1\nname = "a"\n[zones]\nrandom = 2\n[[agent]]\nid = 4\ny = 0.0\nx = '
    for name, x in (("left", 1.5), ("right", 2.0)):
        (tmp_path / f"{name}.toml").write_text(f"{head}{x}\n")
        assert ask("simulate", tmp_path / f"{name}.toml", "-o", tmp_path / name, "--ticks", 3).code == 0
    told = ask("diff", tmp_path / "left", tmp_path / "right")
    assert told.code == 1
    assert told.out.startswith("rank 0: coord.scenario, tick 0, agent 4, x: 1.5 ≠ 2.0\n")


def test_diff_blames_the_run_that_it_can_not_open(ask: Ask, yard_run: Path, tmp_path: Path) -> None:
    for pair in ((yard_run, tmp_path / "nope"), (tmp_path / "nope", yard_run)):
        told = ask("diff", *pair)
        assert told.code == 3 and told.err.startswith(f"error: {tmp_path / 'nope'}: ")
        assert str(yard_run) not in told.err


@pytest.mark.parametrize("side", [0, 1])
def test_diff_of_a_forged_run_is_never_equal(side: int, ask: Ask, yard_run: Path, tmp_path: Path) -> None:
    from storage.engine.rocks import RocksStore
    from storage.layout import log_key, store_path

    forged = Path(shutil.copytree(yard_run, tmp_path / "run"))
    store = RocksStore.open(store_path(forged), read_only=False)
    value = bytearray(store.get("log", log_key(10)) or b"")
    value[90] ^= 1
    store.write([("log", log_key(10), bytes(value))], sync=True)
    store.close()
    pair = (yard_run, forged) if side else (forged, yard_run)
    told = ask("diff", *pair)
    assert (told.code, told.out) == (3, "")
    assert told.err.startswith(f"error: {forged}: ") and "rank 10" in told.err
    ask("simulate", YARD, "-o", tmp_path / "short", "--ticks", 20)
    told = ask("diff", forged, tmp_path / "short")
    assert (told.code, told.out) == (3, "")
    assert told.err.startswith(f"error: {forged}: expected a whole ledger, got damage: rank 10")
    assert "; by their trees both have the first 41 events\n" in told.err


def test_diff_names_the_length_when_one_run_is_longer(ask: Ask, yard_run: Path, tmp_path: Path) -> None:
    ask("simulate", YARD, "-o", tmp_path / "short", "--ticks", 20)
    told = ask("diff", yard_run, tmp_path / "short", "--json")
    assert told.code == 1
    record = told.record
    assert (record["rank"], record["kind"], record["tick"]) == (41, "coord.inputs", 20)
    assert (record["field"], record["expected"], record["got"]) == ("number of events", 61, 41)


def test_diff_goes_on_over_retired_events(ask: Ask, yard_run: Path, tmp_path: Path, rewritten: Any) -> None:
    from storage import Ledger

    rewritten(yard_run, tmp_path / "other", tick=12, agent=5, zone=0xFFFFFFFF)
    bare = Path(shutil.copytree(yard_run, tmp_path / "bare"))
    with Ledger.open(bare) as ledger:
        ledger.retire([4, 7, 8])
    record = ask("diff", bare, tmp_path / "other", "--json").record
    assert (record["rank"], record["row"], record["field"], record["common"]["size"]) == (26, "agent 5", "zone", 26)
    assert ask("diff", yard_run, bare).code == 0
    with Ledger.open(bare) as ledger:
        ledger.retire([26])
        gone = ledger.prove(26) and next(ledger.scan(26, 27, retired=True))[1].id.hex()
    record = ask("diff", bare, tmp_path / "other", "--json").record
    assert (record["rank"], record["kind"], record["tick"], record["field"]) == (26, "coord.frame", 12, "id")
    assert record["expected"] == gone
    assert record["decision"] is None
    with Ledger.open(tmp_path / "other") as ledger:
        ledger.retire([26])
    record = ask("diff", bare, tmp_path / "other", "--json").record
    assert (record["rank"], record["kind"], record["tick"], record["field"]) == (26, "retired", None, "id")


def test_diff_names_agent_and_field_of_the_first_other_decision(
    ask: Ask, yard_run: Path, tmp_path: Path, rewritten: Any
) -> None:
    rewritten(yard_run, tmp_path / "other", tick=12, agent=5, zone=0xFFFFFFFF)
    told = ask("diff", yard_run, tmp_path / "other")
    assert told.code == 1
    assert told.out.startswith("rank 26: coord.frame, tick 12, agent 5, zone: ")
    record = ask("diff", yard_run, tmp_path / "other", "--json").record
    assert (record["row"], record["field"], record["got"]) == ("agent 5", "zone", 0xFFFFFFFF)


def test_info_tells_kinds_apart(ask: Ask, yard_run: Path) -> None:
    run = ask("info", yard_run, "--json").record
    assert (run["kind"], run["frames"], run["agents"], run["zones"]) == ("run", 30, 24, 60)
    site = ask("info", YARD, "--json").record
    assert (site["kind"], site["name"], site["planner"], site["motion"]) == ("site", "yard", "swap", "grid")
    assert site["grid"] == {"width": 50, "height": 30, "cell_m": 1.0}
    chart = ask("info", MAP, "--json").record
    text = MAP.read_text()
    assert (chart["kind"], chart["width"], chart["height"], chart["blocked"]) == ("map", 50, 30, text.count("@"))
    assert chart["components"] == 1 and chart["free"] == chart["largest_component"]
    assert "kind        run" in ask("info", yard_run).out


def test_info_of_a_scenario_file(ask: Ask, tmp_path: Path) -> None:
    file = tmp_path / "a.scen"
    file.write_text("version 1\n0\tyard.map\t50\t30\t0\t0\t5\t0\t5\n0\tyard.map\t50\t30\t1\t1\t6\t0\t5\n")
    record = ask("info", file, "--json").record
    assert record == {"kind": "scen", "path": str(file), "trips": 2, "map": "yard.map", "width": 50, "height": 30}


def test_import_of_a_map_gives_a_site_that_runs_and_is_the_same_each_time(ask: Ask, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        options = ("-o", tmp_path / name / "s.toml", "--agents", 6, "--zones", 9, "--seed", 4)
        told = ask("import", MAP, *options, "--json")
        assert told.code == 0
        assert (told.record["agents"], told.record["zones"], told.record["seed"]) == (6, 9, 4)
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")
    assert sorted(files_of(tmp_path / "a")) == ["s.toml", "yard.map"]
    assert ask("simulate", tmp_path / "a" / "s.toml", "-o", tmp_path / "run", "--ticks", 5).code == 0
    assert ask("verify", tmp_path / "run", "--resimulate").code == 0


def test_import_of_a_scenario_takes_starts_and_goals(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "yard.map").write_bytes(MAP.read_bytes())
    file = tmp_path / "a.scen"
    lines = [f"0\t/elsewhere/maps/yard.map\t50\t30\t{i}\t0\t{i + 4}\t1\t0" for i in range(5)]
    file.write_text("version 1\n" + "\n".join(lines) + "\n")
    told = ask("import", file, "-o", tmp_path / "s.toml", "--agents", 3, "--json")
    assert told.code == 0, told.err
    assert (told.record["agents"], told.record["zones"]) == (3, 3)
    assert ask("info", tmp_path / "s.toml", "--json").record["agents"] == 3


def test_import_overwrites_nothing(ask: Ask, tmp_path: Path) -> None:
    site = tmp_path / "s.toml"
    site.write_text("mine")
    told = ask("import", MAP, "-o", site, "--agents", 1, "--zones", 1)
    assert told.code == 2 and told.err.startswith(f"error: {site}: ")
    assert files_of(tmp_path) == {"s.toml": b"mine"}


@pytest.mark.parametrize(
    ("name", "options", "code", "error"),
    [
        ("a.txt", (), 3, "expected a file that ends in .map, .scen, .json or .geojson, got '.txt'"),
        ("a.map", (), 2, "a .map has no agents and zones: expected --agents N and --zones M"),
        (
            "a.scen",
            ("--zones", 3),
            2,
            "a .scen has its own zones and draws nothing: expected neither --zones nor --seed",
        ),
    ],
)
def test_import_says_what_it_needs(
    ask: Ask, tmp_path: Path, name: str, options: tuple[object, ...], code: int, error: str
) -> None:
    told = ask("import", tmp_path / name, "-o", tmp_path / "s.toml", *options)
    assert told.code == code and error in told.err
    assert files_of(tmp_path) == {}


def test_json_of_every_command_is_one_object_a_line(ask: Ask, yard_run: Path) -> None:
    for arguments in (
        ("info", yard_run),
        ("verify", yard_run),
        ("replay", yard_run),
        ("explain", yard_run, "--tick", 1, "--zone", 2),
        ("diff", yard_run, yard_run),
        ("doctor",),
        ("completion", "zsh"),
    ):
        told = ask(*arguments, "--json")
        assert told.err == ""
        assert all(isinstance(json.loads(line), dict) for line in told.out.splitlines()), arguments
