"""Real inputs for tests of coord: `../shared/data` beside the checkout, or `$DROVEWAY_DATA`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_maps() -> Path:
    """The folder of MovingAI maps; skips with the reason where it is absent."""
    root = Path(os.environ.get("DROVEWAY_DATA") or Path(__file__).parents[3] / "shared" / "data")
    if not (root / "maps").is_dir():
        if os.environ.get("DROVEWAY_DATA_REQUIRED") == "1":
            pytest.fail(f"real inputs are required, and {root / 'maps'} is absent")
        pytest.skip(f"real inputs are absent: {root / 'maps'}")
    return root / "maps"
