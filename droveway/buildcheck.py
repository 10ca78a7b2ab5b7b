"""Do all packages come from one build? Other projects on PyPI are called tensor, vector, splat and storage too.

pip merges folders of the same name silently, whichever distribution they belong to. CMake therefore installs a file
`_build_id` in each package: the id of the build, then the SHA-256 of that package's `__init__.py`. Comparing them costs
a few small reads: nothing is imported.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from droveway.exits import UsageProblem

PACKAGES: Final = ("tensor", "vector", "splat", "storage", "coord", "droveway")
MEND: Final = (
    "make a fresh virtual environment with droveway alone, or: pip install --force-reinstall --no-deps droveway"
)


@dataclass(frozen=True)
class Misfit:
    """A package that is not of this build: which, what is wrong, and the distribution in the way ('' unknown)."""

    package: str
    problem: str
    foreign: str = ""

    def __str__(self) -> str:
        by = f" (from the distribution '{self.foreign}')" if self.foreign else ""
        return f"package '{self.package}'{by}: {self.problem}"


def require_one_build() -> None:
    """Raise UsageProblem, exit 2, unless every package is of this build."""
    try:
        own, found = own_build_id(), misfits()
    except OSError as error:
        text = (error.strerror or str(error)).lower()
        raise UsageProblem(error.filename, f"expected to read it, got: {text}", "install droveway again") from error
    if own is None:
        raise UsageProblem(
            None,
            "this is the source folder of droveway, which has no build",
            "leave the folder, or run: pip install -e .",
        )
    if found:
        raise UsageProblem(None, "; ".join(map(str, found)), MEND)


def own_build_id() -> str | None:
    """The id of the build that the command line belongs to; None in a source folder without a build."""
    spec = find_spec("droveway")
    recorded = None if spec is None else _recorded(spec.submodule_search_locations or ())
    return None if recorded is None else recorded[0]


def misfits(packages: Sequence[str] = PACKAGES) -> list[Misfit]:
    """Packages that are missing, of another build, or whose `__init__.py` is another project's."""
    own = own_build_id()
    return [misfit for package in packages if (misfit := _misfit(package, own)) is not None]


def _misfit(package: str, own: str | None) -> Misfit | None:
    spec = find_spec(package)
    if spec is None:
        return Misfit(package, "expected it beside droveway, found nothing")
    places = list(spec.submodule_search_locations or ())
    recorded = _recorded(places)
    if spec.origin is None:
        return Misfit(package, f"expected __init__.py in {places}, found none: another distribution was uninstalled")
    folder = Path(spec.origin).parent
    if recorded is None:
        return Misfit(package, f"{folder} is not droveway's", owner_of(folder / "__init__.py"))
    build_id, init_hash, recorded_in = recorded
    if build_id != own:
        return Misfit(package, f"expected build {own}, got build {build_id} in {recorded_in}", owner_of(recorded_in))
    editable = recorded_in != folder  # the source of an editable install may change after the build
    if not editable and hashlib.sha256((folder / "__init__.py").read_bytes()).hexdigest() != init_hash:
        text = f"{folder / '__init__.py'} was overwritten"
        return Misfit(package, text, owner_of(folder / "__init__.py"))
    return None


def _recorded(places: Sequence[str]) -> tuple[str, str, Path] | None:
    for place in places:
        file = Path(place) / "_build_id"
        if file.is_file():
            build_id, _, rest = file.read_text("utf-8").partition("\n")
            return build_id, rest.strip(), Path(place)
    return None


def owner_of(path: Path) -> str:
    """The name of a distribution other than droveway whose record lists `path`; '' when there is none."""
    from importlib.metadata import distributions

    folder = path.parent.parent
    listed = f"{path.parent.name}/{path.name}"
    for distribution in distributions(path=[str(folder)]):
        name = distribution.metadata["Name"] or ""
        if name.lower() != "droveway" and any(str(file) == listed for file in distribution.files or ()):
            return name
    return ""
