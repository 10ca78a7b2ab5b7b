"""The published JSON schema of SITE.toml takes what the reader takes, and refuses its wrong keys and ranges."""

from __future__ import annotations

import json
import re
import runpy
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from coord import json_schema
from coord.errors import ScenarioError
from coord.sites.scenario import Scenario

ROOT = Path(__file__).parents[2]
PUBLISHED = json.loads((ROOT / "docs" / "formats" / "site-toml.schema.json").read_text())
CHECK = jsonschema.Draft202012Validator(PUBLISHED)
HEAD = 'version = 1\nname = "t"\n'
GOLDEN = runpy.run_path(str(ROOT / "tests" / "golden_runs.py"))["SITES"]


def _sites() -> dict[str, str]:
    """Every SITE.toml of the examples, the tests and the pages."""
    found = {path.name: path.read_text() for path in (ROOT / "examples").rglob("*.toml")}
    found |= {path.name: path.read_text() for path in (ROOT / "tests" / "coord" / "sites").glob("*.toml")}
    found |= {name: text for name, (text, _) in GOLDEN.items()}
    for page in ("docs/fleets.md", "docs/formats/site-toml.md", "README.md"):
        blocks = re.findall(r"```toml\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
        found |= {f"{page}-{number}": text for number, text in enumerate(blocks) if "version = 1" in text}
    return found


def _faults(text: str) -> list[Any]:
    return list(CHECK.iter_errors(tomllib.loads(text)))


def test_the_published_schema_is_one_and_the_one_that_the_package_gives() -> None:
    jsonschema.Draft202012Validator.check_schema(PUBLISHED)
    assert json_schema() == PUBLISHED
    assert PUBLISHED["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("name", sorted(_sites()))
def test_every_site_of_the_examples_the_tests_and_the_pages_is_valid(name: str) -> None:
    text = _sites()[name]
    assert _faults(text) == []
    if "file =" not in text:
        Scenario.loads(text)


@pytest.mark.parametrize(
    "text",
    [
        "version = 2\n",
        HEAD + "sead = 1\n",
        HEAD + "[plann]\n",
        HEAD + "[plan]\nw_idel = 1.0\n",
        HEAD + '[plan]\nplanner = "fast"\n',
        HEAD + "[plan]\nk_candidates = 0\n",
        HEAD + "[plan]\non_events = 1\n",
        HEAD + '[demand]\nmodel = "poisson"\n',
        HEAD + "[demand]\nrate = -1.0\n",
        HEAD + "[faults]\ndelay = 1.5\n",
        HEAD + "[faults]\ndelay_ticks = [0, 3]\n",
        HEAD + "[faults]\ndelay_ticks = 3\n",
        HEAD + '[[event]]\ntick = 0\nkind = "fault"\nid = 0\n',
        HEAD + '[[event]]\ntick = 1\nkind = "broken"\nid = 0\n',
        HEAD + '[[event]]\ntick = 1\nkind = "fault"\n',
        HEAD + '[[event]]\ntick = 1\nkind = "fault"\nid = 0\nx = 1.0\n',
        HEAD + '[[event]]\ntick = 1\nkind = "delay"\nid = 0\n',
        HEAD + '[[event]]\ntick = 1\nkind = "zone_added"\nid = 0\nx = 1.0\n',
        HEAD + '[[event]]\ntick = 1\nkind = "obstacle_added"\nid = 0\nshape = "circle"\nx = 1.0\ny = 1.0\n',
        HEAD + '[[obstacle]]\nkind = "circle"\nx = 1.0\ny = 1.0\n',
        HEAD + '[[obstacle]]\nkind = "polygon"\npoints = [[0, 0], [1, 0], [1, 1]]\nradius = 1.0\n',
        HEAD + '[[obstacle]]\nkind = "polygon"\npoints = [[0, 0], [1, 0]]\n',
        HEAD + "[[agent]]\nid = 1\nx = 1048577.0\ny = 0.0\n",
        HEAD + "[[agent]]\nid = 1\ny = 0.0\n",
        HEAD + "[[zone]]\nid = -1\nx = 0.0\ny = 0.0\n",
        HEAD + "[[hot_spot]]\nx = 0.0\ny = 0.0\nsigma = 0.0\n",
        HEAD + "agents = 3\n",
        HEAD + "[[agents]]\nrandom = 3\n",
    ],
)
def test_what_the_reader_refuses_of_keys_and_ranges_the_schema_refuses(text: str) -> None:
    with pytest.raises(ScenarioError):
        Scenario.loads(text)
    assert _faults(text) != []
