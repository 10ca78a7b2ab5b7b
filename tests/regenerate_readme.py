"""Writes what README.md shows, the outputs and the picture: `python tests/regenerate_readme.py`.

After `python tests/regenerate_golden.py` and a new install, so that the demo knows the recorded root. The picture is
the demo's, pixel for pixel: the root stands for it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PICTURE = ROOT / "docs" / "pictures" / "warehouse.png"
TEXT = re.compile(r"^```text\n.*?^```", re.MULTILINE | re.DOTALL)


def printed(*arguments: str) -> str:
    """What a Python process prints, in an empty folder, away from the clone."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONSAFEPATH": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    return done.stdout


def write_texts() -> None:
    """The two blocks of output in README.md."""
    text = README.read_text()
    (code,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    outputs = iter((printed("-m", "droveway", "demo"), printed("-c", code)))
    README.write_text(TEXT.sub(lambda _: f"```text\n{next(outputs)}```", text))


def write_picture() -> None:
    """Render, and write every pixel as it is."""
    from droveway import demo

    with tempfile.TemporaryDirectory() as folder:
        demo.draw_scene(Path(folder))
        with Image.open(Path(folder) / demo.PICTURE) as image:
            PICTURE.parent.mkdir(exist_ok=True)
            image.save(PICTURE, optimize=True)
    sys.stdout.write(f"{PICTURE.name}: {PICTURE.stat().st_size} bytes\n")


if __name__ == "__main__":
    write_texts()
    write_picture()
