"""Findings about an installation, each independent of the others: what `droveway doctor` prints.

The kernels are loaded from their files, without the packages around them, so that they are tested even where numpy or
another dependency is broken.
"""

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Literal

from droveway import __version__, buildcheck

State = Literal["ok", "note", "wrong"]
DISK_FREE_BYTES_MIN: Final = 100 * 2**20


@dataclass(frozen=True)
class Finding:
    """One line of the report: what was looked at, how it is, and in which words."""

    check: str
    state: State
    detail: str


def findings() -> Iterator[Finding]:
    """All findings, in the order of the report; a check that fails itself is a finding too."""
    checks: tuple[Callable[[], Iterator[Finding]], ...] = (
        _machine,
        _build,
        _files,
        _foreign,
        _kernels,
        _dependencies,
        _packages,
        _disk,
        _locks,
    )
    for check in checks:
        try:
            yield from check()
        except Exception as error:  # the doctor's own trouble must not hide the other findings
            yield Finding(
                check.__name__.strip("_"), "wrong", f"the check itself failed: {type(error).__name__}: {error}"
            )


def _machine() -> Iterator[Finding]:
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    system = f"{platform.system()} {platform.machine()}"
    yield Finding("machine", "ok", f"droveway {__version__}, Python {platform.python_version()}, {system}, {cpus} CPUs")
    for name in ("DROVEWAY_ISA", "DROVEWAY_THREADS"):
        if name in os.environ:
            yield Finding(name, "note", f"set to {os.environ[name]!r}")


def _build() -> Iterator[Finding]:
    own = buildcheck.own_build_id()
    if own is None:
        yield Finding("build", "wrong", "this is the source folder of droveway, which has no build: pip install -e .")
        return
    wrong = {misfit.package: misfit for misfit in buildcheck.misfits()}
    for misfit in wrong.values():
        yield Finding("build", "wrong", str(misfit))
    fit = [package for package in buildcheck.PACKAGES if package not in wrong]
    if fit:
        yield Finding("build", "ok", f"{', '.join(fit)}: build {own}")


def _files() -> Iterator[Finding]:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        installed = distribution("droveway")
    except PackageNotFoundError:
        yield Finding("files", "wrong", "no installed distribution 'droveway' is on the path")
        return
    if (installed.read_text("direct_url.json") or "").replace(" ", "").find('"editable":true') >= 0:
        yield Finding("files", "note", "editable install: the source is what runs, no recorded hashes to compare")
        return
    checked, bad = 0, 0
    for file in installed.files or ():
        if file.hash is None:
            continue
        checked += 1
        problem = _file_problem(Path(str(file.locate())), file.hash.mode, file.hash.value)
        if problem:
            bad += 1
            yield Finding("files", "wrong", f"{file}: {problem}")
    if not bad:
        yield Finding("files", "ok", f"{checked} installed files have their recorded hashes")


def _file_problem(path: Path, algorithm: str, recorded: str) -> str:
    import base64
    import hashlib

    try:
        digest = hashlib.new(algorithm, path.read_bytes()).digest()
    except OSError as error:
        return f"expected to read it, got: {(error.strerror or str(error)).lower()}"
    found = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    return "" if found == recorded else f"expected {algorithm} {recorded}, got {found}"


def _foreign() -> Iterator[Finding]:
    from importlib.metadata import distributions

    clean = True
    for distribution in distributions():
        name = distribution.metadata["Name"] or "?"
        if name.lower() == "droveway":
            continue
        claimed = sorted({file.parts[0] for file in distribution.files or () if file.parts[0] in buildcheck.PACKAGES})
        if claimed:
            clean = False
            yield Finding(
                "foreign", "wrong", f"distribution '{name}' has files in {', '.join(claimed)}; {buildcheck.MEND}"
            )
    if clean:
        yield Finding("foreign", "ok", "no other distribution has files in droveway's packages")


def kernel_paths() -> dict[str, Path]:
    """The built `_kernels` file of each package that has one."""
    found: dict[str, Path] = {}
    for package in buildcheck.PACKAGES:
        spec = find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec is not None else ():
            for file in sorted(Path(place).glob("_kernels*.so")):
                found.setdefault(package, file)
    return found


def load_kernels(package: str, path: Path) -> ModuleType:
    """`PACKAGE._kernels` without importing the package around it; raises ImportError as an import would."""
    name = f"{package}._kernels"
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[name] = module
    return module


def golden_digests() -> dict[str, str]:
    """The digests that every build must give: the section [selftest] of the installed droveway/golden.toml."""
    import tomllib

    import droveway

    for place in droveway.__path__:
        file = Path(place) / "golden.toml"
        if file.is_file():
            section: dict[str, Any] = tomllib.loads(file.read_text()).get("selftest", {})
            return {str(name): str(digest) for name, digest in section.items()}
    raise FileNotFoundError("golden.toml is not installed beside the command line")


