"""Drawing splat scenes against F3D: `python benchmarks/render.py [--scene FILE …] [--f3d-python PYTHON] [--save]`.

One thread; processor time of each process, loading left out. Both get the same splats (the scene saved as INRIA PLY
of degree 3, the only one that F3D 4.0 takes for splats), eye, target, up and field of view; both draw one frame to
warm up, then 20 further ones with the camera turned by 0.1° each around the target, in turns, and the figure is the
median of the turns. F3D sorts again only after a turn of 2.5°; the lines with 3° a frame make it sort each time.

The scenes are biker.compressed.ply and playbot (0_0) of splats/ in ../shared/data or $DROVEWAY_DATA, and those of
--scene. F3D is looked for in this environment (the bench extra) or in that of --f3d-python, and needs Mesa: Debian's
libegl1 libegl-mesa0 libgl1-mesa-dri libopengl0. Without it only our own lines are printed.

Guards, exit 1 when one fails: our picture against the float64 twin (256 × 256) at least 60 dB, F3D's picture against
ours at least 25 dB. --pictures FOLDER keeps what was compared.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness import Report, prepare

prepare()

import numpy as np  # noqa: E402
import numpy.typing as npt  # noqa: E402

from splat import Camera, RenderSettings, Scene, render  # noqa: E402
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
        pose = np.linalg.inv(camera.world_to_camera).astype(np.float64)
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


def decibels(a: npt.NDArray[Any], b: npt.NDArray[Any], *, everywhere: bool = False) -> float:
    """Peak signal-to-noise ratio of the colours of two pictures of 8 bits, 120 where they are equal.

    Unless `everywhere`, only of pixels that are not black in both: an empty background flatters.
    """
    a, b = a[..., :3].astype(np.float64), b[..., :3].astype(np.float64)
    drawn = (a > 0).any(axis=-1) | (b > 0).any(axis=-1) | everywhere
    error = np.mean((a - b)[drawn] ** 2) if drawn.any() else 0
    return 120.0 if error == 0 else 10 * math.log10(255 * 255 / error)


def against_twin(report: Report, name: str, scene: Scene) -> None:
    """Our bytes against those of a float64 rendering of the same view, 256 × 256."""
    from splat.render_f64_ref import render_f64

    camera = Camera.default(scene, 256, 256)
    exact = np.floor(255 * np.clip(render_f64(scene, camera), 0, 1) + 0.5)
    quality = decibels(exact, render(scene, camera).rgba)
    report.add(f"{name}, our picture against the float64 twin", quality, 60.0, "limit", "dB", "higher")


def against_f3d(report: Report, name: str, scene: Scene, python: str, pictures: Path) -> None:
    """Speed of both on the scene, in turns, and the pictures of both."""
    orbit = Orbit.of(scene)
    case = f"{name}, {len(scene):,} splats of degree {scene.degree}"
    with f3d(python, scene) as peer:
        for step, suffix, turns in ((0.1, "", TURNS), (3.0, ", turned by 3° a frame", 3)):
            angles = [step * number for number in range(1, FRAMES + 1)]
            cameras = [orbit.ours(angle) for angle in angles]
            theirs = [orbit.theirs(angle) for angle in angles]
            seconds: list[tuple[float, float]] = []
            for _ in range(turns):
                draw(scene, [orbit.ours(0.0)])
                mine = draw(scene, cameras)
                if peer is not None:
                    peer.frames([orbit.theirs(0.0)])
                    seconds.append((mine, peer.frames(theirs)["seconds"]))
                else:
                    seconds.append((mine, math.nan))
            ours, other = (FRAMES / statistics.median(each) for each in zip(*seconds, strict=True))
            if peer is not None:
                report.add(case + suffix, ours, other, "F3D 4.0", "frames/s", "higher")
            else:
                sys.stderr.write(f"{case}{suffix}: {ours:.1f} frames/s\n")
        if peer is not None:
            compare(report, name, scene, orbit, peer, pictures)
    stages(report, case, scene, orbit)
    two_threads(report, case, scene, orbit)


def stages(report: Report, case: str, scene: Scene, orbit: Orbit) -> None:
    """What each step of ours takes, by clocks around the functions that `render` calls."""
    spent = dict.fromkeys(("project", "depth_order", "bin_tiles", "blend"), 0.0)

    def clocked(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **named: Any) -> Any:
            start = time.process_time()
            try:
                return call(*arguments, **named)
            finally:
                spent[name] += time.process_time() - start

        return timed

    drawing = sys.modules[render.__module__]
    places = [(drawing, name) for name in spent]
    kept = [(module, name, getattr(module, name)) for module, name in places]
    try:
        for module, name, call in kept:
            setattr(module, name, clocked(name, call))
        total = draw(scene, [orbit.ours(0.1 * number) for number in range(1, FRAMES + 1)])
    finally:
        for module, name, call in kept:
            setattr(module, name, call)
    for name, seconds in spent.items():
        each, whole = 1000 * seconds / FRAMES, 1000 * total / FRAMES
        report.add(f"{case}, {name}", each, whole, "the whole frame", "ms", "lower")


def compare(report: Report, name: str, scene: Scene, orbit: Orbit, peer: F3d, pictures: Path) -> None:
    """F3D's picture against ours, the same view: as we draw by default, and with the little that F3D smooths."""
    from PIL import Image as Pillow

    file = pictures / f"{name}-f3d.png"
    peer.frames([orbit.theirs(0.0)], file)
    with Pillow.open(file) as opened:
        theirs = np.asarray(opened.convert("RGB"))
    for case, settings in (("", RenderSettings()), (" with its smoothing", RenderSettings(blur=0.075))):
        ours = render(scene, orbit.ours(0.0), settings)
        ours.save(pictures / f"{name}-ours{case.replace(' ', '-')}.png")
        whole = f"{name}, F3D's picture against ours{case}, whole picture"
        report.add(whole, decibels(theirs, ours.rgba, everywhere=True), 25.0, "limit", "dB", "higher")
    drawn = f"{name}, F3D's picture against ours with its smoothing, where either draws"
    report.add(drawn, decibels(theirs, ours.rgba), 25.0, "limit", "dB", "higher")


