"""Runs the tensor engine's digests on arm64: `python tests/arm64.py [--record]` (emulated by qemu, not silicon).

A CPython for arm64 comes from the packages of this Debian and numpy from its arm64 wheel, unpacked into a folder; our
`tensor._kernels` is cross-compiled for it; tests/engine_digest.py runs on it and compares every row of the registry
(all element types, four layouts) and the training of three models (four ways) with tests/golden.toml.
`--record` writes what came out to tests/arm64.toml, from where docs/primitives.md has its column arm64.

`--build DIR` says where everything is kept (default build/arm64); once it is there, no network is needed.
`--objects DIR` is a build folder to compile in: that of tests/selftest_targets.py has most objects already.
Exit: 0 equal, 1 a difference, 2 something that is needed is missing.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "tests" / "arm64.toml"
TOOLS = ("aarch64-linux-gnu-g++", "qemu-aarch64-static", "cmake", "ninja", "apt-get", "dpkg-deb")
PYTHON = f"python3.{sys.version_info.minor}"  # CMake wants the headers of the version that it runs
NEWEST_GLIBC = 45


class Missing(Exception):
    """Something is needed that this machine does not have; the text says what."""


def call(what: str, *command: str, cwd: Path | None = None, missing: bool = True) -> None:
    """Runs a command quietly; its output where it fails."""
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=cwd)
    if done.returncode != 0:
        text = f"{what}: {done.stdout.strip()[-2000:]}"
        if missing:
            raise Missing(text)
        sys.exit(text)


def system(folder: Path) -> Path:
    """The root of an arm64 system with Python and numpy, made where it is not there yet."""
    root = folder / "root"
    if (root / "complete").exists():
        return root
    shutil.rmtree(root, ignore_errors=True)
    state, cache = folder / "apt" / "state", folder / "apt" / "cache"
    (state / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    (cache / "archives" / "partial").mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    options = [
        *("-qq", "-o", f"Dir::State={state}", "-o", f"Dir::State::status={state / 'status'}"),
        *("-o", f"Dir::Cache={cache}", "-o", "APT::Architecture=arm64", "-o", "APT::Architectures=arm64"),
        *("-o", "APT::Sandbox::User=root", "-o", "Debug::NoLocking=1", "-o", "Acquire::Languages=none"),
    ]
    call("lists of arm64 packages", "apt-get", *options, "update")
    wanted = (f"{PYTHON}-minimal", f"lib{PYTHON}-stdlib", f"lib{PYTHON}-dev", "libstdc++6")
    fetch = ("install", "--download-only", "--yes", "--no-install-recommends", *wanted)
    call(f"{PYTHON} for arm64", "apt-get", *options, *fetch)
    root.mkdir(parents=True)
    for package in sorted((cache / "archives").glob("*.deb")):
        call(f"unpacking {package.name}", "dpkg-deb", "-x", str(package), str(root))
    for name in ("lib", "bin"):
        if not (root / name).exists():
            (root / name).symlink_to(Path("usr") / name)
    headers = root / "usr" / "include" / PYTHON  # its pyconfig.h asks for one beside it, by architecture
    shutil.copy(root / "usr" / "include" / "aarch64-linux-gnu" / PYTHON / "pyconfig.h", headers / "pyconfig.h")
    numpy(folder, root)
    shutil.rmtree(folder / "apt")
    (root / "complete").touch()
    return root


def numpy(folder: Path, root: Path) -> None:
    """Unpacks numpy's arm64 wheel."""
    import numpy as here

    platforms = [f"--platform=manylinux_2_{k}_aarch64" for k in range(17, NEWEST_GLIBC)]
    version = f"--python-version=3.{sys.version_info.minor}"
    command = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps")
    wanted = (*platforms, "--platform=manylinux2014_aarch64", version, "--only-binary=:all:")
    wheels = folder / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    call("numpy for arm64", *command, *wanted, f"--dest={wheels}", f"numpy=={here.__version__}")
    (wheel,) = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(root / "site")


def package(folder: Path, objects: Path, root: Path) -> Path:
    """A folder with our package `tensor` for arm64."""
    setup = ("cmake", "-S", str(ROOT), "-B", str(objects), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release")
    python = (f"-DPython_EXECUTABLE={sys.executable}", f"-DPython_INCLUDE_DIR={root / 'usr' / 'include' / PYTHON}")
    toolchain = f"-DCMAKE_TOOLCHAIN_FILE={ROOT / 'cmake' / 'aarch64.cmake'}"
    call("cmake", *setup, toolchain, "-DDROVEWAY_PYTHON=ON", "-DDROVEWAY_SELFTEST=OFF", *python, missing=False)
    call("compiling", "cmake", "--build", str(objects), "--target", "tensor_kernels", "-j", "2", missing=False)
    place = folder / "package"
    shutil.rmtree(place, ignore_errors=True)
    leave = shutil.ignore_patterns("kernels", "__pycache__", "*.so", "*.pyi")
    shutil.copytree(ROOT / "tensor", place / "tensor", ignore=leave)
    (module,) = (objects / "tensor").glob("_kernels*.so")  # named for the interpreter that CMake ran
    shutil.copy(module, place / "tensor" / "_kernels.so")
    return place


def run(root: Path, place: Path, *arguments: str) -> int:
    """Runs a Python file on the arm64 system; its exit code."""
    given = {
        "PYTHONPATH": f"{place}:{root / 'site'}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    settings = [word for name, value in given.items() for word in ("-E", f"{name}={value}")]
    settings += [word for name in ("DROVEWAY_ISA", "DROVEWAY_THREADS", "PYTHONSAFEPATH") for word in ("-U", name)]
    interpreter = root / "usr" / "bin" / PYTHON
    command = ["qemu-aarch64-static", "-L", str(root), *settings, str(interpreter), *arguments]
    return subprocess.run(command, check=False).returncode


def record(found: dict[str, dict[str, str]]) -> None:
    """Writes what came out."""
    lines = ["# Written by `python tests/arm64.py --record`: what the arm64 build gave, emulated."]
    for section in ("rows", "training"):
        lines += ["", f"[{section}]", *(f'"{name}" = "{value}"' for name, value in found[section].items())]
    RECORD.write_text("\n".join(lines) + "\n")


def main() -> int:
    """Sets up, builds, runs, compares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "arm64")
    parser.add_argument("--objects", type=Path, help="default: BUILD/objects")
    parser.add_argument("--record", action="store_true", help="write tests/arm64.toml")
    parser.add_argument("options", nargs="*", help="for tests/engine_digest.py, after --")
    asked = parser.parse_args()
    folder = asked.build.resolve()
    try:
        absent = [tool for tool in TOOLS if shutil.which(tool) is None]
        if absent:
            raise Missing(f"not installed: {', '.join(absent)}")
        root = system(folder)
    except Missing as reason:
        sys.stderr.write(f"arm64: {reason}\n")
        return 2
    place = package(folder, (asked.objects or folder / "objects").resolve(), root)
    kept = folder / "digests.json"
    kept.unlink(missing_ok=True)
    options = asked.options or ["--threads", "2"]
    code = run(root, place, str(ROOT / "tests" / "engine_digest.py"), *options, "--json", str(kept))
    if asked.record and kept.exists():
        record(json.loads(kept.read_text()))
        sys.stdout.write(f"{RECORD.relative_to(ROOT)}: written\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
