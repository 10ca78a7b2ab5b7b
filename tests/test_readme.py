"""What the README shows is what happens."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image

from droveway.demo import PICTURE, draw_scene

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def block(language: str, number: int) -> str:
    """The n-th fenced block of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)[number]


def run_here(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "droveway", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )


def timeless(text: str) -> str:
    """The text without what belongs to a machine, the times, or to a version of RocksDB, the layout of its files."""
    return re.sub(r"found, [^\n]*sst\.", "found.", re.sub(r" \[\d+\.\d s\]", "", text))


def test_the_first_commands_give_the_printed_output_and_the_recorded_root(
    tmp_path: Path, golden: dict[str, dict[str, str]]
) -> None:
    assert block("sh", 0) == "pip install . && droveway demo\n"
    done = run_here("demo", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    shown = block("text", 0)
    assert timeless(done.stdout) == timeless(shown)
    assert len(re.findall(r" \[\d+\.\d s\]", shown)) == 4
    assert f"\nroot      {golden['demo']['root']}\n" in shown
    assert list(tmp_path.iterdir()) == []


def test_the_commands_of_the_table_run_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    commands = [line for line in re.findall(r"`droveway ([^`]*)`", README) if " yard" in line or "/yard" in line]
    assert [line.split()[0] for line in commands] == ["simulate", "verify", "metrics", "sweep", "explain", "verify"]
    checkpoint = "SIZE:ROOT"
    for line in commands:
        done = run_here(*line.replace("SIZE:ROOT", checkpoint).split(), folder=tmp_path)
        assert done.returncode == 0, (line, done.stderr)
        info = json.loads(run_here("info", "yard", "--json", folder=tmp_path).stdout)
        checkpoint = f"{info['size']}:{info['root']}"


def test_the_python_example_is_short_and_prints_what_is_shown(tmp_path: Path) -> None:
    code = block("python", 0)
    assert sum(bool(line) for line in code.splitlines()) <= 18
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == block("text", 1)


def test_the_tables_are_those_of_the_results() -> None:
    scope: dict[str, object] = {"__name__": "table", "__file__": str(ROOT / "benchmarks" / "table.py")}
    exec((ROOT / "benchmarks" / "table.py").read_text(), scope)
    make, pages = scope["tables"], scope["PAGES"]
    assert callable(make) and isinstance(pages, dict)
    assert set(pages) == {"README.md", "docs/benchmarks.md"}
    for page in pages:
        assert f"{scope['START']}{make(page)}{scope['END']}" in (ROOT / page).read_text()


def test_the_picture_is_the_demos_pixel_for_pixel(tmp_path: Path) -> None:
    (picture,) = re.findall(r"!\[[^]]+\]\(([^)]+)\)", README)
    assert (ROOT / picture).stat().st_size < 400_000
    draw_scene(tmp_path)
    with Image.open(ROOT / picture) as shown, Image.open(tmp_path / PICTURE) as made:
        assert (np.asarray(shown.convert("RGB")) == np.asarray(made.convert("RGB"))).all()


def test_the_map_of_the_yard_is_made_by_its_rule() -> None:
    scope: dict[str, object] = {"__name__": "make_yard", "__file__": "make_yard.py"}
    exec((ROOT / "examples" / "sites" / "make_yard.py").read_text(), scope)
    make = scope["yard_map"]
    assert callable(make)
    assert make() == (ROOT / "examples" / "sites" / "yard.map").read_text()


def test_the_changelog_has_the_version() -> None:
    import droveway

    assert f"## {droveway.__version__}" in (ROOT / "CHANGELOG.md").read_text()
