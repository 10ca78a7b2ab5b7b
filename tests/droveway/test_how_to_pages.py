"""The commands and lines that docs/search.md and docs/rendering.md begin with do what the pages say."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from splat.synthetic import warehouse
from vector import IdMapIndex, exact_search
from vector.synthetic import mixture

DOCS = Path(__file__).parents[2] / "docs"
Ask = Callable[..., Any]


def block(page: str, language: str) -> str:
    """The only fenced block of a language on a page."""
    (only,) = re.findall(rf"^```{language}\n(.*?)^```", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    return str(only)


def run_all(page: str, ask: Ask, **files: str) -> list[str]:
    """What each command of the page prints, with files for its words; all of them succeed."""
    answers = []
    for line in block(page, "sh").splitlines():
        program, *arguments = shlex.split(line)
        told = ask(*(files.get(word, word) for word in arguments))
        assert (program, told.code, told.err) == ("droveway", 0, ""), line
        answers.append(told.out)
    return answers


def test_the_commands_of_the_search_page_run_in_their_order(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows, _ = mixture(np.eye(20, dtype=np.float32), 130, 0.5, seed=1)
    for name, part in (("V", rows[:100]), ("Q", rows[100:110]), ("MORE", rows[110:])):
        np.save(f"{name}.npy", part)
    np.save("NEW.npy", np.arange(1000, 1020, dtype=np.uint64))
    built, found, added, removed = run_all("search.md", ask)
    assert "rows    100 of 20 numbers" in built and "answer  10 queries, 5 of 100 rows each" in found
    assert "added   20\n" in added and "removed  20\n" in removed
    assert np.load("answer.npz")["ids"].shape == (10, 5)


def test_the_lines_of_the_search_page_find_what_an_exact_search_finds() -> None:
    everything, _ = mixture(np.eye(64, dtype=np.float32), 2050, 0.5, seed=2)
    rows, queries, k = everything[:2000], everything[2000:], 10
    index = IdMapIndex(64, metric="cosine")
    index.add(rows, np.arange(2000, dtype=np.uint64))
    code = block("search.md", "python").replace("    best =", "    answers.append(best := ").rstrip() + ".tolist())"
    answers: list[list[int]] = []
    exec(code, {"index": index, "rows": rows, "queries": queries, "k": k, "exact_search": exact_search,
                "answers": answers})  # fmt: skip
    truth = exact_search(rows, queries, k, "cosine")[1]
    assert index.search(queries, k)[1].tolist() != truth.tolist()
    assert answers == truth.tolist()


def test_the_commands_of_the_rendering_page_draw_and_convert(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    warehouse(np.eye(4, dtype=bool), 1.0, 500, 1, seed=0).save("scene-of-mine.ply")
    told = run_all("rendering.md", ask, SCENE="scene-of-mine.ply")
    assert len(told) == 4 and all("500" in answer for answer in told)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "b.png", "scene-of-mine.ply", "scene.ply"]
