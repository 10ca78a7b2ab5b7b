"""SITE.toml: every key has a type, a range and a default, and every mistake is named."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coord.errors import MapError, ScenarioError
from coord.records import AGENT_DTYPE, NO_ZONE, ZONE_DTYPE, PlanConfig
from coord.simulation.setup import setup_from_map
from coord.sites.scenario import Scenario
from coord.sites.scenario_schema import REQUIRED, TABLES, nearest
from coord.sites.site_schema import json_schema, markdown_tables

HEAD = 'version = 1\nname = "t"\n'
TWO = HEAD + "[[agent]]\nid = 5\nx = 1.0\ny = 2\n[[agent]]\nid = 3\nx = 0.0\ny = 0.0\nspeed = 2\n"
PAGE = Path(__file__).parents[2] / "docs" / "formats"
MAP = b"type octile\nheight 2\nwidth 3\nmap\n..@\n...\n"


def _site(text: str, base: Path = Path()) -> Scenario:
    return Scenario.loads(text, base)


def test_defaults_are_those_of_plan_config() -> None:
    assert _site(HEAD).setup.config == PlanConfig()
    plan = {key.name: key.default for key in TABLES["plan"].keys}
    for name, value in plan.items():
        if name not in ("planner", "every_ticks", "on_events", "queue"):
            assert getattr(PlanConfig(), name) == pytest.approx(value, rel=1e-7), name


def test_a_scenario_without_agents_and_zones_is_valid() -> None:
    setup = _site(HEAD).setup
    assert (len(setup.agents), len(setup.zones), setup.motion.model, setup.planner) == (0, 0, "straight", "swap")


def test_agents_are_sorted_by_id_and_get_the_defaults() -> None:
    agents = _site(TWO).setup.agents
    assert agents["id"].tolist() == [3, 5]
    assert agents["speed"].tolist() == [2.0, 1.0]
    assert agents["zone"].tolist() == [NO_ZONE, NO_ZONE]
    assert agents["memory_ticks"].tolist() == [100, 100]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('version = 2\nname = "t"\n', "SITE.toml: version: expected 1 to 1, got 2"),
        ("version = 1\n",
         'SITE.toml: name: is missing: 1 to 60 bytes; in a ledger, events are by "sim/" and this name'),
        ('version = 1\nname = ""\n', "SITE.toml: name: expected 1 to 60 bytes of printable text, got ''"),
        (HEAD + "sead = 1\n", "SITE.toml: sead: unknown key (nearest: seed)"),
        (HEAD + "[plann]\n", "SITE.toml: plann: unknown key (nearest: plan)"),
        (HEAD + "[plan]\nw_idel = 1.0\n", "SITE.toml: [plan] w_idel: unknown key (nearest: w_idle)"),
        (HEAD + "[[zone]]\nid = 1\nx = 0.0\ny = 0.0\nradios = 1.0\n",
         "SITE.toml: [[zone]] 1 radios: unknown key (nearest: radius)"),
        (HEAD + "seed = -1\n", "SITE.toml: seed: expected 0 to 18446744073709551615, got -1"),
        (HEAD + 'seed = "7"\n', "SITE.toml: seed: expected an integer, got text '7'"),
        (HEAD + "seed = 7.0\n", "SITE.toml: seed: expected an integer, got number 7.0"),
        (HEAD + "seed = true\n", "SITE.toml: seed: expected an integer, got boolean True"),
        (HEAD + "[plan]\nw_idle = nan\n", "SITE.toml: [plan] w_idle: expected a finite number, got nan"),
        (HEAD + "[plan]\nw_idle = 1e39\n",
         "SITE.toml: [plan] w_idle: expected -3.4028234663852886e+38 to 3.4028234663852886e+38, got 1e+39"),
        (HEAD + "[plan]\ncutoff_sigmas = 9\n", "SITE.toml: [plan] cutoff_sigmas: expected 0.0009765625 to 8.0, got 9"),
        (HEAD + '[plan]\nplanner = "swop"\n',
         'SITE.toml: [plan] planner: expected greedy or swap or auction or exact, got "swop" (nearest: swap)'),
        (HEAD + '[motion]\nmodel = "pibt"\n',
         'SITE.toml: [motion] model: expected a [map] for "pibt" (or model = "straight")'),
        (HEAD + '[motion]\nmodel = "grid"\n',
         'SITE.toml: [motion] model: expected a [map] for "grid" (or model = "straight")'),
        (HEAD + "[motion]\ncharged_energy = 0.01\n",
         "SITE.toml: [motion] charged_energy: expected at least min_energy (0.05), got 0.01"),
        (HEAD + '[demand]\nmodel = "poisson"\n',
         "SITE.toml: [demand] model: expected persistent or uniform or hot_spots or moving or replayed, got "
         '"poisson" (nearest: persistent)'),
        (HEAD + "[faults]\nlost = 3\n", "SITE.toml: [faults] lost: expected 0.0 to 1.0, got 3"),
        (HEAD + "agents = 3\n", "SITE.toml: agents: expected a table [agents], got integer 3; did you mean [[agent]]?"),
        (HEAD + "[agent]\nid = 1\n",
         "SITE.toml: agent: expected tables [[agent]], got one table [agent]; did you mean [agents]?"),
        (HEAD + "[agents]\n", "SITE.toml: [agents]: expected one of random and file"),
        (HEAD + '[agents]\nrandom = 1\nfile = "a.npy"\n', "SITE.toml: [agents]: expected one of random and file"),
        (HEAD + "[agents]\nrandom = 1\n[[agent]]\nid = 1\nx = 0.0\ny = 0.0\n",
         "SITE.toml: [agents]: expected either [agents] or [[agent]], got both"),
        (HEAD + "[agents]\nrandom = 99999999\n", "SITE.toml: [agents] random: expected 0 to 524000, got 99999999"),
        (HEAD + "[agents]\nrandom = 1\nbox = [0, 0, 1]\n",
         "SITE.toml: [agents] box: expected 4 numbers [x0, y0, x1, y1], got array [0, 0, 1]"),
        (HEAD + "[agents]\nrandom = 1\nbox = [5, 0, 1, 1]\n",
         "SITE.toml: [agents] box: expected x0 <= x1 and y0 <= y1, got [5, 0, 1, 1]"),
        (TWO + "[[agent]]\nid = 5\nx = 9.0\ny = 9.0\n", "SITE.toml: [[agent]] 1 and 3: have the same id 5"),
        (HEAD + "[[agent]]\nid = 1\nx = inf\ny = 0.0\n", "SITE.toml: [[agent]] 1 x: expected a finite number, got inf"),
        (HEAD + "[[agent]]\nid = 1\nx = 1048577.0\ny = 0.0\n",
         "SITE.toml: [[agent]] 1 x: expected -1048576.0 to 1048576.0, got 1048577.0"),
        (HEAD + "[[agent]]\nid = 1\ny = 0.0\n", "SITE.toml: [[agent]] 1 x: is missing: metres east"),
        (HEAD + '[[obstacle]]\nkind = "circle"\nx = 1.0\ny = 1.0\n',
         "SITE.toml: [[obstacle]] 1 radius: is missing in a circle: x, y, radius"),
        (HEAD + '[[obstacle]]\nkind = "polygon"\npoints = [[0, 0], [1, 0], [1, 1]]\nradius = 1.0\n',
         "SITE.toml: [[obstacle]] 1 radius: does not belong in a polygon: points"),
        (HEAD + '[[obstacle]]\nkind = "polygon"\npoints = [[0, 0], [1, 0]]\n',
         "SITE.toml: [[obstacle]] 1 points: expected at least 3 pairs [x, y], got array [[0, 0], [1, 0]]"),
        (HEAD + "[[kernel]]\nx = 0.0\ny = 0.0\nsigma = 0.0\nweight = 1.0\n",
         "SITE.toml: [[kernel]] 1 sigma: expected 0.0009765625 to 1048576.0, got 0.0"),
        (HEAD + "[[kernel]]\nx = 0.0\ny = 0.0\nsigma = 1.0\nweight = 1e-30\n",
         "SITE.toml: [[kernel]] 1 weight: expected 0 or a size of at least 2^-64, got 1e-30"),
        (HEAD + "origin = [91.0, 0, 0]\n",
         "SITE.toml: origin: expected a latitude within ±90 and a longitude within ±180, got [91.0, 0, 0]"),
        (HEAD + '[scene]\nfile = "s.ply"\ntransform = [[1, 0], [0, 1]]\n',
         "SITE.toml: [scene] transform: expected 4 rows of 4 numbers, got array [[1, 0], [0, 1]]"),
        (HEAD + '[map]\nfile = "none.map"\n',
         "SITE.toml: [map] file: none.map: expected to read it, got: no such file or directory"),
        (HEAD + '[agents]\nfile = "none.npy"\n',
         "SITE.toml: [agents] file none.npy: expected to read it, got: no such file or directory"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_key_and_what_was_expected(text: str, message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        _site(text)
    assert str(error.value) == message


def test_text_that_is_not_toml_is_refused_with_its_line() -> None:
    with pytest.raises(ScenarioError, match=r"SITE.toml: is not TOML: .*line 2"):
        _site("version = 1\nname = ?\n")


def test_a_missing_file_and_bytes_that_are_not_utf8_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "SITE.toml"
    with pytest.raises(ScenarioError) as error:
        Scenario.load(path)
    assert str(error.value) == f"{path}: expected to read it, got: no such file or directory"
    path.write_bytes(b"version = 1\nname = '\xff'\n")
    with pytest.raises(ScenarioError) as error:
        Scenario.load(path)
    assert str(error.value) == f"{path}: expected UTF-8, got byte 0xff at 20"


def _map_site(tmp_path: Path, extra: str = "", cell: str = "") -> Scenario:
    (tmp_path / "m.map").write_bytes(MAP)
    return _site(HEAD + f'[map]\nfile = "m.map"\n{cell}' + extra, tmp_path)


def test_a_map_makes_a_grid_fleet(tmp_path: Path) -> None:
    setup = _map_site(tmp_path, "[agents]\nrandom = 5\n[zones]\nrandom = 5\n").setup
    assert setup.motion.model == "grid"
    assert sorted(zip(setup.agents["x"].tolist(), setup.agents["y"].tolist(), strict=True)) == [
        (0.5, 0.5), (0.5, 1.5), (1.5, 0.5), (1.5, 1.5), (2.5, 0.5),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("[[agent]]\nid = 1\nx = 2.5\ny = 1.5\n",
         "SITE.toml: agent 1: (2.5, 1.5, 0.0) is on an obstacle (column 2, row 0 of the map)"),
        ("[[agent]]\nid = 1\nx = 3.5\ny = 1.5\n", "SITE.toml: agent 1: (3.5, 1.5, 0.0) lies outside the map"),
        ("[[agent]]\nid = 1\nx = 0.6\ny = 1.5\n",
         "SITE.toml: agent 1: (0.6000000238418579, 1.5, 0.0) is not the centre of a cell "
         "(the nearest is (0.5, 1.5, 0.0))"),
        ("[[zone]]\nid = 4\nx = 0.9\ny = 0.9\n",
         "SITE.toml: zone 4: cannot be served from the centre (0.5, 0.5, 0.0) of its cell: expected a radius that "
         "reaches it, got 0.5"),
        ('[motion]\nmodel = "straight"\n',
         'SITE.toml: [motion] model: "straight" would go through the walls of the [map]: use "grid"'),
        ("[agents]\nrandom = 6\n",
         "SITE.toml: [agents] random: 6 agents need distinct free cells, the largest component of the map has 5"),
        ("[agents]\nrandom = 2\nbox = [0, 0, 1, 1]\n",
         "SITE.toml: [agents] box: expected no box with a [map]: places are drawn on its free cells"),
    ],
)  # fmt: skip
def test_a_grid_fleet_stands_on_free_cells(tmp_path: Path, extra: str, message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        _map_site(tmp_path, extra)
    assert str(error.value) == message


def test_a_map_with_another_blake3_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"\[map\] blake3: expected 00, .*m.map has [0-9a-f]{64}$"):
        _map_site(tmp_path, cell='blake3 = "00"\n')


def test_a_damaged_map_keeps_its_line_and_column(tmp_path: Path) -> None:
    (tmp_path / "m.map").write_bytes(MAP.replace(b"@", b"?"))
    with pytest.raises(MapError, match=r"m.map:5:3: unknown glyph '\?'"):
        _site(HEAD + '[map]\nfile = "m.map"\n', tmp_path)


def _npy(tmp_path: Path, records: np.ndarray[Any, Any], what: str = "agents") -> Scenario:
    np.save(tmp_path / "r.npy", records)
    return _site(HEAD + f'[{what}]\nfile = "r.npy"\n', tmp_path)


def _agents(n: int) -> np.ndarray[Any, Any]:
    out = np.zeros(n, AGENT_DTYPE)
    out["id"], out["zone"], out["speed"] = np.arange(n), NO_ZONE, 1.0
    return out


def test_agents_of_a_file_may_stand_in_any_order(tmp_path: Path) -> None:
    first = _npy(tmp_path, _agents(5)).setup
    again = _npy(tmp_path, _agents(5)[[3, 1, 4, 0, 2]]).setup
    assert first.agents.tobytes() == again.agents.tobytes()
    assert first.to_map() == again.to_map()


def test_a_file_of_another_dtype_shape_or_length_is_refused(tmp_path: Path) -> None:
    where = r"\[agents\] file r.npy: "
    with pytest.raises(ScenarioError, match=where + r"expected AgentState records of 48 bytes, got dtype float32"):
        _npy(tmp_path, np.zeros((5, 2), np.float32))
    with pytest.raises(ScenarioError, match=where + r"expected AgentState records of 48 bytes, got dtype "):
        _npy(tmp_path, np.zeros(3, ZONE_DTYPE))
    with pytest.raises(ScenarioError, match=where + r"expected one dimension, got shape \(3, 1\)"):
        _npy(tmp_path, _agents(3).reshape(3, 1))
    np.save(tmp_path / "r.npy", _agents(3))
    content = (tmp_path / "r.npy").read_bytes()
    for data, got in ((content[:-1], 143), (content + b"\0", 145)):
        (tmp_path / "r.npy").write_bytes(data)
        with pytest.raises(ScenarioError, match=where + f"expected 144 bytes of records, got {got}"):
            _site(HEAD + '[agents]\nfile = "r.npy"\n', tmp_path)
    (tmp_path / "r.npy").write_bytes(b"not an array")
    with pytest.raises(ScenarioError, match=where + "is not a .npy file: "):
        _site(HEAD + '[agents]\nfile = "r.npy"\n', tmp_path)


def test_a_pickle_is_never_opened(tmp_path: Path) -> None:
    np.save(tmp_path / "r.npy", np.array([print, None], object), allow_pickle=True)
    with pytest.raises(ScenarioError, match=r"expected AgentState records of 48 bytes, got dtype object"):
        _site(HEAD + '[agents]\nfile = "r.npy"\n', tmp_path)


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("x", np.nan, r"agents\[2\]\.x must be finite and within 2\^20 m, got nan"),
        ("y", np.inf, r"agents\[2\]\.y must be finite and within 2\^20 m, got inf"),
        ("id", 1, r"agents\[2\]\.id must be unique, got 1 as in agents\[1\]"),
        ("mode", 2, r"row 2: expected mode 0, 3, 4 or 5 at the first tick, got 2"),
        ("zone", 7, r"row 2: expected no zone \(4294967295\) at the first tick, got 7"),
    ],
)
def test_a_bad_record_of_a_file_is_named_by_its_row(tmp_path: Path, field: str, value: float, text: str) -> None:
    agents = _agents(4)
    agents[field][2] = value
    with pytest.raises(ScenarioError, match=text):
        _npy(tmp_path, agents)


def test_ids_above_u32_are_numbered_and_kept_in_a_table() -> None:
    rows = [2**40, 3, 2**63]
    text = HEAD + "".join(f"[[agent]]\nid = {i}\nx = {n}.0\ny = 0.0\n" for n, i in enumerate(rows))
    setup = _site(text).setup
    assert setup.agents["id"].tolist() == [0, 1, 2]
    assert setup.agents["x"].tolist() == [1.0, 0.0, 2.0]
    assert setup.agent_ids == (3, 2**40, 2**63)
    assert setup.to_map()["ids"] == {"agents": [3, 2**40, 2**63], "zones": []}
    with pytest.raises(ScenarioError, match="expected 0 to 18446744073709551615, got 18446744073709551616"):
        _site(HEAD + f"[[agent]]\nid = {2**64}\nx = 0.0\ny = 0.0\n")


def test_the_order_of_tables_keys_and_comments_changes_no_byte_of_the_scenario() -> None:
    blocks = [
        "[[zone]]\nid = 2\nx = 4.0\ny = 5.0\n",
        "[[zone]]\nid = 1\nradius = 2.0\ny = 1.0\nx = 3\n",
        '[[obstacle]]\nkind = "circle"\nx = 9.0\ny = 9.0\nradius = 1.0\n',
        '[[obstacle]]\nkind = "polygon"\npoints = [[0, 0], [2, 0], [2, 2]]\n',
        '[[obstacle]]\nkind = "polygon"\npoints = [[5, 5], [7, 5], [7, 7]]\n',
        "[[kernel]]\nx = 1.0\ny = 1.0\nsigma = 2.0\nweight = 1.0\n",
        "[[kernel]]\nx = 0.0\ny = 1.0\nsigma = 2.0\nweight = 1.0\n",
        "[plan]\nw_idle = 1.0\nw_travel = 2\n",
    ]
    first = _site(HEAD + "".join(blocks))
    again = _site("# words\n" + HEAD + "seed = 0\n" + "".join(reversed(blocks)))
    assert first.to_toml() == again.to_toml()
    assert first.setup.to_map() == again.setup.to_map()


def test_the_canonical_text_reads_back_to_the_same_scenario() -> None:
    text = HEAD.replace('"t"', '"caf\\u00e9 \\"q\\" \\\\"') + "origin = [52.54, 5.52, 0.0]\n[agents]\nrandom = 3\n"
    first = _site(text)
    again = _site(first.to_toml())
    assert again.to_toml() == first.to_toml()
    assert again.setup.to_map() == first.setup.to_map()
    assert again.setup.name == 'café "q" \\'


def test_another_seed_moves_drawn_places_and_another_planner_changes_the_config() -> None:
    site = _site(HEAD + "[agents]\nrandom = 3\n[zones]\nrandom = 3\n")
    other = site.with_changes(seed=1, planner="greedy")
    assert site.setup.agents["x"].tolist() != other.setup.agents["x"].tolist()
    assert (other.setup.seed, other.setup.config.planner) == (1, 0)
    assert site.with_changes(seed=0) is site
    assert site.with_changes(planner="exact").setup.config.planner == 3
    with pytest.raises(ScenarioError, match='planner: expected greedy or swap or auction or exact, got "best"'):
        site.with_changes(planner="best")


def test_drawn_places_without_a_map_lie_in_the_box() -> None:
    text = HEAD + "[agents]\nrandom = 400\nbox = [-3.0, 10.0, 5.0, 10.5]\n[zones]\nrandom = 400\n"
    setup = _site(text).setup
    assert ((setup.agents["x"] >= -3) & (setup.agents["x"] < 5)).all()
    assert ((setup.agents["y"] >= 10) & (setup.agents["y"] <= 10.5)).all()
    for axis in "xy":
        assert ((setup.zones[axis] >= 0) & (setup.zones[axis] < 100)).all()
        assert setup.zones[axis].min() < 5
        assert setup.zones[axis].max() > 95
    assert (setup.agents["z"] == 0).all()


def test_more_zones_never_move_the_agents_drawn() -> None:
    few = _site(HEAD + "[agents]\nrandom = 3\n[zones]\nrandom = 3\n").setup
    many = _site(HEAD + "[agents]\nrandom = 3\n[zones]\nrandom = 9\n").setup
    assert few.agents.tobytes() == many.agents.tobytes()


def test_a_setup_comes_back_from_its_map(tmp_path: Path) -> None:
    site = _map_site(tmp_path, "[agents]\nrandom = 2\n[[zone]]\nid = 8\nx = 0.5\ny = 0.5\n")
    setup = site.setup
    again = setup_from_map(setup.to_map(), setup.agents, setup.zones)
    assert again.to_map() == setup.to_map()
    assert again.agents.tobytes() == setup.agents.tobytes()
    assert again.grid == setup.grid


def test_the_nearest_key_is_the_likest_word() -> None:
    assert nearest("max_stale", [key.name for key in TABLES["plan"].keys]) == "max_stale_ticks"


def test_the_page_and_the_schema_file_are_those_of_the_definition() -> None:
    assert markdown_tables().strip() in (PAGE / "site-toml.md").read_text()
    assert json.loads((PAGE / "site-toml.schema.json").read_text()) == json_schema()


def test_the_schema_names_every_key_with_its_default() -> None:
    schema = json_schema()
    for table in TABLES.values():
        body = schema if table.name == "" else schema["properties"][table.name]
        body = body["items"] if table.rows else body
        for key in table.keys:
            entry = body["properties"][key.name]
            assert entry["description"] == key.text
            assert (key.name in body.get("required", [])) == (key.default is REQUIRED)
            assert entry.get("default") == (None if key.default is REQUIRED else key.default)


def test_the_example_of_the_page_is_a_scenario() -> None:
    text = (PAGE / "site-toml.md").read_text().split("```toml\n")[1].split("```")[0]
    setup = _site(text).setup
    assert (setup.name, len(setup.agents), len(setup.zones), len(setup.obstacles), len(setup.kernels)) == (
        "yard", 12, 20, 1, 1,
    )  # fmt: skip


def test_float32_fields_hold_the_rounded_value_of_the_text() -> None:
    agent = _site(HEAD + "[[agent]]\nid = 1\nx = 0.1\ny = 0.0\n").setup.agents
    assert agent["x"].tobytes() == struct.pack("<f", 0.1)


HUGE = "0x" + "f" * 6000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + f"seed = {HUGE}\n", "seed: expected 0 to 18446744073709551615, got an integer of 24000 bits"),
        (HEAD + f"seed = {'9' * 5000}\n", "expected numbers of at most 4300 digits, got a longer one"),
        (HEAD + f"[agents]\nrandom = 1\nspeed = 1{'0' * 400}\n", "[agents] speed: expected a finite number, "
         "got an integer of 1329 bits"),
        (HEAD + f"origin = [{HUGE}, 0, 0]\n", "origin: expected 3 numbers, got array too large to show"),
        (HEAD + f"[zones]\nrandom = 1\nbox = [0, 0, 1, {HUGE}]\n", "[zones] box: expected 4 numbers [x0, y0, x1, y1], "
         "got array too large to show"),
        (HEAD + "x = " + "[" * 5000 + "]" * 5000, "expected a few levels of nesting, got hundreds"),
        (HEAD + "x = " + "{a = " * 5000 + "1" + "}" * 5000, "expected a few levels of nesting, got hundreds"),
        (HEAD + '[map]\nfile = "a\\u0000b"\n', "[map] file: expected a text without the character U+0000"),
        (HEAD + f'[motion]\nmodel = "{"grid" * 9999}"\n',
         "[motion] model: expected straight or around or grid or pibt, "
         'got "gridgridgridgridgridgridgridgridgridg..." (nearest: grid)'),
        (HEAD + f'[motion]\n{"model" * 9999} = 1\n', f"[motion] {'model' * 8}: unknown key (nearest: model)"),
        (HEAD + '[motion]\n"model\\u0000" = 1\n', "[motion] model\\0: unknown key (nearest: model)"),
    ],
)  # fmt: skip
def test_no_number_nesting_or_character_of_toml_is_too_much(text: str, message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        _site(text)
    assert str(caught.value) == f"SITE.toml: {message}"


@pytest.mark.parametrize("name", ["SITE.toml", "m.map"])
def test_a_file_without_end_is_not_read_to_its_end(tmp_path: Path, name: str) -> None:
    (tmp_path / "SITE.toml").write_text(HEAD + '[map]\nfile = "m.map"\n')
    (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(ScenarioError, match="expected to read it, got: is not a regular file"):
        Scenario.load(tmp_path / "SITE.toml")
    (tmp_path / name).unlink()
    with (tmp_path / name).open("wb") as file:
        file.truncate(2**40)  # a file of holes
    with pytest.raises(ScenarioError, match="expected at most 67108864 bytes"):
        Scenario.load(tmp_path / "SITE.toml")


@pytest.mark.parametrize("header", ["{'descr': ('''", "{{{", "(" * 3000, "{'descr': '<f4', 'shape': (1L,)}", "\0"])
def test_a_header_that_numpy_cannot_parse_is_no_npy_file(tmp_path: Path, header: str) -> None:
    data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
    (tmp_path / "agents.npy").write_bytes(data)
    with pytest.raises(ScenarioError, match=r"\[agents\] file agents.npy: is not a .npy file: "):
        _site(HEAD + '[agents]\nfile = "agents.npy"\n', tmp_path)


def test_what_no_event_can_hold_is_refused_at_load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from coord.sites import scenario

    for limit, where in (
        ("AGENTS_MAX", "[[agent]]: expected at most 1, got 2"),
        ("RINGS_BYTES_MAX", "[[obstacle]] points: expected at most 1 bytes in all polygons, got 32"),
        ("SCENARIO_BYTES_MAX", "expected at most 1 bytes of obstacles, kernels, map, ids, events and demand, got 64"),
        ("INPUTS_BYTES_MAX", "expected at most 1 bytes of agents, zones and all else at a tick, got 172"),
    ):
        monkeypatch.setattr(scenario, limit, 1)
        text = HEAD + "[[agent]]\nid = 1\nx = 0.0\ny = 0.0\n[[agent]]\nid = 2\nx = 0.0\ny = 0.0\n"
        text += '[[obstacle]]\nkind = "polygon"\npoints = [[0, 0], [1, 0], [0, 1]]\n'
        with pytest.raises(ScenarioError) as error:
            Scenario.loads(text)
        assert str(error.value) == f"SITE.toml: {where}"
        monkeypatch.undo()


def test_the_most_agents_of_a_site_fit_one_event() -> None:
    from coord.frames.inputs import PARTS_MAX
    from coord.sites.scenario_schema import AGENTS_MAX
    from storage import Event

    parents = tuple(sorted(number.to_bytes(32, "little") for number in range(1, PARTS_MAX + 1)))
    effect = bytes(128 + 32 * AGENTS_MAX)
    event = Event(
        producer="sim/" + "x" * 60, effect=effect, kind="coord.frame", parents=parents, sequence=2**64 - 1, schema=1,
        tick=2**63,
    )  # fmt: skip
    assert Event.decode(event.encode()).tick == 2**63


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[[agents]]\nrandom = 3\n",
         "agents: expected a table [agents], got tables [[agents]]; did you mean [[agent]]?"),
        ("[zone]\nid = 1\n", "zone: expected tables [[zone]], got one table [zone]; did you mean [zones]?"),
        ("[obstacle]\nx = 1\n", "obstacle: expected tables [[obstacle]], got one table [obstacle]"),
        ('[[kernel]]\nx = 0\ny = 0\nsigma = 1\nweight = 1\n[[kernel]]\nx = 0\ny = 0\nsigma = 1\nweight = 1e-30\n',
         "[[kernel]] 2 weight: expected 0 or a size of at least 2^-64, got 1e-30"),
        ('[[obstacle]]\nkind = "circle"\nx = 9\ny = 0\nradius = 1\n[[obstacle]]\nkind = "circle"\nx = 1\nradius = 1\n',
         "[[obstacle]] 2 y: is missing in a circle: x, y, radius"),
    ],
)  # fmt: skip
def test_a_table_is_told_from_its_namesake_and_rows_by_their_number(text: str, error: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        Scenario.loads(HEAD + text)
    assert str(caught.value) == f"SITE.toml: {error}"
