"""What the README shows is what happens."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def block(language: str, number: int) -> str:
    """The n-th fenced block of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)[number]


def test_the_commands_give_the_printed_result_and_the_recorded_root(
    tmp_path: Path, golden: dict[str, dict[str, str]]
) -> None:
    commands = block("sh", 0).splitlines() + block("sh", 1).splitlines()
    assert commands[0] == "pip install ."
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    shown = []
    for line in commands[1:]:
        program, *arguments = line.split()
        assert program == "droveway"
        done = subprocess.run(
            [sys.executable, "-m", "droveway", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        shown.append(done.stdout)
    assert shown[0] == block("text", 0)
    assert shown[0].splitlines()[-1] == f"root    {golden['examples']['yard']}"
    assert shown[1].startswith("verified: 401 events, 200 decisions, 200 made again")
    assert (tmp_path / "yard.png").stat().st_size > 10_000


def test_the_python_example_is_short_and_prints_what_is_shown(tmp_path: Path) -> None:
    code = block("python", 0)
    assert len(code.splitlines()) <= 12
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == block("text", 1)


def test_the_tables_are_those_of_the_results() -> None:
    scope: dict[str, object] = {"__name__": "table", "__file__": str(ROOT / "benchmarks" / "table.py")}
    exec((ROOT / "benchmarks" / "table.py").read_text(), scope)
    make = scope["tables"]
    assert callable(make)
    assert f"{scope['START']}{make()}{scope['END']}" in README


def test_the_picture_is_there_and_small() -> None:
    (picture,) = re.findall(r"!\[[^]]+\]\(([^)]+)\)", README)
    data = (ROOT / picture).read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert len(data) < 150_000


def test_the_map_of_the_yard_is_made_by_its_rule() -> None:
    scope: dict[str, object] = {"__name__": "make_yard", "__file__": "make_yard.py"}
    exec((ROOT / "examples" / "sites" / "make_yard.py").read_text(), scope)
    make = scope["yard_map"]
    assert callable(make)
    assert make() == (ROOT / "examples" / "sites" / "yard.map").read_text()


def test_the_changelog_has_the_version() -> None:
    import droveway

    assert f"## {droveway.__version__}" in (ROOT / "CHANGELOG.md").read_text()
