"""One place maps every package's errors to exit codes."""

import errno
import importlib
import inspect
from pathlib import Path

import pytest

from droveway import exits

PACKAGES_WITH_ERRORS = ("tensor", "vector", "splat", "storage", "coord")


def error_classes() -> list[type[BaseException]]:
    found: list[type[BaseException]] = []
    for package in PACKAGES_WITH_ERRORS:
        module = importlib.import_module(f"{package}.errors")
        found += [
            kind
            for kind in vars(module).values()
            if inspect.isclass(kind) and issubclass(kind, Exception) and kind.__module__ == module.__name__
        ]
    return found


def test_every_error_class_of_every_package_has_an_exit_code() -> None:
    classes = error_classes()
    assert len(classes) >= 12
    for kind in classes:
        names = {f"{base.__module__}.{base.__qualname__}" for base in kind.__mro__}
        assert names & set(exits.CODES), f"{kind} would be reported as a bug"


def test_every_name_in_the_map_exists() -> None:
    for name in exits.CODES:
        module, _, kind = name.rpartition(".")
        assert hasattr(importlib.import_module(module), kind), name


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_a_limit(number: int) -> None:
    ending = exits.ending_of(OSError(number, "No space left on device", "RUN/x"))
    assert ending == exits.Ending(4, "RUN/x: no space left on device", "free some space, or write elsewhere")


def test_an_unreadable_input_is_exit_3_and_an_unwritable_output_exit_2(tmp_path: Path) -> None:
    with (
        pytest.raises(exits.InputProblem, match="expected to read it, got: no such file or directory"),
        exits.reading(tmp_path),
    ):
        (tmp_path / "absent").read_bytes()
    with pytest.raises(exits.UsageProblem) as caught, exits.writing(tmp_path / "a" / "b"):
        (tmp_path / "a" / "b").write_bytes(b"")
    assert exits.ending_of(caught.value).code == 2
    assert str(caught.value) == f"{tmp_path}/a/b: expected to write it, got: no such file or directory"


def test_an_index_that_can_not_be_saved_is_told_like_any_other_output(tmp_path: Path) -> None:
    from vector import TurboIndex

    path = tmp_path / "gone" / "a.jvi"
    with pytest.raises(exits.UsageProblem) as refused, exits.writing(path):
        TurboIndex(2).save(path)
    assert str(refused.value) == f"{path}: expected to write it, got: no such file or directory"
    assert refused.value.hint == "choose another place for the output"


def test_an_error_names_the_file_it_is_about_once(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    with pytest.raises(MemoryError) as caught, exits.reading(path):
        raise MemoryError("too large")
    assert exits.ending_of(caught.value) == exits.Ending(4, f"{path}: too large")
    with pytest.raises(MemoryError) as caught, exits.reading(path):
        raise MemoryError(f"{path}: too large")
    assert exits.ending_of(caught.value) == exits.Ending(4, f"{path}: too large")


def test_an_unexpected_error_asks_for_a_report() -> None:
    ending = exits.ending_of(KeyError("x"))
    assert ending.code == 5
    assert ending.message == "droveway has a bug: KeyError: 'x'; please report it with the command that led here"
    assert ending.hint == "run the same command with --debug to see the traceback"


def test_a_missing_dependency_is_the_environment_and_a_missing_module_of_ours_a_bug() -> None:
    missing = ModuleNotFoundError("No module named 'numpy'", name="numpy")
    assert exits.ending_of(missing) == exits.Ending(
        2, "No module named 'numpy'", "pip install --force-reinstall droveway"
    )
    assert exits.ending_of(ModuleNotFoundError("No module named 'coord.x'", name="coord.x")).code == 5
    assert exits.ending_of(ImportError("DROVEWAY_ISA=v9 is not a build of droveway")).code == 2
