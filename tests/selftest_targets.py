"""Builds the standalone self-test for every target and compares all digests: `python tests/selftest_targets.py`.

Targets: this machine's builds (v3, v4) with 1, 2, 3 and 7 threads, with and without a hostile floating-point mode;
arm64, cross-compiled and emulated by qemu (emulated, not silicon); an emulated AVX2 processor, on which a single
AVX-512 instruction in shared code would crash, and an emulated one without AVX2, which must be refused. Each list must
equal [selftest] of tests/golden.toml, which comes from the Python twins. Where Clang 15 or newer is installed, its
build is compared too.
`--native` leaves emulation and Clang out, `--build DIR` says where to build (default build/selftest).
Exit: 0 equal, 1 a difference, 2 a tool is missing.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
THREADS = (1, 2, 3, 7)


def build(folder: Path, *options: str) -> Path:
    """Configure and build the program in `folder`; returns its path."""
    setup = ["cmake", "-S", str(ROOT), "-B", str(folder), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"]
    make = ["cmake", "--build", str(folder), "--target", "droveway_selftest", "-j", "2"]
    for command in ([*setup, "-DDROVEWAY_PYTHON=OFF", "-DDROVEWAY_SELFTEST=ON", *options], make):
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            sys.exit(done.stdout)
    return folder / "droveway_selftest"


def clang() -> str | None:
    """The newest Clang here that is new enough for the kernels."""
    for name in (*(f"clang++-{version}" for version in range(25, 14, -1)), "clang++"):
        if shutil.which(name) is not None:
            version = subprocess.run([name, "-dumpversion"], check=True, capture_output=True, text=True).stdout
            if int(version.split(".")[0]) >= 15:
                return name
    return None


def digests(*command: str) -> dict[str, str]:
    """What a self-test program prints."""
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return dict(line.split() for line in text.splitlines())


def levels() -> list[str]:
    """The builds that this machine can run natively."""
    if platform.machine() in {"aarch64", "arm64"}:
        return ["neon"]
    flags = Path("/proc/cpuinfo").read_text()
    return (
        ["v3", "v4"]
        if all(f" {flag} " in flags for flag in ("avx512f", "avx512bw", "avx512dq", "avx512vl"))
        else ["v3"]
    )


def differences(name: str, found: dict[str, str], golden: dict[str, str]) -> int:
    """Print how `found` differs from the golden digests; returns how often."""
    wrong = [key for key in sorted(found.keys() | golden.keys()) if found.get(key) != golden.get(key)]
    for key in wrong:
        sys.stdout.write(
            f"{name}: {key}: expected {golden.get(key, 'no such kernel')}, got {found.get(key, 'nothing')}\n"
        )
    sys.stdout.write(f"{name}: {len(found)} digests, {len(wrong)} different\n")
    return len(wrong)


def native(program: str, title: str, golden: dict[str, str]) -> int:
    """The builds of this machine with several numbers of threads, and in a hostile mode; returns the differences."""
    wrong = 0
    for level in levels():
        for threads in THREADS:
            found = digests(program, "--isa", level, "--threads", str(threads))
            wrong += differences(f"{title}{level}, {threads} threads", found, golden)
        found = digests(program, "--isa", level, "--threads", "2", "--hostile", "1")
        wrong += differences(f"{title}{level}, flush-to-zero and round-up set by the host", found, golden)
    return wrong


def second_compiler(folder: Path, golden: dict[str, str]) -> int:
    """Clang's build of the program, where there is one; returns the differences."""
    name = clang()
    if name is None:
        sys.stdout.write("no Clang 15 or newer: the builds of two compilers are not compared\n")
        return 0
    return native(str(build(folder, f"-DCMAKE_CXX_COMPILER={name}")), f"{name}, ", golden)


def older_processors(program: str, folder: Path, golden: dict[str, str]) -> int:
    """The program and the installed package on emulated x86 processors; returns the number of surprises."""
    wrong = 0

    def emulated(cpu: str, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["qemu-x86_64-static", "-cpu", cpu, *command],
            check=False,
            capture_output=True,
            text=True,
            cwd=folder,
            env={**os.environ, **environment},
        )

    def expect(what: str, found: str, expected: str) -> int:
        good = found == expected
        sys.stdout.write(f"{what}: {found}\n" if good else f"{what}: expected {expected!r}, got {found!r}\n")
        return not good

    text = emulated("Haswell", program).stdout
    wrong += differences("AVX2 processor (emulated)", dict(line.split() for line in text.splitlines()), golden)
    wrong += expect("no AVX2 (emulated), exit code", str(emulated("Nehalem", program).returncode), "2")
    ask = (sys.executable, "-c", "import tensor; print(tensor.build_info()['isa'])")
    wrong += expect("build on an AVX2 processor", emulated("Haswell", *ask).stdout.strip(), "v3")
    for cpu, isa, sentence in (
        (
            "Haswell",
            "v4",
            "DROVEWAY_ISA=v4 needs a CPU with x86-64-v4, and this one has v3: unset it, or set DROVEWAY_ISA=ref",
        ),
        (
            "Nehalem",
            "",
            "droveway needs a CPU with x86-64-v3 (AVX2, FMA), and this one has nothing above x86-64-v2: set "
            "DROVEWAY_ISA=ref to run the Python twins (slow, the same bits)",
        ),
    ):
        error = emulated(cpu, *ask, DROVEWAY_ISA=isa).stderr.strip().splitlines()[-1]
        wrong += expect(f"DROVEWAY_ISA={isa} on {cpu}", error, f"ImportError: {sentence}")
    return wrong


def main() -> int:
    """Build, run, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--native", action="store_true", help="leave the emulated processors and Clang out")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "selftest")
    arguments = parser.parse_args()
    tools = ["cmake", "ninja"] + ([] if arguments.native else ["aarch64-linux-gnu-g++", "qemu-aarch64-static"])
    x86 = platform.machine() == "x86_64"
    if x86 and not arguments.native:
        tools.append("qemu-x86_64-static")
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        sys.stderr.write(f"selftest_targets: not installed: {', '.join(missing)}\n")
        return 2

    golden = tomllib.loads((ROOT / "tests" / "golden.toml").read_text())["selftest"]
    os.environ.pop("DROVEWAY_THREADS", None)
    wrong = 0
    program = str(build(arguments.build / "native"))
    wrong += native(program, "", golden)
    if not arguments.native:
        wrong += second_compiler(arguments.build / "clang", golden)
    if x86 and not arguments.native:
        wrong += older_processors(program, arguments.build, golden)
    if not arguments.native:
        toolchain = f"-DCMAKE_TOOLCHAIN_FILE={ROOT / 'cmake' / 'aarch64.cmake'}"
        program = str(build(arguments.build / "aarch64", toolchain))
        for threads, hostile in ((1, "0"), (3, "1")):
            found = digests("qemu-aarch64-static", program, "--threads", str(threads), "--hostile", hostile)
            wrong += differences(f"arm64 (emulated), {threads} threads, hostile mode {hostile}", found, golden)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
