"""What the compiler made of the kernels: registers, symbols, libraries.

Reads the object files of the newest build folder of the checkout, and the installed modules. Without object files
(tests copied away from the build) these tests skip with the reason, or fail under DROVEWAY_DATA_REQUIRED=1.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from tensor import build_info

PACKAGES = ("tensor", "vector", "splat", "storage", "coord")
AREAS = [area for area in PACKAGES if find_spec(f"{area}._kernels") is not None]
X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="registers and levels of x86-64")
MATHS = re.compile(
    r"^(a?(sin|cos|tan)h?|exp(2|10|m1)?|log(2|10|1p|b)?|pow|fma|fmod|remainder|hypot|cbrt|erfc?|[tl]gamma|atan2|ldexp|"
    r"frexp|scalbl?n|nearbyint|rint|l?lrint|round|l?lround|trunc|floor|ceil|sqrt)[fl]?(@.*)?$"
    r"|^_ZGV|blas|gemm|lapack"
)


def output(*command: object) -> str:
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def objects(repository: Path):
    """objects(target): the object files of a CMake target in the newest plain build."""
    builds = []
    for cache in (repository / "build").glob("**/CMakeCache.txt"):
        text = cache.read_text()
        if "DROVEWAY_SANITIZE:BOOL=ON" not in text and (cache.parent / "CMakeFiles" / "tensor_selftest.dir").exists():
            builds.append(cache.parent)
    native = [
        build for build in builds if list(build.glob("CMakeFiles/tensor_v3.dir")) or platform.machine() != "x86_64"
    ]
    if not native:
        reason = f"no build folder with object files in {repository / 'build'}"
        if os.environ.get("DROVEWAY_DATA_REQUIRED") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    newest = max(native, key=lambda build: (build / ".ninja_log").stat().st_mtime)

    def find(target: str) -> list[Path]:
        found = sorted((newest / "CMakeFiles" / f"{target}.dir").glob("**/*.o"))
        assert found, f"no object files of {target} in {newest}"
        return found

    return find


@X86
@pytest.mark.parametrize("area", AREAS)
def test_wide_registers_appear_in_v4_and_nowhere_below(objects, area):
    def registers(target: str) -> set[str]:
        code = "".join(output("objdump", "-d", "--no-show-raw-insn", path) for path in objects(target))
        return set(re.findall(r"%([xyz]mm)\d", code))

    assert "zmm" not in registers(f"{area}_v3")
    assert registers(f"{area}_selftest") <= {"xmm"}
    if area != "storage":  # its kernels are integer hashes
        assert "zmm" in registers(f"{area}_v4")
        assert "ymm" in registers(f"{area}_v3")


@X86
@pytest.mark.parametrize("isa", ["v3", "v4"])
@pytest.mark.parametrize("area", AREAS)
def test_kernel_objects_define_nothing_outside_their_namespace(objects, area, isa):
    outside = []
    for path in objects(f"{area}_{isa}"):
        for line in output("nm", "-C", "--defined-only", path).splitlines():
            _, kind, name = line.split(maxsplit=2)
            if kind in "WVu" and f"isa_{isa}::" not in name:  # weak: the linker may keep this copy for everybody
                outside.append((path.name, line))
            if kind in "TBDR" and f"isa_{isa}::" not in name:
                outside.append((path.name, line))
    assert outside == []


@X86
@pytest.mark.parametrize("isa", ["v3", "v4"])
@pytest.mark.parametrize("area", AREAS)
def test_kernel_objects_call_nothing_but_the_pool_and_memory_moves(objects, area, isa):
    allowed = re.compile(rf"dw_\w+$|mem(cpy|set|move|cmp)$|_GLOBAL_OFFSET_TABLE_$|__stack_chk_fail$|.*isa_{isa}::")
    foreign = []
    for path in objects(f"{area}_{isa}"):
        names = [line.split(maxsplit=1)[1] for line in output("nm", "-C", "-u", path).splitlines()]
        foreign += [(path.name, name) for name in names if not allowed.match(name)]
    assert foreign == []


@pytest.mark.parametrize("area", AREAS)
def test_installed_modules_use_no_mathematics_library(area):
    spec = find_spec(f"{area}._kernels")
    assert spec is not None
    assert spec.origin is not None
    undefined = [line.split()[-1] for line in output("nm", "-D", "-u", spec.origin).splitlines()]
    # nanobind's hash table rounds its size: GCC writes that out, Clang calls it. No number of ours goes there.
    allowed = {"ceilf", "libm.so.6"} if "Clang" in str(build_info()["compiler"]) else set()
    assert {name.split("@")[0] for name in undefined if MATHS.search(name)} <= allowed
    needed = re.findall(r"NEEDED.*\[(.*)\]", output("readelf", "-d", spec.origin))
    libraries = re.compile(r"libm\.|lib(open)?blas|libmkl|libgomp|libmvec")
    assert {name for name in needed if libraries.match(name)} <= allowed
    assert "libdroveway_pool.so" in needed or area != "tensor"
