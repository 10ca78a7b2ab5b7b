"""Writes docs/pictures/warehouse.png, the picture of the README: `python tests/regenerate_picture.py`.

It is the demo's, in 256 colours: full colour would be three times as large.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from PIL import Image

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "warehouse.png"
COLOURS = 256


def main() -> None:
    """Render, reduce the colours, write."""
    from droveway import demo

    with tempfile.TemporaryDirectory() as folder:
        demo.draw_scene(Path(folder))
        with Image.open(Path(folder) / demo.PICTURE) as image:
            reduced = image.convert("RGB").quantize(COLOURS, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    PICTURE.parent.mkdir(exist_ok=True)
    reduced.save(PICTURE, optimize=True)
    sys.stdout.write(f"{PICTURE.name}: {PICTURE.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
