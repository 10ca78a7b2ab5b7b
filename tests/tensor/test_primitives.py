"""Every row of the registry passes every check that applies to it; docs/primitives.md says what these tests said."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tensor import _kernels
from tensor.primitives.registry import all_rows, families, register, row

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))
try:
    import primitive_checks
    import regenerate_primitives
finally:
    sys.path.remove(str(TESTS))

ROWS = primitive_checks.rows()
OUTCOMES: dict[str, dict[str, str]] = {}
COMMAND = "docs/primitives.md is old (hint: python tests/regenerate_primitives.py)"


@pytest.fixture(scope="module", autouse=True)
def written_outcomes() -> Iterator[None]:
    """Leaves the outcomes where tests/regenerate_primitives.py asks for them."""
    yield
    if "DROVEWAY_OUTCOMES" in os.environ:
        Path(os.environ["DROVEWAY_OUTCOMES"]).write_text(json.dumps(OUTCOMES))


@pytest.mark.parametrize("check", primitive_checks.CHECKS)
@pytest.mark.parametrize("name", [r.name for r in ROWS])
def test_the_row_passes(name: str, check: str) -> None:
    OUTCOMES.setdefault(name, {})[check] = "failed"
    try:
        primitive_checks.CHECKS[check](row(name))
    except primitive_checks.NotApplicable as reason:
        OUTCOMES[name][check] = str(reason)
    else:
        OUTCOMES[name][check] = "yes"


def test_the_page_says_what_these_tests_said(repository: Path) -> None:
    page = regenerate_primitives.read_page(repository / "docs" / "primitives.md")
    assert list(page) == [r.name for r in sorted(ROWS, key=regenerate_primitives.order)], COMMAND
    isa = _kernels.isa()
    for name, outcome in OUTCOMES.items():
        if len(outcome) == len(primitive_checks.CHECKS):
            assert regenerate_primitives.cells(row(name), {isa: outcome}, only=isa).items() <= page[name].items(), (
                name,
                COMMAND,
            )


def test_arm64_is_open_where_its_digest_is_not_the_golden_one_of_now() -> None:
    cell = regenerate_primitives.emulated_cell
    assert cell(row("add"), {"add": "12"}, {"add": "12"}) == "yes"
    assert cell(row("add"), {"add": "12"}, {"add": "34"}) == "open"
    assert cell(row("add"), {}, {"add": "12"}) == cell(row("add"), {}, {}) == "open"
    assert cell(row("permute"), {"permute": "12"}, {"permute": "12"}) == "view"


def test_the_page_lists_every_function_that_has_cases_and_none_failed(repository: Path) -> None:
    page = (repository / "docs" / "primitives.md").read_text()
    section = page.split("## Functions made of rows\n")[1].split("\n## ")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if "| `" in line]
    cases = regenerate_primitives.composite_checks.all_cases()
    assert [row[0] for row in cells] == [regenerate_primitives.found_at(name) for name in sorted(cases)], COMMAND
    assert {cell for row in cells for cell in row[1:]} <= {"yes", "–"}, COMMAND


def test_the_page_lists_the_names_of_the_mission(data, repository: Path) -> None:
    names = regenerate_primitives.mission_names(data("tessera/tessera_primitives.csv"))
    assert len(names) == 515
    written = regenerate_primitives.mission_section(data("tessera/tessera_primitives.csv"))
    assert (repository / "docs" / "primitives.md").read_text().endswith(written), COMMAND


def test_every_name_of_the_mission_that_has_another_name_here_is_there() -> None:
    for name, home in regenerate_primitives.ELSEWHERE.items():
        assert regenerate_primitives.found_at(home), f"{name} → {home}"


def test_families_are_the_modules_that_hold_rows() -> None:
    assert families()
    assert {r.name for r in ROWS} == {r.name for r in all_rows()}


def test_a_name_is_taken_once() -> None:
    with pytest.raises(ValueError, match=r"^primitive alias: the registry already has a row of this name$"):
        register(row("alias"))


def test_an_unknown_name_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="no primitive is named 'quine'"):
        row("quine")


def _sabotaged(**fields: object) -> primitive_checks.Primitive:
    """`tanh` with a field exchanged."""
    honest = row("tanh")
    given = {
        "category": honest.category,
        "summary": honest.summary,
        "shape": honest.shape,
        "dtypes": honest.dtypes,
        "samples": honest.samples,
        "twin": honest.twin,
        "keeps": honest.keeps,
        "vjp": honest.vjp,
        "jvp": honest.jvp,
        "batch": honest.batch,
        "op": honest.op_name,
    }
    return primitive_checks.Primitive("tanh", **{**given, **fields})


@pytest.mark.parametrize(
    ("check", "fields"),
    [
        ("shape", {"samples": lambda rng: []}),
        ("twin", {"twin": lambda arrays, params: row("tanh").twin(arrays, params) * 1 + arrays[0].dtype.type(1e-3)}),
        ("oracle", {"oracle": lambda arrays, params: arrays[0]}),
        ("gradient", {"vjp": lambda g, node: (g * 0.5,)}),
        ("tangent", {"jvp": lambda tangents, node: tangents[0]}),
        ("batching", {"batch": lambda inputs, dims, params: (_kernels.apply(row("sin"), inputs), dims[0])}),
    ],
)
def test_a_wrong_row_does_not_pass(check: str, fields: dict[str, object]) -> None:
    with pytest.raises((AssertionError, RuntimeError)):
        primitive_checks.CHECKS[check](_sabotaged(**fields))
