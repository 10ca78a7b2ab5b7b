"""`droveway render SCENE -o a.png`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from droveway import exits
from droveway.exits import InputProblem, UsageProblem, quoted, reading
from droveway.main import PATH, WholeNumber
from droveway.main import command as declare
from droveway.output import Output, table
from droveway.scene_files import AXES_HELP

if TYPE_CHECKING:
    from splat import Camera, Scene

WIDTH, HEIGHT = 1280, 720
SIDE_MAX: Final = 16384
PIXELS_MAX: Final = 2**26
POINT_HINT: Final = "three numbers with commas and no spaces, such as 1.5,0,-4"

Numbers = tuple[float, float, float]


class Point(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """Three finite numbers, X,Y,Z."""

    name = "X,Y,Z"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Numbers:
        if isinstance(value, tuple):
            return value
        numbers = _numbers(value)
        if numbers is None:
            self.fail(f"expected {POINT_HINT}, got {value!r}", param, ctx)
        return numbers


class Colour(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """R,G,B of 0 to 1, or #rrggbb."""

    name = "R,G,B"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Numbers:
        if isinstance(value, tuple):
            return value
        digits = str(value).removeprefix("#")
        if len(digits) == 6 and str(value).startswith("#") and all(c in "0123456789abcdefABCDEF" for c in digits):
            red, green, blue = (byte / 255 for byte in bytes.fromhex(digits))
            return red, green, blue
        numbers = _numbers(value)
        if numbers is None or not all(0 <= number <= 1 for number in numbers):
            self.fail(f"expected three numbers from 0 to 1, such as 0.9,0.9,1, or '#e6e6ff', got {value!r}", param, ctx)
        return numbers


class Number(click.types.FloatParamType):
    """A float, called a number in errors."""

    name = "number"


def _numbers(text: str) -> Numbers | None:
    try:
        x, y, z = (float(part) for part in str(text).split(","))
    except ValueError:
        return None
    return (x, y, z) if all(abs(number) <= 1e30 for number in (x, y, z)) else None  # a NaN is not


@declare("render")
@click.argument("scene", metavar="SCENE", type=PATH)
@click.option("-o", "--output", "picture", metavar="A.png", type=PATH, required=True, help="8-bit RGB; replaced.")
@click.option("--width", metavar="W", type=WholeNumber(1, SIDE_MAX), help=f"Pixels; default {WIDTH}.")
@click.option("--height", metavar="H", type=WholeNumber(1, SIDE_MAX), help=f"Pixels; default {HEIGHT}.")
@click.option("--eye", metavar="X,Y,Z", type=Point(), help="Where the camera is; default: in front of the scene.")
@click.option("--target", metavar="X,Y,Z", type=Point(), help="What it looks at; default: the middle of the scene.")
@click.option("--up", metavar="X,Y,Z", type=Point(), help="What is up in the picture; default 0,-1,0.")
@click.option("--fov", metavar="DEG", type=Number(), help="Vertical field of view in degrees; default 50.")
@click.option("--camera", "camera_file", metavar="F", type=PATH, help="A camera as JSON, such as that of `info SCENE`.")
@click.option("--axes", metavar="AXES", help=AXES_HELP)
@click.option("--background", metavar="R,G,B", type=Colour(), help="0 to 1 each, or #rrggbb; default black.")
@click.option(
    "--antialias/--no-antialias", default=None, help="Dim what is smaller than a pixel; default: as the file says."
)
@click.option("--repair", is_flag=True, help="Leave out splats that no picture can be made of, and say how many.")
def command(
    out: Output,
    scene: Path,
    picture: Path,
    width: int | None,
    height: int | None,
    eye: Numbers | None,
    target: Numbers | None,
    up: Numbers | None,
    fov: float | None,
    camera_file: Path | None,
    axes: str | None,
    background: Numbers | None,
    antialias: bool | None,
    repair: bool,
) -> int:
    """Draw a Gaussian-splat scene (INRIA .ply, compressed .ply, .splat, SOG) on the CPU, into an 8-bit PNG.

    The pixels are the same on every machine and for any number of threads; their digest is printed. Points are in the
    units of the scene, axes x right, y down, z forward. Without a camera it is seen along z, from so far that nine
    tenths of the splats are in the picture; what lies farther out may be cut off.
    """
    from droveway.scene_files import load_scene
    from droveway.whole_file import require_another, require_ending, require_place, whole_file

    require_ending(picture, ".png")
    require_place(picture)
    require_another(picture, scene)
    placed = {"--eye": eye, "--target": target, "--up": up, "--fov": fov, "--width": width, "--height": height}
    given = [name for name, value in placed.items() if value is not None]
    if camera_file is not None and given:
        raise UsageProblem(None, f"--camera says everything: expected no {given[0]} beside it")
    if (width or WIDTH) * (height or HEIGHT) > PIXELS_MAX:
        raise UsageProblem(None, f"expected at most 2^26 pixels, got {width or WIDTH} × {height or HEIGHT}")
    camera = None if camera_file is None else read_camera(camera_file)
    if camera is not None and camera.width * camera.height > PIXELS_MAX:
        raise InputProblem(camera_file, f"expected at most 2^26 pixels, got {camera.width} × {camera.height}")
    loaded = load_scene(out, scene, axes=axes, repair=repair)
    if camera is None:
        camera = placed_camera(loaded, width or WIDTH, height or HEIGHT, eye, target, up, fov)
    from splat import RenderSettings
    from splat.rendering import render_last

    settings = RenderSettings(background=background or (0.0, 0.0, 0.0), antialias=antialias)
    count, degree, scenes = len(loaded), loaded.degree, [loaded]
    del loaded  # the picture is drawn in the memory that the scene leaves
    with reading(scene):
        image = render_last(scenes, camera, settings)
    with whole_file(picture) as place:
        image.save(place)
    if image.stats.not_finite:
        out.note(f"{scene}: left out, too large for float32 in this picture: {image.stats.not_finite} of the splats")
    if not image.visible:
        out.note(_unseen(scene, count))
    record = {
        "scene": scene,
        "splats": count,
        "sh_degree": degree,
        "width": camera.width,
        "height": camera.height,
        "eye": camera.position,
        "picture": picture,
        "visible": image.visible,
        "digest": image.digest(),
    }
    out.result(record, _described(record))
    return exits.YES


