"""What the command line says to people: one wording for one thing, hints that can be pasted, nothing that misleads."""

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


def test_hints_can_be_pasted_when_a_folder_has_a_space(ask: Ask, yard: Path, yard_run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run with spâce"
    for arguments in (
        ("simulate", yard, "-o", folder / "run"),
        ("replay", yard_run, "--png", folder / "a.png"),
        ("import", yard.with_suffix(".map"), "-o", folder / "s.toml", "--agents", 1, "--zones", 1),
    ):
        told = ask(*arguments)
        assert (told.code, told.err.splitlines()[-1]) == (2, f"hint: mkdir -p '{folder}'")


def test_a_picture_is_a_png(ask: Ask, yard_run: Path, tmp_path: Path) -> None:
    told = ask("replay", yard_run, "--png", tmp_path / "part.jpg")
    assert (told.code, told.out) == (2, "")
    assert told.err == f"error: {tmp_path / 'part.jpg'}: --png: expected a file that ends in .png, got '.jpg'\n"
    assert list(tmp_path.iterdir()) == []


def test_letters_that_the_font_lacks_are_drawn_plainly() -> None:
    from droveway.paths_picture import _font, drawable

    font = _font(16)
    box = bytes(font.getmask("\U0010fffe"))
    assert drawable("Hof Süd") == "Hof Sud"
    assert drawable("Ölmühle – 日本") == "Olmuhle - ??"
    latin = "".join(map(chr, [*range(0xC0, 0x180)]))
    shown = drawable(latin)
    assert shown.count("?") == 0 and len(shown) >= len(latin)
    for character in (*drawable("".join(map(chr, range(0xA0, 0x3000)))), "·"):
        assert character == " " or bytes(font.getmask(character)) != box, hex(ord(character))


def test_a_site_without_agents_or_zones_says_so(ask: Ask, tmp_path: Path) -> None:
    for text, words in (
        (FLEET.replace("random = 2", "random = 0"), "nothing to assign: the site has no agents"),
        (FLEET.replace("random = 3", "random = 0"), "nothing to assign: the site has no zones"),
    ):
        site = tmp_path / "s.toml"
        site.write_text(text)
        told = ask("simulate", site, "-o", tmp_path / words[-6:].strip(), "--ticks", 3)
        assert told.code == 0 and f"work    0 services at 0 zones, {words}\n" in told.out


def test_a_site_whose_zones_come_later_says_so_and_what_was_assigned(ask: Ask, tmp_path: Path) -> None:
    agents = HEAD + "[agents]\nrandom = 3\nspeed = 9.0\n"
    tasks = agents + '[demand]\nmodel = "uniform"\nrate = 2.0\n'
    added = agents + '[[event]]\ntick = {}\nkind = "zone_added"\nid = 1\nx = 5.0\ny = 5.0\n'
    on_zones = agents + '[zones]\nrandom = 2\n[demand]\nmodel = "uniform"\nrate = 2.0\nwhere = "zones"\n'
    for number, (text, fleet, words) in enumerate((
        (tasks, "3 agents, 0 zones, tasks come", "of ready agents assigned"),
        (tasks.replace("2.0", "0.0000001"), "3 agents, 0 zones, tasks come", "nothing to assign: no tasks came"),
        (added.format(2), "3 agents, 0 zones, zones come", "of ready agents assigned"),
        (added.format(900), "3 agents, 0 zones, zones come", "nothing to assign: no zones came"),
        (on_zones, "3 agents, 2 zones", "of ready agents assigned"),
    )):  # fmt: skip
        site = tmp_path / "s.toml"
        site.write_text(text)
        told = ask("simulate", site, "-o", tmp_path / f"{number}", "--ticks", 30, "--sync", "os")
        assert f"fleet   {fleet}\n" in told.out
        assert re.search(rf"^work    .* zones, .*{words}$", told.out, re.MULTILINE), told.out


def test_a_fleet_that_is_never_ready_has_no_share(ask: Ask, tmp_path: Path) -> None:
    site = tmp_path / "s.toml"
    site.write_text(FLEET.replace("random = 2", "random = 2\nspeed = 0.0"))
    told = ask("simulate", site, "-o", tmp_path / "stopped", "--ticks", 3)
    assert "work    0 services at 0 zones, " in told.out
    site.write_text(FLEET.replace("random = 2", "random = 2\nenergy = 0.0"))
    told = ask("simulate", site, "-o", tmp_path / "empty", "--ticks", 3)
    assert "work    0 services at 0 zones, no agent was ever ready\n" in told.out
    assert ask("simulate", site, "-o", tmp_path / "again", "--ticks", 3, "--json").record["assigned_of_ready"] is None


def test_a_missing_scene_is_noted(ask: Ask, tmp_path: Path) -> None:
    site = tmp_path / "s.toml"
    site.write_text(FLEET + '[scene]\nfile = "hall.ply"\n')
    told = ask("simulate", site, "-o", tmp_path / "run", "--ticks", 2)
    assert told.code == 0
    assert told.err == f"{site}: [scene] file: {tmp_path / 'hall.ply'} is missing; the run does without\n"
    assert ask("simulate", site, "-o", tmp_path / "other", "--ticks", 2, "--quiet").err == ""


def test_shared_cells_are_told_where_there_is_a_map(ask: Ask, yard: Path, tmp_path: Path) -> None:
    site = tmp_path / "s.toml"
    site.write_text(FLEET)
    assert ask("simulate", site, "-o", tmp_path / "open", "--ticks", 2, "--json").record["cell_conflicts"] is None
    told = ask("simulate", yard, "-o", tmp_path / "run", "--ticks", 60, "--json").record
    assert told["cell_conflicts"] > 0
    text = ask("simulate", yard, "-o", tmp_path / "again", "--ticks", 60).out
    assert f"cells   {told['cell_conflicts']} times an agent stood in the cell of another\n" in text


def test_a_map_in_place_of_a_site_leads_to_import(ask: Ask, yard: Path, tmp_path: Path) -> None:
    chart = yard.with_suffix(".map")
    told = ask("simulate", chart, "-o", tmp_path / "run")
    assert told.code == 3
    assert told.err == (
        f"error: {chart}: expected a SITE.toml, got a MovingAI .map file\n"
        f"hint: droveway import {chart} --agents N --zones M -o SITE.toml\n"
    )


def test_numbers_are_called_numbers(ask: Ask, yard: Path, tmp_path: Path) -> None:
    told = ask("simulate", yard, "-o", tmp_path / "run", "--seed", "abc")
    assert told.code == 2
    assert told.err.startswith("error: Invalid value for '--seed': 'abc' is not a valid whole number.\n")


def test_help_is_the_same_with_and_without_asking(ask: Ask) -> None:
    assert ask().err == ask("--help").out
    assert "-h, --help" in ask().err


def test_the_version_of_a_command_is_that_of_the_program(ask: Ask) -> None:
    told = ask("simulate", "--version")
    assert told.code == 2 and told.err.startswith("error: No such option")
    assert told.err.endswith("\nhint: droveway --version\n") and "--json" not in told.err


@pytest.mark.parametrize("module", ["droveway", "droveway.main"])
def test_the_module_runs_like_the_command(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, "--version"], capture_output=True, text=True, cwd="/", check=False
    )
    assert done.returncode == 0 and done.stdout.startswith("droveway ")


