"""Draw a captured scene: `python draw_scene.py SCENE WIDTH HEIGHT`."""

import sys
from pathlib import Path

from splat import Camera, Scene
from splat.rendering import render_last

width, height = int(sys.argv[2]), int(sys.argv[3])
scenes = [Scene.load(Path(sys.argv[1]))]
count = len(scenes[0].means)
image = render_last(scenes, Camera.default(scenes[0], width, height))  # the scene's memory is the picture's
print(f"{count:,} splats, {image.visible:,} of them seen, picture {image.digest()[:16]}")
