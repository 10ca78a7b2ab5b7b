"""Writes tests/golden.toml: `python tests/regenerate_golden.py [SECTION …]`; only these sections where some are named.

Every value comes from the Python twins, never from a kernel, but for the full runs of [training], which take the twins
hours and come from the v3 build (arm64: from its own). A changed value needs a line in CHANGELOG.md.
One function per section; it returns {name: text}.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import tomllib
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


def rows() -> dict[str, str]:
    """Digest of each row of tensor's registry, of `tests/golden_rows.py`."""
    from golden_rows import digests

    return digests()


def training() -> dict[str, str]:
    """Digest of each run of `tests/golden_training.py`."""
    from engine_digest import reduced_training

    code = "import json, engine_digest; print(json.dumps(engine_digest.full_training('captured')))"
    isa = "v3" if platform.machine() == "x86_64" else "neon"
    environment = {**os.environ, "DROVEWAY_ISA": isa, "PYTHONPATH": str(GOLDEN.parent)}
    full = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, env=environment).stdout
    return reduced_training("eager") | json.loads(full)


def engine() -> dict[str, str]:
    """The one digest of `tests/engine_digest.py`, of the two sections before."""
    from engine_digest import one_digest

    reduced = {name: value for name, value in WRITTEN["training"].items() if name.endswith("reduced")}
    return {"digest": one_digest(WRITTEN["rows"], reduced)}


WRITTEN: dict[str, dict[str, str]] = {}  # sections as they will be

SECTIONS: dict[str, Callable[[], dict[str, str]]] = {
    "selftest": selftest,
    "examples": examples,
    "demo": demo,
    "run": run,
    "fleet": fleet,
    "search": search,
    "scene": scene,
    "pictures": pictures,
    "rows": rows,
    "training": training,
    "engine": engine,
}


def main() -> None:
    """Write all sections, or those that were asked for."""
    asked = sys.argv[1:] or list(SECTIONS)
    unknown = [name for name in asked if name not in SECTIONS]
    if unknown:
        sys.exit(f"regenerate_golden: no section {unknown[0]!r}: {', '.join(SECTIONS)}")
    if {"rows", "training"} & set(asked):
        asked.append("engine")
    known = tomllib.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    lines = [
        "# Written by tests/regenerate_golden.py from the Python twins. A changed value needs a line in CHANGELOG.md."
    ]
    for section, make in SECTIONS.items():
        WRITTEN[section] = make() if section in asked else known[section]
        lines += ["", f"[{section}]"]
        lines += [f'"{name}" = "{value}"' for name, value in WRITTEN[section].items()]
    text = "\n".join(lines) + "\n"
    changed = not GOLDEN.exists() or GOLDEN.read_text() != text
    GOLDEN.write_text(text)
    sys.stdout.write(f"{GOLDEN.name}: {'written' if changed else 'unchanged'}\n")


if __name__ == "__main__":
    main()
