"""Drawing splat scenes against F3D: `python benchmarks/render.py [--scene FILE …] [--f3d-python PYTHON] [--save]`.

One thread; processor time of each process, loading left out. Both get the same splats (the scene saved as INRIA PLY
of degree 3, the only one that F3D 4.0 takes for splats), eye, target, up and field of view; both draw one frame to
warm up, then 20 further ones with the camera turned by 0.1° each around the target, in turns, and the figure is the
median of the turns. F3D sorts again only after a turn of 2.5°; the lines with 3° a frame make it sort each time.

The default scene is biker.compressed.ply of ../shared/data or $DROVEWAY_DATA. F3D is looked for in this environment
(the bench extra) or in that of --f3d-python, and needs Mesa: Debian's libegl1 libegl-mesa0 libgl1-mesa-dri libopengl0.
Without it only our own lines are printed. Guards, exit 1 when one fails: our picture against the float64 twin (256 ×
256) at least 60 dB, F3D's picture against ours at least 25 dB. --pictures FOLDER keeps what was compared.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness import Report, prepare

prepare()

import numpy as np  # noqa: E402
import numpy.typing as npt  # noqa: E402

from splat import Camera, Image, RenderSettings, Scene, render  # noqa: E402
from tensor import _kernels  # noqa: E402

FOLDER = Path(__file__).resolve().parent
BESIDE = [folder / "shared" / "data" for folder in FOLDER.parents[1:3]]
DATA = Path(os.environ.get("DROVEWAY_DATA") or next((folder for folder in BESIDE if folder.is_dir()), BESIDE[0]))
WIDTH, HEIGHT, FOV_DEG, FRAMES, TURNS = 1280, 720, 50.0, 20, 5
UP = (0.0, -1.0, 0.0)
Vector = tuple[float, float, float]


@dataclasses.dataclass(frozen=True)
class Orbit:
    """The views around a scene: those of the default camera, turned around its target."""

    eye: npt.NDArray[np.float64]
    target: npt.NDArray[np.float64]

    @staticmethod
    def of(scene: Scene) -> Orbit:
        """Eye and target of the scene's default camera (specified as looking along +z)."""
        camera = Camera.default(scene, WIDTH, HEIGHT)
        pose = np.linalg.inv(camera.world_to_camera)
        middle = np.median(scene.means.astype(np.float64), axis=0)
        return Orbit(pose[:3, 3], pose[:3, 3] + pose[:3, 2] * ((middle - pose[:3, 3]) @ pose[:3, 2]))

    def view(self, degrees: float) -> tuple[Vector, Vector]:
        """(eye, target) after a turn around the vertical axis through the target."""
        angle = math.radians(degrees)
        x, y, z = self.eye - self.target
        turned = (math.cos(angle) * x + math.sin(angle) * z, y, math.cos(angle) * z - math.sin(angle) * x)
        return _vector(np.array(turned) + self.target), _vector(self.target)

    def ours(self, degrees: float, width: int = WIDTH, height: int = HEIGHT) -> Camera:
        """The view as our camera."""
        eye, target = self.view(degrees)
        return Camera.look_at(eye, target, up=UP, fov_y_deg=FOV_DEG, width=width, height=height)

    def theirs(self, degrees: float) -> dict[str, Any]:
        """The view as f3d_frames.py wants it."""
        eye, target = self.view(degrees)
        return {"eye": eye, "target": target, "up": UP, "fov_deg": FOV_DEG}


def _vector(values: npt.NDArray[np.float64]) -> Vector:
    x, y, z = (float(value) for value in values)
    return x, y, z


class F3d:
    """F3D in a process of its own, with one scene."""

    def __init__(self, python: str, scene: Path) -> None:
        command = [python, str(FOLDER / "f3d_frames.py"), str(scene), str(WIDTH), str(HEIGHT)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def frames(self, cameras: list[dict[str, Any]], picture: Path | None = None) -> dict[str, float]:
        """Draw them: {"seconds": …, "peak_mb": …} of all of them."""
        asked = {"cameras": cameras} | ({"picture": str(picture)} if picture else {})
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"F3D ended with {self._process.wait()}: is Mesa there (see the top of render.py)?")
        return dict(json.loads(answer))

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@contextmanager
def f3d(python: str, scene: Scene) -> Iterator[F3d | None]:
    """F3D with the scene padded to degree 3, or None where F3D is absent."""
    absent = subprocess.run([python, "-c", "import f3d"], check=False, capture_output=True).returncode != 0
    if absent:
        sys.stderr.write(f"F3D is left out: {python} has none (pip install '.[bench]')\n")
        yield None
        return
    padded = np.zeros((len(scene), 16, 3), np.float32)
    padded[:, : scene.sh.shape[1]] = scene.sh
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scene.ply"
        dataclasses.replace(scene, sh=padded).save(path)
        peer = F3d(python, path)
        try:
            yield peer
        finally:
            peer.close()


def draw(scene: Scene, cameras: list[Camera]) -> float:
    """Processor seconds of drawing them."""
    start = time.process_time()
    for camera in cameras:
        render(scene, camera)
    return time.process_time() - start


def decibels(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> float:
    """Peak signal-to-noise ratio of two pictures of 8 bits, colours only."""
    error = np.mean((a[..., :3].astype(np.float64) - b[..., :3].astype(np.float64)) ** 2)
    return float("inf") if error == 0 else 10 * math.log10(255 * 255 / error)
