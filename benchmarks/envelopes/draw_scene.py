"""Draw a captured scene: `python draw_scene.py SCENE WIDTH HEIGHT`."""

import sys
from pathlib import Path

from splat import Camera, RenderSettings, Scene, render

width, height = int(sys.argv[2]), int(sys.argv[3])
scene = Scene.load(Path(sys.argv[1]))
image = render(scene, Camera.default(scene, width, height), RenderSettings())
print(f"{len(scene.means):,} splats, {image.visible:,} of them seen, picture {image.digest()[:16]}")