def test_quiet_doctor_tells_what_is_not_ok(ask: Ask) -> None:
    lines = ask("doctor", "--quiet").out.splitlines()
    assert all(not line.startswith("ok") for line in lines)
    assert lines[-1] in ("all is well", "1 wrong", "2 wrong")
    assert len(lines) < len(ask("doctor").out.splitlines())


def test_explain_always_shows_the_zone_of_the_plan(ask: Ask, yard: Path, tmp_path: Path) -> None:
    assert ask("simulate", yard, "-o", tmp_path / "run", "--ticks", 21).code == 0
    for agent in range(24):
        lines = ask("explain", tmp_path / "run", "--tick", 20, "--agent", agent).out.splitlines()
        chosen = [line for line in lines if line.startswith("→")]
        assert len(chosen) == (" has zone " in lines[0] or " is at work " in lines[0]), lines[0]
        for line in lines:
            assert line.count("zone 1 ") < 2
    told = ask("explain", tmp_path / "run", "--tick", 20, "--agent", 3).out
    assert "   zone 27 went to agent 21: the score must win it\n" in told


def test_an_import_that_fails_blames_the_map_and_the_option(ask: Ask, yard: Path, tmp_path: Path) -> None:
    chart = yard.with_suffix(".map")
    told = ask("import", chart, "-o", tmp_path / "y.toml", "--agents", 5000, "--zones", 1)
    assert told.code == 3
    assert told.err == (
        f"error: {chart}: --agents: 5000 agents need distinct free cells, the largest component of the map has 996\n"
    )
    told = ask("import", chart, "-o", tmp_path / "y.toml", "--agents", 1, "--zones", 99_999_999)
    assert told.err == f"error: {chart}: --zones: expected 0 to 16777216, got 99999999\n"
    assert list(tmp_path.iterdir()) == []


