"""What tests of splat share: hex blocks of the format pages, recorded scenes, scenes at random, files made by hand."""

from __future__ import annotations

import re
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
def page_hex(repository: Path) -> Callable[[str, str], bytes]:
    """page_hex("splat", "splat"): the bytes of the block ```hex splat in docs/formats/splat.md."""

    def read(page: str, name: str) -> bytes:
        text = (repository / "docs" / "formats" / f"{page}.md").read_text()
        found = re.search(rf"```hex {name}\n(.*?)```", text, re.DOTALL)
        assert found is not None
        return bytes.fromhex(found[1])

    return read


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
