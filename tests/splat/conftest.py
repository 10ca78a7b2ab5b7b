"""What tests of splat share: recorded scenes, scenes at random, files made by hand."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import settings

from splat import Scene

settings.register_profile("untimed", deadline=None)  # a loaded machine is no failure
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def golden_scenes(repository: Path) -> SimpleNamespace:
    """tests/golden_scenes.py."""
    return SimpleNamespace(**runpy.run_path(str(repository / "tests" / "golden_scenes.py")))


@pytest.fixture(scope="session")
def make_scene() -> Callable[..., Scene]:
    """make_scene(n, degree, seed): a random scene."""
    return random_scene


def random_scene(n: int = 3, degree: int = 1, seed: int = 0) -> Scene:
    rng = np.random.default_rng(seed)
    quats = rng.normal(size=(n, 4))
    return Scene(
        means=rng.normal(size=(n, 3)).astype(np.float32),
        log_scales=rng.normal(size=(n, 3)).astype(np.float32),
        quats=(quats / np.linalg.norm(quats, axis=1, keepdims=True)).astype(np.float32),
        opacities=rng.uniform(0.01, 0.99, n).astype(np.float32),
        sh=rng.normal(size=(n, (degree + 1) ** 2, 3)).astype(np.float32),
    )


@pytest.fixture(scope="session")
def make_ply() -> Callable[..., bytes]:
    """make_ply(columns, form=…, types=…, comments=…, newline=…): a PLY file with an element vertex of these columns."""
    return ply_bytes


def ply_bytes(
    columns: dict[str, np.ndarray],
    form: str = "binary_little_endian",
    types: dict[str, str] | None = None,
    newline: str = "\n",
    comments: tuple[str, ...] = (),
) -> bytes:
    kinds = {"float": "f4", "double": "f8", "uchar": "u1", "int": "i4", "uint": "u4"}
    named = {name: (types or {}).get(name, "float") for name in columns}
    n = len(next(iter(columns.values())))
    lines = ["ply", f"format {form} 1.0", *comments, f"element vertex {n}"]
    lines += [f"property {kind} {name}" for name, kind in named.items()] + ["end_header", ""]
    order = ">" if form == "binary_big_endian" else "<"
    rows = np.empty(n, [(name, order + kinds[kind]) for name, kind in named.items()])
    for name, values in columns.items():
        rows[name] = values
    if form == "ascii":
        body = "".join(" ".join(repr(value.item()) for value in row) + newline for row in rows).encode()
    else:
        body = rows.tobytes()
    return newline.join(lines).encode() + body


@pytest.fixture(scope="session")
def inria_columns() -> Callable[..., dict[str, np.ndarray]]:
    """inria_columns(n, degree, seed): random columns of an INRIA .ply without normals, in the usual order."""
    return random_columns


def random_columns(n: int = 3, degree: int = 1, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    rest = 3 * ((degree + 1) ** 2 - 1)
    names = ["x", "y", "z", *(f"f_dc_{i}" for i in range(3)), *(f"f_rest_{i}" for i in range(rest)), "opacity"]
    names += [f"scale_{i}" for i in range(3)] + [f"rot_{i}" for i in range(4)]
    return {name: rng.normal(size=n).astype(np.float32) for name in names}


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., Scene]:
    """load(data, name, **options): Scene.load of a file with these bytes."""

    def read(data: bytes, name: str = "a.ply", **options: object) -> Scene:
        (tmp_path / name).write_bytes(data)
        return Scene.load(tmp_path / name, **options)  # type: ignore[arg-type]

    return read


@pytest.fixture(scope="session")
def golden_pictures(repository: Path) -> SimpleNamespace:
    """tests/golden_pictures.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(repository / "tests"))
        return SimpleNamespace(**runpy.run_path(str(repository / "tests" / "golden_pictures.py")))


@pytest.fixture(scope="session")
def make_cloud() -> Callable[..., Scene]:
    """make_cloud(n, degree, seed, scale=…, spread=…): splats around the origin, log scales around `scale`."""
    return random_cloud


def random_cloud(n: int, degree: int = 0, seed: int = 0, *, scale: float = -3.0, spread: float = 1.0) -> Scene:
    rng = np.random.default_rng(seed)
    quats = rng.normal(size=(n, 4))
    return Scene(
        means=rng.normal(size=(n, 3)).astype(np.float32),
        log_scales=(scale + spread * rng.normal(size=(n, 3))).astype(np.float32),
        quats=(quats / np.linalg.norm(quats, axis=1, keepdims=True)).astype(np.float32),
        opacities=rng.random(n).astype(np.float32),
        sh=(0.5 * rng.normal(size=(n, (degree + 1) ** 2, 3))).astype(np.float32),
    )