def test_too_many_agents_are_refused_at_load_with_file_key_and_limit(ask: Ask, tmp_path: Path) -> None:
    site = tmp_path / "s.toml"
    site.write_text(FLEET.replace("random = 2", "random = 600000"))
    told = ask("simulate", site, "-o", tmp_path / "run")
    assert (told.code, told.out) == (3, "")
    assert told.err == f"error: {site}: [agents] random: expected 0 to 524000, got 600000\n"
    assert not (tmp_path / "run").exists()


def test_a_missing_file_has_one_wording(ask: Ask, tmp_path: Path) -> None:
    for arguments in (
        ("simulate", tmp_path / "none", "-o", tmp_path / "run"),
        ("verify", tmp_path / "none"),
        ("replay", tmp_path / "none"),
        ("explain", tmp_path / "none", "--tick", 0, "--agent", 0),
        ("info", tmp_path / "none"),
        ("info", tmp_path / "none.toml"),
        ("info", tmp_path / "none.map"),
        ("info", tmp_path / "none.scen"),
        ("import", tmp_path / "none.map", "-o", tmp_path / "s.toml", "--agents", 1, "--zones", 1),
        ("import", tmp_path / "none.scen", "-o", tmp_path / "s.toml"),
    ):
        told = ask(*arguments)
        named = next(argument for argument in arguments if "none" in str(argument))
        assert told.code == 3
        assert told.err == f"error: {named}: expected to read it, got: no such file or directory\n", arguments


def test_one_damaged_block_is_one_finding(ask: Ask, yard_run: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(yard_run, tmp_path / "run"))
    table = max((run / "ledger").glob("*.sst"), key=lambda path: path.stat().st_size)
    data = bytearray(table.read_bytes())
    data[20_000] ^= 1
    table.write_bytes(data)
    told = ask("verify", run)
    assert told.code == 1
    lines = told.out.splitlines()
    assert re.match(rf"ranks \d+\.\.\d+: damaged block in {table.name}$", lines[0])
    assert sum("rank 0" in line for line in lines) <= 1
    assert len(lines) < 10
    records = ask("verify", run, "--json").records
    first = records[0]
    assert (first["type"], first["where"]) == ("problem", str(table))
    assert first["last_rank"] > first["rank"]
    ranks = [r["rank"] for r in records[:-1] if r["rank"] is not None and r["got"] == "damage"]
    assert len(ranks) == len(set(ranks)), "no rank twice"
    told = ask("diff", yard_run, run)
    assert (told.code, told.out) == (3, "")
    assert f"error: {run}: expected a whole ledger, got damage: ranks " in told.err


def test_no_help_spells_out_the_largest_number_of_64_bits(ask: Ask) -> None:
    assert "0<=x<=2^64-1" in ask("index", "build", "--help").out
    assert "1<=x<=2^64-1" in ask("simulate", "--help").out
    told = ask("simulate", "a.toml", "-o", "run", "--seed", 2**64)
    assert told.err.startswith("error: Invalid value for '--seed': 18446744073709551616 is not in the range 0<=x<=2^64")