def two_threads(report: Report, case: str, scene: Scene, orbit: Orbit) -> None:
    """The wall clock of one and of two threads, in turns."""
    allowed = os.sched_getaffinity(0)
    every = set(range(os.cpu_count() or 1))
    cameras = [orbit.ours(0.1 * number) for number in range(1, FRAMES + 1)]
    walls: dict[int, list[float]] = {1: [], 2: []}
    try:
        os.sched_setaffinity(0, every)
        for _ in range(TURNS):
            for threads, taken in walls.items():
                _kernels.set_threads(threads)
                start = time.perf_counter()
                draw(scene, cameras)
                taken.append(time.perf_counter() - start)
    finally:
        _kernels.set_threads(1)
        os.sched_setaffinity(0, allowed)
    one, two = (FRAMES / statistics.median(taken) for taken in walls.values())
    report.add(f"{case}, two threads, wall clock", two, one, "ours, one thread", "frames/s", "higher")


def main() -> None:
    """All cases; exit 1 when a guard fails."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--scene", type=Path, action="append", default=[], help="a further scene")
    parser.add_argument("--f3d-python", default=sys.executable, help="the Python that has F3D")
    parser.add_argument("--pictures", type=Path, help="keep the compared pictures in this folder")
    report = Report("render", parser)
    asked = report.asked
    with tempfile.TemporaryDirectory() as name:
        pictures = asked.pictures or Path(name)
        pictures.mkdir(parents=True, exist_ok=True)
        scenes = {"biker": DATA / "splats" / "biker.compressed.ply", "playbot": DATA / "splats" / "0_0"}
        for title, path in (scenes | {path.stem: path for path in asked.scene}).items():
            scene = Scene.load(path)
            against_twin(report, title, scene)
            against_f3d(report, title, scene, asked.f3d_python, pictures)
    report.finish()
    failed = [line for line in map(json.loads, report.lines) if line["unit"] == "dB" and line["ratio"] < 1]
    if failed:
        sys.exit(f"guard failed: {', '.join(line['case'] for line in failed)}")


if __name__ == "__main__":
    main()