def _kernels() -> Iterator[Finding]:
    golden = golden_digests()
    paths = kernel_paths()
    levels = ("v3", "v4") if platform.machine().lower() in ("x86_64", "amd64") else ("neon",)
    seen: set[str] = set()
    for package, path in paths.items():
        try:
            module = load_kernels(package, path)
        except ImportError as error:
            yield Finding("kernels", "wrong", f"{package}: {error}")
            seen |= {name for name in golden if name.startswith(f"{package}.")}
            continue
        for level in levels:
            yield _self_test(package, module, level, golden, seen)
    untested = sorted(set(golden) - seen)
    if untested:
        yield Finding("kernels", "wrong", f"golden digests that no kernel answers for: {', '.join(untested)}")
    if not paths:
        yield Finding("kernels", "wrong", "no built _kernels found")


def _self_test(package: str, module: ModuleType, level: str, golden: dict[str, str], seen: set[str]) -> Finding:
    try:
        digests: dict[str, str] = module.self_test(level)
    except ValueError as error:
        seen |= {name for name in golden if name.startswith(f"{package}.")}
        return Finding("kernels", "note", f"{package} {level}: not tested, {error}")
    seen |= set(digests)
    for name, digest in digests.items():
        if golden.get(name) != digest:
            return Finding("kernels", "wrong", f"{name} {level}: expected {golden.get(name)}, got {digest}")
    used = " (in use)" if module.isa() == level else ""
    return Finding("kernels", "ok", f"{package} {level}: {len(digests)} digests as recorded{used}")


def _dependencies() -> Iterator[Finding]:
    from importlib.metadata import PackageNotFoundError, requires, version

    versions = []
    for requirement in requires("droveway") or ():
        if ";" in requirement:
            continue
        name, bounds = _parted(requirement)
        try:
            found = version(name)
        except PackageNotFoundError:
            yield Finding(
                "dependency", "wrong", f"{name}: expected {bounds or 'any version'}, found none; pip install {name}"
            )
            continue
        if not _within(found, bounds):
            yield Finding("dependency", "wrong", f"{name}: expected {bounds}, got {found}")
        versions.append(f"{name} {found}")
    yield Finding("dependencies", "ok", ", ".join(versions))


def _parted(requirement: str) -> tuple[str, str]:
    name = requirement.strip()
    end = next((i for i, letter in enumerate(name) if letter in "<>=!~ ("), len(name))
    return name[:end], name[end:].strip(" ()")


def _within(found: str, bounds: str) -> bool:
    def numbers(text: str) -> tuple[int, ...]:
        return tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in text.strip().split("."))

    have = numbers(found)
    for bound in filter(None, bounds.split(",")):
        mark = bound[:2] if bound[:2] in (">=", "<=", "==", "!=") else bound[:1]
        want = numbers(bound[len(mark) :])
        size = max(len(have), len(want))
        left, right = have + (0,) * (size - len(have)), want + (0,) * (size - len(want))
        holds = {
            ">=": left >= right,
            "<=": left <= right,
            "==": left == right,
            "!=": left != right,
            "<": left < right,
            ">": left > right,
        }
        if not holds[mark]:
            return False
    return True


def _packages() -> Iterator[Finding]:
    from importlib import import_module

    for package in buildcheck.PACKAGES:
        if package == "droveway":
            continue
        try:
            report = import_module(package).build_info()
        except Exception as error:  # a foreign package in the way can fail in any manner
            yield Finding(package, "wrong", f"{type(error).__name__}: {error}")
            continue
        yield Finding(package, "ok", ", ".join(f"{key} {value}" for key, value in report.items()))


def _disk() -> Iterator[Finding]:
    for label, folder in (("here", Path.cwd()), ("temporary", Path(tempfile.gettempdir()))):
        free = shutil.disk_usage(folder).free
        state: State = "ok" if free >= DISK_FREE_BYTES_MIN else "wrong"
        writable = "" if os.access(folder, os.W_OK) else ", not writable"
        yield Finding(
            "disk", "note" if writable and state == "ok" else state, f"{label}: {free / 2**30:.1f} GiB free{writable}"
        )


def _locks() -> Iterator[Finding]:
    import fcntl

    folder = Path.cwd() if os.access(Path.cwd(), os.W_OK) else Path(tempfile.gettempdir())
    with tempfile.TemporaryFile(dir=folder) as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.write(b"x")
            file.flush()
            os.fsync(file.fileno())
        except OSError as error:
            yield Finding("locks", "wrong", f"{folder}: locking or syncing a file failed: {error.strerror}")
            return
    yield Finding("locks", "ok", f"{folder}: files can be locked and synced")