def test_scenes_of_formats_that_are_not_read_are_called_by_their_name(ask: Ask, tmp_path: Path) -> None:
    for name, format_name in (("a.spz", "SPZ"), ("a.ksplat", ".ksplat")):
        (tmp_path / name).write_bytes(b"NGSP\4\0\0\0" if name == "a.spz" else bytes(64))
        told = ask("info", tmp_path / name)
        assert told.code == 3 and told.err.endswith(f"found {format_name}, which this version does not read\n")


def test_what_info_can_not_describe_but_index_can_take_is_sent_there(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY")
    told = ask("info", tmp_path / "a.npy")
    assert told.code == 3
    assert told.err.endswith(f"hint: droveway index build {tmp_path / 'a.npy'} -o X.jvim makes an index of vectors\n")


@pytest.mark.parametrize(
    ("line", "text", "hint"),
    [
        ("--json info a", "expected '--json' behind the command", "droveway COMMAND … --json"),
        ("index --quiet info a", "expected '--quiet' behind the command", "droveway index COMMAND … --quiet"),
        ("convert a.splat -o b.ply", "No such option '-o'.", "droveway convert IN OUT"),
        ("search a q --k 3", "No such option '--k'. Did you mean '-k'?", "droveway search --help"),
        ("search a q --alow b", "No such option '--alow'. Did you mean '--allow'?", "droveway search --help"),
        ("search a q --top 3", "No such option '--top'.", "droveway search --help"),
        ("render a --size 3", "No such option '--size'.", "droveway render --help"),
        (
            "render a -o b.png --fov x",
            "Invalid value for '--fov': 'x' is not a valid number.",
            "droveway render --help",
        ),
    ],
)
def test_an_option_that_is_not_there_leads_to_the_one_that_was_meant(ask: Ask, line: str, text: str, hint: str) -> None:
    told = ask(*line.split())
    assert (told.code, told.out, told.err) == (2, "", f"error: {text}\nhint: {hint}\n")


def test_an_import_without_agents_says_so(ask: Ask, tmp_path: Path) -> None:
    point = '{"type": "Feature", "properties": {}, "geometry": {"type": "Point", "coordinates": [5.5, 52.5]}}'
    (tmp_path / "a.geojson").write_text('{"type": "FeatureCollection", "features": [' + point + "]}")
    told = ask("import", tmp_path / "a.geojson", "-o", tmp_path / "none.toml")
    assert (told.code, told.err) == (0, "no agents: --agents N draws some around the features\n")
    told = ask("import", tmp_path / "a.geojson", "-o", tmp_path / "some.toml", "--agents", 2)
    assert (told.code, told.err) == (0, "")


def test_explain_says_which_zones_are_free_and_in_whose_queue(ask: Ask, tmp_path: Path) -> None:
    site = tmp_path / "s.toml"
    site.write_text(HEAD + "[plan]\nqueue = 2\n[agents]\nrandom = 2\n[zones]\nrandom = 7\n")
    ask("simulate", site, "-o", tmp_path / "run", "--ticks", 2)
    record = ask("explain", tmp_path / "run", "--tick", 0, "--agent", 0, "--json").record
    mine = record["queue"][0]["zone"]
    theirs = ask("explain", tmp_path / "run", "--tick", 0, "--agent", 1, "--json").record
    lines = [line.lstrip("→ ") for line in ask("explain", tmp_path / "run", "--tick", 0, "--agent", 0).out.splitlines()]
    told = {int(line.split()[0]): re.split(r"  +", line)[1] for line in lines if re.match(r"\d+  ", line)}
    first = {record["row"]["zone"]: "ok", theirs["row"]["zone"]: "conflict"}
    queues = {mine: "queued by 0", theirs["queue"][0]["zone"]: "queued by 1"}
    assert told == {**dict.fromkeys(range(7), "free"), **first, **queues}
    zone = ask("explain", tmp_path / "run", "--tick", 0, "--zone", mine).out
    assert "  queued by 0  " in zone