def read_camera(path: Path) -> "Camera":
    """The camera of a JSON file. Raises InputProblem."""
    from splat import Camera, SplatError
    from splat.source_file import SourceFile

    with reading(path), SourceFile(path) as source:
        data = source.read_most(1 << 20)
    try:
        return Camera.from_json(data)
    except SplatError as error:
        raise InputProblem(path, str(error), "droveway info SCENE prints a camera in this form") from error


def placed_camera(
    scene: "Scene",
    width: int,
    height: int,
    eye: Numbers | None,
    target: Numbers | None,
    up: Numbers | None,
    fov: float | None,
) -> "Camera":
    """The camera of the options: the default one of the scene where there is neither an eye nor a target."""
    from splat import Camera, SplatError
    from splat.default_camera import scene_center

    if fov is not None and not 0 < fov < 180:
        raise UsageProblem(None, f"--fov: expected an angle above 0 and below 180 degrees, got {fov:g}")
    default = Camera.default(scene, width, height)
    if eye is None and target is None and up is None and fov is None:
        return default
    at = default.position if eye is None else eye
    to = scene_center(scene) if target is None else target
    try:
        return Camera.look_at(at, to, up or (0.0, -1.0, 0.0), 50.0 if fov is None else fov, width=width, height=height)
    except SplatError as error:
        text = str(error).removeprefix("Camera.look_at: ").removeprefix("Camera: ")
        hint = "another --up, such as 0,0,1" if "along the view" in text else ""
        raise UsageProblem(None, f"--eye, --target, --up: {text}", hint) from error


def _unseen(path: Path, count: int) -> str:
    if not count:
        return f"hint: {path} has no splats: the picture is the background"
    return f"hint: no splat is in sight: droveway info {quoted(path)} tells where they are, and a camera that sees them"


def _described(record: dict[str, object]) -> str:
    eye = record["eye"]
    assert isinstance(eye, tuple)
    rows = [
        ("scene", f"{record['scene']}"),
        (
            "splats",
            f"{record['splats']}, {record['visible']} in sight; spherical harmonics of degree {record['sh_degree']}",
        ),
        ("camera", "at " + ", ".join(f"{value:.6g}" for value in eye)),
        ("picture", f"{record['picture']}, {record['width']} × {record['height']} pixels"),
        ("digest", f"{record['digest']}"),
    ]
    return table(rows)
