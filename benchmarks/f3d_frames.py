"""F3D draws frames of a splat scene and says what they cost; render.py starts this in a process of its own.

    python benchmarks/f3d_frames.py SCENE.ply WIDTH HEIGHT

Reads JSON objects from stdin, answers each with one on stdout. {"cameras": [{"eye", "target", "up", "fov_deg"}, …]}
draws a frame for each and answers {"seconds": processor time of this process, all threads, "peak_mb": …};
with "picture": FILE the last frame is saved as well, outside of the time.

F3D draws on Mesa's llvmpipe through EGL, without a screen. Its settings are those that its own presets choose for
splat files (gaussian sprites of absolute size 1, colours as they are, no tone mapping, black), with the sort on the
CPU: the one in a compute shader gives the same picture and costs 17 times as much on llvmpipe.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ["LP_NUM_THREADS"] = "0"  # llvmpipe draws in the calling thread


def engine(scene: str, width: int, height: int) -> Any:
    """An engine without a screen that holds the scene."""
    import f3d

    made = f3d.Engine.create_egl()
    for name, value in {
        "model.point_sprites.type": "gaussian",
        "model.point_sprites.size": 1.0,
        "model.point_sprites.absolute_size": True,
        "model.coloring": "direct",
        "model.scivis.array_name": "color",
        "render.effect.blending.mode": "sort_cpu",
        "render.background.color": [0.0, 0.0, 0.0],
        "ui.loader_progress": False,
    }.items():
        made.options[name] = value
    made.window.size = (width, height)
    made.scene.add(scene)
    return made


def look(window: Any, camera: dict[str, Any]) -> None:
    """Move the camera."""
    import f3d

    state = f3d.CameraState()
    state.position = tuple(camera["eye"])
    state.focal_point = tuple(camera["target"])
    state.view_up = tuple(camera["up"])
    state.view_angle = camera["fov_deg"]
    window.camera.state = state


def peak_mb() -> float:
    """VmHWM of this process."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines["VmHWM"].split()[0]) / 1024


def main() -> None:
    """Serve until stdin ends. stdout belongs to the answers, so F3D's own messages go to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    drawing = engine(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))  # a window doesn't keep its engine alive
    window = drawing.window
    for line in sys.stdin:
        asked = json.loads(line)
        start = time.process_time()
        for camera in asked["cameras"]:
            look(window, camera)
            window.render()
        seconds = time.process_time() - start
        if "picture" in asked:
            window.render_to_image().save(asked["picture"])
        answers.write(json.dumps({"seconds": seconds, "peak_mb": peak_mb()}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
