"""The pages under docs/: what they show is what happens, and none is left out of the index."""

import doctest
import pkgutil
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/**/*.md"))


def sessions(text: str) -> str:
    """The fenced sessions of a page, one after another."""
    return "\n".join(re.findall(r"^```pycon\n(.*?)^```", text, re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize(
    ("page", "examples"),
    [
        ("docs/python.md", 50),
        ("docs/replaying.md", 20),
        ("docs/planners.md", 15),
        ("docs/motion.md", 5),
        ("docs/sweeps.md", 8),
        ("docs/fleets.md", 2),
        ("docs/around.md", 8),
        ("docs/gradients.md", 20),
        ("docs/capture.md", 14),
        ("docs/elementwise.md", 10),
        ("docs/tensors.md", 20),
        ("docs/array-api.md", 6),
        ("docs/reductions.md", 15),
        ("docs/random-numbers.md", 15),
    ],
)
def test_a_page_of_sessions_shows_what_python_answers(
    page: str, examples: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    session = sessions((ROOT / page).read_text())
    test = doctest.DocTestParser().get_doctest(session, {}, page, page, 0)
    assert len(test.examples) > examples
    said: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=said.append)
    assert result.failed == 0, "".join(said)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", *PAGES])
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text()
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        assert (ROOT / page).parent.joinpath(target).exists(), f"{page} links to {target}"


def test_the_index_lists_every_page_once() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    listed = re.findall(r"\]\(([^)#]+\.md)\)", index)
    assert sorted(f"docs/{name}" for name in listed if not name.startswith("..")) == [
        page for page in PAGES if page != "docs/README.md"
    ]


EVENTS = "event field frame inputs scenario zones"  # kinds of events and catalogs, written like names of coord
OTHERS = {f"coord.{kind}" for kind in EVENTS.split()} | {"droveway.example", "droveway.ledger"}  # a host and a schema
PLANNED = {"tensor.tokenizer", "tensor.train"}  # of which decisions.md says where they will be


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", *PAGES])
def test_dotted_names_of_the_packages_are_there(page: str) -> None:
    packages = "coord|droveway|splat|storage|tensor|vector"
    for name in set(re.findall(rf"`((?:{packages})(?:\.\w+)+)", (ROOT / page).read_text())) - OTHERS - PLANNED:
        pkgutil.resolve_name(name)


@pytest.mark.parametrize(
    "word",
    ["tensor/", "vector/", "splat/", "storage/", "coord/", "droveway/", "tests/", "benchmarks/", "examples/"],
)
def test_files_that_pages_name_are_there(word: str) -> None:
    for page in ["README.md", "CONTRIBUTING.md", *PAGES]:
        for name in re.findall(rf"`({word}[\w./-]*\.(?:py|cpp|hpp|sh|toml|jsonl|map))`", (ROOT / page).read_text()):
            assert "NAME" in name or (ROOT / name).exists(), f"{page} names {name}"


def test_the_code_points_at_pages_that_are_there() -> None:
    folders = ("tensor", "vector", "splat", "storage", "coord", "droveway", "benchmarks")
    files = [path for name in folders for path in (ROOT / name).rglob("*")]
    named = {
        (path.relative_to(ROOT).as_posix(), page)
        for path in files
        if path.suffix in {".py", ".cpp", ".hpp"}
        for page in re.findall(r"[\w./-]+\.md\b", path.read_text())
    }
    assert len(named) > 20
    gone = {
        pair for pair in named if not (ROOT / pair[1]).exists() and not (ROOT / "docs" / "formats" / pair[1]).exists()
    }
    assert gone == set()
