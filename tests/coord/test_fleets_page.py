"""Every scenario of docs/fleets.md runs, verifies and is made again."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from coord.auditing.audit import audit
from coord.simulation.demand_spec import DemandSpec
from coord.simulation.simulate import simulate
from coord.sites.scenario import Scenario
from coord.sites.scenario_schema import DEMANDS, EVENT_KEYS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "fleets.md").read_text()
YARD_MAP = runpy.run_path(str(ROOT / "tests" / "golden_runs.py"))["YARD_MAP"]
EXAMPLES = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


def _load(text: str, folder: Path) -> Scenario:
    lines = re.search(r"```jsonl\n(.*?)```", PAGE, re.DOTALL)
    assert lines is not None
    (folder / "yesterday.jsonl").write_text(lines[1])
    (folder / "yard.map").write_text(YARD_MAP)
    return Scenario.loads(text, folder)


@pytest.mark.parametrize("text", EXAMPLES, ids=[re.findall(r'name = "(.*?)"', text)[0] for text in EXAMPLES])
def test_an_example_of_the_page_runs_and_is_made_again(text: str, tmp_path: Path) -> None:
    site = _load(text, tmp_path)
    run = simulate(site, 60, ledger=tmp_path / "run", sync="os")
    assert run.served > 0
    quiet = not site.setup.events and site.setup.faults is None
    assert quiet == (not run.events)
    assert (site.setup.demand.model == DemandSpec().model) == (run.tasks_opened == 0)
    report = audit(tmp_path / "run", resimulate=True)
    assert (report.ok, report.resimulated, report.root) == (True, run.frames, run.root)


def test_the_page_has_an_example_of_each_model() -> None:
    for word in DEMANDS:
        assert f'model = "{word}"' in PAGE
    assert {"delay", "fault", "silent", "lost"} <= set(re.findall(r"^(\w+) = 0\.", PAGE, re.MULTILINE))
    assert len({kind for kind in EVENT_KEYS if f'kind = "{kind}"' in PAGE}) >= 6
