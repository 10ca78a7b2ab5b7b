"""Foreign packages of our names are found and named; one build fits."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

import pytest

from droveway import buildcheck, exits
from droveway.main import run


def site_with(folder: Path, package: str, distribution: str, init: str = "") -> Path:
    """A folder like site-packages that holds `package` as another distribution installs it."""
    (folder / package).mkdir(parents=True, exist_ok=True)
    (folder / package / "__init__.py").write_text(init)
    info = folder / f"{distribution}-3.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 3.1\n")
    (info / "RECORD").write_text(f"{package}/__init__.py,,\n{distribution}-3.1.dist-info/METADATA,,\n")
    return folder


def spec_in(folder: Path, package: str) -> ModuleSpec:
    spec = ModuleSpec(package, None, origin=str(folder / package / "__init__.py"), is_package=True)
    spec.submodule_search_locations = [str(folder / package)]
    return spec


@pytest.fixture
def found_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, ModuleSpec | None], None]:
    def place(package: str, spec: ModuleSpec | None) -> None:
        monkeypatch.setattr(buildcheck, "find_spec", lambda name: spec if name == package else find_spec(name))

    return place


def test_the_packages_of_this_installation_are_of_one_build() -> None:
    own = buildcheck.own_build_id()
    assert own is not None and len(own) == 32 and int(own, 16) >= 0
    assert buildcheck.misfits() == []


@pytest.mark.parametrize("package", ["tensor", "storage"])
def test_a_foreign_package_in_the_way_is_named_with_its_distribution(
    package: str, found_at: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site_with(tmp_path, package, "some-arrays")
    found_at(package, spec_in(tmp_path, package))
    assert run(["completion", "bash"]) == exits.USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        f"error: package '{package}' (from the distribution 'some-arrays'): {tmp_path / package} is not droveway's\n"
        f"hint: {buildcheck.MEND}\n"
    )


def test_a_package_whose_init_was_overwritten_by_a_merge_is_found(
    found_at: Callable[..., None], tmp_path: Path
) -> None:
    own = buildcheck.own_build_id()
    site_with(tmp_path, "tensor", "some-arrays", init="x = 1\n")
    (tmp_path / "tensor" / "_build_id").write_text(f"{own}\n{hashlib.sha256(b'ours').hexdigest()}\n")
    found_at("tensor", spec_in(tmp_path, "tensor"))
    (misfit,) = buildcheck.misfits()
    assert misfit.foreign == "some-arrays"
    assert misfit.problem == f"{tmp_path / 'tensor' / '__init__.py'} was overwritten"
    (tmp_path / "tensor" / "_build_id").write_text(f"{own}\n{hashlib.sha256(b'x = 1' + bytes([10])).hexdigest()}\n")
    assert buildcheck.misfits() == []


def test_a_package_of_another_build_is_found(found_at: Callable[..., None], tmp_path: Path) -> None:
    site_with(tmp_path, "coord", "droveway")
    (tmp_path / "coord" / "_build_id").write_text("00ff\nabc\n")
    found_at("coord", spec_in(tmp_path, "coord"))
    (misfit,) = buildcheck.misfits()
    assert misfit.problem == f"expected build {buildcheck.own_build_id()}, got build 00ff in {tmp_path / 'coord'}"
    assert misfit.foreign == ""


def test_a_missing_package_and_one_without_init_are_found(found_at: Callable[..., None], tmp_path: Path) -> None:
    found_at("storage", None)
    assert [str(misfit) for misfit in buildcheck.misfits()] == [
        "package 'storage': expected it beside droveway, found nothing"
    ]
    bare = ModuleSpec("storage", None, is_package=True)
    bare.submodule_search_locations = [str(tmp_path)]
    found_at("storage", bare)
    (misfit,) = buildcheck.misfits()
    assert misfit.problem.startswith("expected __init__.py in [")


def test_help_and_version_do_not_check(found_at: Callable[..., None]) -> None:
    found_at("tensor", None)
    assert run(["--help"]) == 0
    assert run(["completion", "--help"]) == 0
    assert run(["completion", "bash"]) == 2


def test_the_source_folder_without_a_build_says_so_in_one_sentence(tmp_path: Path) -> None:
    source = Path(__file__).parents[2]
    for package in buildcheck.PACKAGES:
        shutil.copytree(source / package, tmp_path / package, ignore=shutil.ignore_patterns("kernels", "*.so", "*.pyi"))
        (tmp_path / package / "_build_id").unlink(missing_ok=True)
    code = (
        "import sys\n"
        "sys.meta_path = [f for f in sys.meta_path if 'ScikitBuild' not in type(f).__name__]\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "from droveway.main import run; sys.exit(run(['completion', 'bash']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd="/", capture_output=True, text=True, env=dict(os.environ), check=False
    )
    assert done.returncode == 2
    assert done.stderr == (
        "error: this is the source folder of droveway, which has no build\n"
        "hint: leave the folder, or run: pip install -e .\n"
    )


def test_a_merged_installation_is_refused_and_an_unmerged_one_is_not(tmp_path: Path) -> None:
    """Our packages laid out as pip lays them, then overwritten by another distribution as pip does it."""
    own = buildcheck.own_build_id()
    for package in buildcheck.PACKAGES:
        spec = find_spec(package)
        assert spec is not None
        for place in spec.submodule_search_locations or ():
            ignored = shutil.ignore_patterns("kernels", "__pycache__")
            shutil.copytree(place, tmp_path / package, dirs_exist_ok=True, ignore=ignored)
        init = hashlib.sha256((tmp_path / package / "__init__.py").read_bytes()).hexdigest()
        (tmp_path / package / "_build_id").write_text(f"{own}\n{init}\n")
    code = (
        "import sys\n"
        "sys.meta_path = [f for f in sys.meta_path if 'ScikitBuild' not in type(f).__name__]\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "from droveway.main import run; sys.exit(run(['completion', 'bash']))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd="/", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    site_with(tmp_path, "storage", "cloud-storage", init="class Storage: pass\n")
    done = subprocess.run([sys.executable, "-c", code], cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 2
    overwritten = tmp_path / "storage" / "__init__.py"
    assert done.stderr.startswith(
        f"error: package 'storage' (from the distribution 'cloud-storage'): {overwritten} was overwritten\n"
    )
