"""How the compiled part comes into a process: choice of the build, environment variables, what an import costs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tensor
from tensor import _kernels

SENTENCE = (
    "this is the source folder of droveway's package 'tensor', which has no built '_kernels': "
    "leave the folder, or run: pip install -e ."
)


def last_line(done) -> str:
    assert done.returncode == 1, done.stdout
    return done.stderr.strip().splitlines()[-1]


def import_from(folder: Path) -> subprocess.CompletedProcess[str]:
    """`import tensor` with nothing but `folder` and the standard library on the path."""
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); import tensor"
    return subprocess.run([sys.executable, "-I", "-S", "-c", code], check=False, capture_output=True, text=True)


def test_a_source_folder_without_kernels_says_how_to_mend_it(repository, tmp_path):
    shutil.copytree(
        repository / "tensor", tmp_path / "tensor", ignore=shutil.ignore_patterns("_kernels*", "__pycache__")
    )
    assert last_line(import_from(tmp_path)) == f"ImportError: {SENTENCE}"


@pytest.mark.parametrize(
    ("kernels", "text"),
    [
        ("import no_such_module_anywhere", "ModuleNotFoundError: No module named 'no_such_module_anywhere'"),
        ("raise ImportError('libdroveway_pool.so: cannot open')", "ImportError: libdroveway_pool.so: cannot open"),
    ],
)
def test_kernels_that_are_there_but_broken_are_not_called_missing(repository, tmp_path, kernels, text):
    shutil.copytree(
        repository / "tensor", tmp_path / "tensor", ignore=shutil.ignore_patterns("_kernels*", "__pycache__")
    )
    (tmp_path / "tensor" / "_kernels.py").write_text(kernels)
    assert last_line(import_from(tmp_path)) == text


@pytest.mark.parametrize(
    ("best", "want", "text"),
    [
        ("v4", "v9", "DROVEWAY_ISA=v9 is not a build of droveway: expected v3, v4 or ref (this CPU has v4)"),
        ("v3", "neon", "DROVEWAY_ISA=neon is not a build of droveway: expected v3, v4 or ref (this CPU has v3)"),
        ("neon", "v3", "DROVEWAY_ISA=v3 is not a build of droveway: expected neon or ref (this CPU has neon)"),
        (
            "v3",
            "v4",
            "DROVEWAY_ISA=v4 needs a CPU with x86-64-v4, and this one has v3: unset it, or set DROVEWAY_ISA=ref",
        ),
        (
            "ref",
            "v3",
            "DROVEWAY_ISA=v3 needs a CPU with x86-64-v3, and this one has nothing above x86-64-v2: unset it, or set "
            "DROVEWAY_ISA=ref",
        ),
        (
            "ref",
            "",
            "droveway needs a CPU with x86-64-v3 (AVX2, FMA), and this one has nothing above x86-64-v2: set "
            "DROVEWAY_ISA=ref to run the Python twins (slow, the same bits)",
        ),
    ],
)
def test_an_impossible_build_is_refused_in_one_sentence(best, want, text):
    with pytest.raises(ImportError) as caught:
        _kernels.select_isa(best, want)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("best", "want", "expected"),
    [("v4", "", "v4"), ("v4", "v3", "v3"), ("v3", "", "v3"), ("ref", "ref", "ref"), ("neon", "", "neon")],
)
def test_the_build_is_the_best_one_or_the_one_asked_for(best, want, expected):
    assert _kernels.select_isa(best, want) == expected


def test_an_unknown_build_stops_the_import(python):
    done = python("import tensor", DROVEWAY_ISA="v9")
    expected = f"expected v3, v4 or ref (this CPU has {_kernels.isa_best()})"
    if _kernels.isa_best() == "neon":
        expected = "expected neon or ref (this CPU has neon)"
    assert last_line(done) == f"ImportError: DROVEWAY_ISA=v9 is not a build of droveway: {expected}"


@pytest.mark.parametrize("value", ["0", "abc", "-1", "1025", " 2", "2.0", "99999999999999999999"])
def test_a_wrong_number_of_threads_stops_the_import(python, value):
    assert last_line(python("import tensor", DROVEWAY_THREADS=value)) == (
        f"ImportError: DROVEWAY_THREADS={value} is not a number of threads: expected a whole number from 1 to 1024"
    )


@pytest.mark.parametrize("value", ["1", "1024"])
def test_the_number_of_threads_is_taken_from_the_environment(python, value):
    assert python("import tensor; print(tensor.build_info()['threads'])", DROVEWAY_THREADS=value).stdout == f"{value}\n"


def test_threads_default_to_the_cpus_the_process_may_use(python):
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); import tensor; print(tensor.build_info())"
    )
    assert "'threads': 1" in python(code).stdout


@pytest.mark.parametrize("isa", ["v3", "v4", "neon", "ref"])
def test_build_info_names_the_build_that_was_asked_for(python, isa):
    done = python("import tensor; print(tensor.build_info()['isa'])", DROVEWAY_ISA=isa)
    available = {"v4": ["v3", "v4"], "v3": ["v3"], "neon": ["neon"]}[_kernels.isa_best()] + ["ref"]
    if isa in available:
        assert done.stdout == f"{isa}\n"
    else:
        assert last_line(done).startswith(f"ImportError: DROVEWAY_ISA={isa} ")


def test_importing_tensor_loads_no_numpy_and_starts_no_thread(python):
    code = """
import sys, tensor
print([name for name in ("numpy", "scipy", "rocksdict", "PIL", "cryptography", "lmdb") if name in sys.modules])
print(tensor._kernels.workers_started(), tensor._kernels.self_test(tensor.build_info()["isa"]) != {})
print(sorted(name for name in dir(tensor) if name == "reduction"), "numpy" in sys.modules)
"""
    done = python(code)
    assert done.stdout == "[]\n0 True\n['reduction'] False\n", done.stderr


def test_every_public_name_of_tensor_exists():
    for name in tensor.__all__:
        assert hasattr(tensor, name)
        assert name in dir(tensor)
    with pytest.raises(AttributeError, match=r"^module 'tensor' has no attribute 'nonsense'$"):
        _ = tensor.nonsense


def test_typed_stubs_and_the_pool_library_stand_beside_the_kernels():
    folder = Path(_kernels.__file__).parent
    stub = (folder / "_kernels.pyi").read_text()
    assert "def matmul_f32(" in stub
    assert "def self_test(isa: str)" in stub
    assert (folder / "libdroveway_pool.so").exists()
    assert (Path(tensor.__file__).parent / "py.typed").exists()


def test_the_self_test_refuses_a_build_that_is_not_there():
    with pytest.raises(ValueError, match=r"^self_test: isa must be a build that this CPU has, got 'v9'$"):
        _kernels.self_test("v9")
