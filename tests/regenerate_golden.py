"""Writes tests/golden.toml: `python tests/regenerate_golden.py`.

Every value comes from the Python twins, never from a kernel. A changed value needs a line in CHANGELOG.md.
One function per section; it returns {name: text}.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

os.environ["DROVEWAY_ISA"] = "ref"  # before any package is imported

GOLDEN = Path(__file__).with_name("golden.toml")
AREAS = ("tensor", "vector", "splat", "storage", "coord")


def selftest() -> dict[str, str]:
    """Digest of every kernel of every area, from `AREA/selftest_ref.py`."""
    found: dict[str, str] = {}
    for area in AREAS:
        if find_spec(f"{area}.selftest_ref") is not None:
            found |= import_module(f"{area}.selftest_ref").digests()
    return found


def examples() -> dict[str, str]:
    """Root of each site in examples/sites after 200 ticks: what `droveway simulate` prints, and the README."""
    from coord.simulation.simulate import simulate
    from coord.sites.scenario import Scenario

    found: dict[str, str] = {}
    for site in sorted((GOLDEN.parents[1] / "examples" / "sites").glob("*.toml")):
        with tempfile.TemporaryDirectory() as folder:
            root = simulate(Scenario.load(site), 200, ledger=Path(folder) / "run", sync="os").root
        assert root is not None
        found[site.stem] = root.hex()
    return found


def demo() -> dict[str, str]:
    """What `droveway demo` comes to: the root, the index, the picture. The audit is left out: it changes nothing."""
    from droveway.demo import render_scene, search_moments, simulate_fleet

    with tempfile.TemporaryDirectory() as folder:
        simulate_fleet(Path(folder))
        searched = search_moments(Path(folder))
        rendered = render_scene(Path(folder))
    return {"root": rendered.root.hex(), "index": searched.cid, "picture": rendered.digest}


def run() -> dict[str, str]:
    """Root of each small fixed run of `tests/golden_runs.py`."""
    from golden_runs import roots

    return roots()


def fleet() -> dict[str, str]:
    """Root of each fleet of `tests/golden_fleets.py`: every planner, motion and demand that there is."""
    from golden_fleets import roots

    return roots()


def scene() -> dict[str, str]:
    """Digest of each scene of `tests/golden_scenes.py`."""
    from golden_scenes import digests

    return digests()


def pictures() -> dict[str, str]:
    """Digest of each picture of `tests/golden_pictures.py`."""
    from golden_pictures import digests

    return digests()


def search() -> dict[str, str]:
    """Digest of the answer of each search of `tests/golden_search.py`."""
    from golden_search import digests

    return digests()


SECTIONS: dict[str, Callable[[], dict[str, str]]] = {
    "selftest": selftest,
    "examples": examples,
    "demo": demo,
    "run": run,
    "fleet": fleet,
    "search": search,
    "scene": scene,
    "pictures": pictures,
}


def main() -> None:
    """Write all sections."""
    lines = [
        "# Written by tests/regenerate_golden.py from the Python twins. A changed value needs a line in CHANGELOG.md."
    ]
    for section, make in SECTIONS.items():
        lines += ["", f"[{section}]"]
        lines += [f'"{name}" = "{value}"' for name, value in make().items()]
    text = "\n".join(lines) + "\n"
    changed = not GOLDEN.exists() or GOLDEN.read_text() != text
    GOLDEN.write_text(text)
    sys.stdout.write(f"{GOLDEN.name}: {'written' if changed else 'unchanged'}\n")


if __name__ == "__main__":
    main()
