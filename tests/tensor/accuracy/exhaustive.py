"""Checks the float32 functions of one argument on all 2³² inputs: `python tests/tensor/accuracy/exhaustive.py [NAME …]`

Builds exhaustive.cpp with the kernels and compares with the C library's double functions, one function after the other,
one to three minutes each; pow on 2²⁸, float64 functions (exp64, log64, …) on 2²⁶ random inputs. What is done stays
in --build (default build/accuracy): an interrupted run goes on where it was, as long as no source changed. Prints one
JSON object a line; exit 1 if an error is above 1 ulp (above 1.5, the two roundings, for rsqrt) or a result is wrong in
kind.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import struct
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
KERNELS = ROOT / "tensor" / "kernels"
REQUIRED = ("exp", "log", "sin", "cos", "tanh", "erf", "sigmoid", "gelu", "sqrt")
FLOAT32 = (
    *(*REQUIRED, "silu", "exp2", "expm1", "log1p", "log2", "log10", "rsqrt", "tan", "asin", "acos", "atan"),
    *("sinh", "cosh", "asinh", "acosh", "atanh", "erfc", "softplus"),
)
FLOAT64 = tuple(f"{name}64" for name in FLOAT32 if name not in ("rsqrt", "gelu"))
NAMES = (*FLOAT32, "pow", *FLOAT64)
BLOCKS = 256  # of 2^24 inputs, of pow 2^20, of float64 functions 2^18
BOUNDS = {"rsqrt": 1.5}
# Functions whose float32 has a program of its own; the others are those of float64, rounded once more.
OWN_FLOAT32 = (*REQUIRED, "pow", "silu", "rsqrt")


def build(folder: Path) -> Path:
    """The program of exhaustive.cpp, linked with the self-test's kernel objects."""
    setup = ["cmake", "-S", str(ROOT), "-B", str(folder / "kernels"), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"]
    make = ["cmake", "--build", str(folder / "kernels"), "--target", "droveway_selftest", "-j", "2"]
    for command in ([*setup, "-DDROVEWAY_PYTHON=OFF", "-DDROVEWAY_SELFTEST=ON"], make):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    objects = sorted((folder / "kernels" / "CMakeFiles").glob("tensor_*.dir/**/*.o"))
    program = folder / "exhaustive"
    sources = [Path(__file__).with_suffix(".cpp"), *objects, *(folder / "kernels").glob("*pool*.a")]
    flags = ["-std=c++20", "-O2", "-pthread", f"-I{KERNELS}", f"-I{KERNELS / 'include'}"]
    subprocess.run(["c++", *flags, *map(str, sources), "-o", str(program)], check=True)
    return program


def sources_digest(name: str) -> str:
    """Names what is measured: results of other sources are not taken over."""
    include = KERNELS / "include" / "droveway"
    files = [include / "lanes.hpp", include / "polynomial.hpp", *sorted(include.glob("registers_*.hpp"))]
    if name in OWN_FLOAT32:
        files += [include / header for header in ("lookup.hpp", "math_f32.hpp", "math_activation.hpp")]
    else:
        files += [include / "double_double.hpp", *sorted(include.glob("math_*.hpp"))]
    files.append(Path(__file__).with_suffix(".cpp"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


def measure(program: Path, name: str, state: Path) -> list[list[str]]:
    """The lines of all blocks; those that `state` has already are not computed again."""
    done = [line.split() for line in state.read_text().splitlines()] if state.exists() else []
    done = [fields for fields in done if len(fields) == 5]
    if len(done) < BLOCKS:
        state.write_text("".join(" ".join(fields) + "\n" for fields in done))
        with state.open("a") as out:
            subprocess.run([str(program), name, str(len(done)), str(BLOCKS)], check=True, stdout=out)
        done = [line.split() for line in state.read_text().splitlines()]
    return done


def main() -> int:
    """Build, measure, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=" ".join(NAMES))
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "accuracy")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(NAMES)
    if unknown:
        parser.error(f"no such function: {', '.join(sorted(unknown))}")
    arguments.build.mkdir(parents=True, exist_ok=True)
    program = build(arguments.build)
    failed = False
    for name in arguments.names or NAMES:
        lines = measure(program, name, arguments.build / f"{name}-{sources_digest(name)}.txt")
        worst = max(lines, key=lambda fields: float(fields[1]))
        wrong = sum(int(fields[4]) for fields in lines)
        (at,) = struct.unpack("<f", struct.pack("<I", int(worst[2], 16)))
        report = {
            "function": name,
            "inputs": len(lines) << (18 if name in FLOAT64 else 20 if name == "pow" else 24),
            "ulp_max": float(worst[1]),
            "at": at,
            "not_nearest": sum(int(fields[3]) for fields in lines),
            "wrong_kind": wrong,
        }
        sys.stdout.write(json.dumps(report) + "\n")
        sys.stdout.flush()
        failed |= float(worst[1]) > BOUNDS.get(name, 1) or wrong > 0 or len(lines) != BLOCKS
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
