"""render, convert and info of splat scenes: what they answer, and what they say to inputs that are none."""

import json
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from splat import Camera, RenderSettings, Scene, render

Ask = Callable[..., Any]
SIZE = ("--width", 96, "--height", 64)


def scene_of(n: int = 40, degree: int = 1) -> Scene:
    draw = np.random.default_rng(n)
    quats = draw.normal(size=(n, 4))
    quats /= np.linalg.norm(quats, axis=1, keepdims=True)
    arrays = (draw.normal(size=(n, 3)), draw.normal(-2, 0.3, (n, 3)), quats, draw.uniform(0.3, 0.99, n))
    sh = draw.normal(size=(n, (degree + 1) ** 2, 3))
    return Scene(*(array.astype(np.float32) for array in (*arrays, sh)))


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    scene_of().save(tmp_path / "a.ply")
    return tmp_path / "a.ply"


def pixels(path: Path) -> np.ndarray:
    """uint8[h, w, 3] of an 8-bit RGB PNG without filters but those of PNG itself."""
    from PIL import Image

    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_picture_is_what_python_renders_and_its_digest_is_told(ask: Ask, scene: Path, tmp_path: Path) -> None:
    record = ask("render", scene, "-o", tmp_path / "a.png", *SIZE, "--json").record
    loaded = Scene.load(scene)
    image = render(loaded, Camera.default(loaded, 96, 64))
    assert (pixels(tmp_path / "a.png") == image.rgba[..., :3]).all()
    assert record["digest"] == image.digest() and record["visible"] == image.visible > 0
    assert (record["splats"], record["sh_degree"], record["width"], record["height"]) == (40, 1, 96, 64)


def test_every_option_of_the_camera_and_the_settings_reaches_the_picture(ask: Ask, scene: Path, tmp_path: Path) -> None:
    placed = ("--eye", "-1,-2,-6", "--target", "0.5,0,0", "--up", "0,-1,0.1", "--fov", "35")
    looks = ("--background", "#ff8000", "--antialias")
    record = ask("render", scene, "-o", tmp_path / "a.png", *SIZE, *placed, *looks, "--json").record
    camera = Camera.look_at((-1, -2, -6), (0.5, 0, 0), (0, -1, 0.1), 35, width=96, height=64)
    settings = RenderSettings(background=(1.0, 128 / 255, 0.0), antialias=True)
    assert record["digest"] == render(Scene.load(scene), camera, settings).digest()
    assert record["eye"] == pytest.approx([-1, -2, -6])
    other = ask(
        "render", scene, "-o", tmp_path / "a.png", *SIZE, *placed, *looks[:2], "--no-antialias", "--json"
    ).record
    assert other["digest"] != record["digest"]


def test_an_eye_alone_looks_at_the_middle_of_the_scene(ask: Ask, scene: Path, tmp_path: Path) -> None:
    from splat.default_camera import scene_center

    record = ask("render", scene, "-o", tmp_path / "a.png", *SIZE, "--eye", "1,-3,-5", "--json").record
    loaded = Scene.load(scene)
    camera = Camera.look_at((1, -3, -5), scene_center(loaded), width=96, height=64)
    assert record["digest"] == render(loaded, camera).digest()


def test_the_camera_that_info_prints_gives_the_default_picture(ask: Ask, scene: Path, tmp_path: Path) -> None:
    record = ask("info", scene, "--json").record
    assert record["camera"]["width"] == 1280
    (tmp_path / "camera.json").write_text(json.dumps(record["camera"]))
    by_file = ask("render", scene, "-o", tmp_path / "a.png", "--camera", tmp_path / "camera.json", "--json").record
    assert by_file["digest"] == ask("render", scene, "-o", tmp_path / "b.png", "--json").record["digest"]


def test_info_tells_where_the_splats_are_and_what_was_assumed(ask: Ask, scene: Path) -> None:
    record = ask("info", scene, "--json").record
    loaded = Scene.load(scene)
    assert record["kind"] == "scene" and record["axes"] == "RDF" and record["warnings"] == []
    assert record["least"] == loaded.means.min(axis=0).tolist() and record["most"] == loaded.means.max(axis=0).tolist()
    text = ask("info", scene).out
    (line,) = [line for line in text.splitlines() if line.startswith("camera")]
    assert json.loads(line.removeprefix("camera")) == record["camera"]


def test_convert_keeps_every_splat_and_the_second_time_every_byte(ask: Ask, scene: Path, tmp_path: Path) -> None:
    assert ask("convert", scene, tmp_path / "b.ply", "--json").record["splats"] == 40
    assert ask("convert", tmp_path / "b.ply", tmp_path / "c.ply").code == 0
    assert (tmp_path / "b.ply").read_bytes() == (tmp_path / "c.ply").read_bytes()
    turned = ask("convert", scene, tmp_path / "d.ply", "--axes", "RUB", "--json").record
    assert turned["axes"] == "RUB"
    assert (Scene.load(tmp_path / "d.ply").means == Scene.load(scene).means * np.float32([1, -1, -1])).all()


def test_a_scene_of_images_is_described_drawn_and_converted(ask: Ask, data, tmp_path: Path) -> None:
    folder = data("splats/3_0")
    assert ask("info", folder, "--json").record["splats"] == 31_000
    drawn = [
        ask("render", path, "-o", tmp_path / "a.png", *SIZE, "--json").record["digest"]
        for path in (folder, folder / "meta.json")
    ]
    assert drawn[0] == drawn[1]
    assert ask("convert", folder, tmp_path / "b.ply", "--json").record["sh_degree"] == 2
    assert (Scene.load(tmp_path / "b.ply").means == Scene.load(folder).means).all()


def test_a_camera_that_sees_nothing_gives_the_background_and_a_hint(ask: Ask, scene: Path, tmp_path: Path) -> None:
    away = ("--eye", "0,0,50", "--target", "0,0,90")
    told = ask("render", scene, "-o", tmp_path / "a.png", *SIZE, *away, "--background", "0.5,0,1")
    assert told.code == 0
    assert told.err == (
        f"hint: no splat is in sight: droveway info {scene} tells where they are, and a camera that sees them\n"
    )
    assert (pixels(tmp_path / "a.png") == (128, 0, 255)).all()
    assert ask("render", scene, "-o", tmp_path / "a.png", *SIZE, *away, "--quiet").err == ""


def test_a_scene_without_splats_is_a_background(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "none.splat").write_bytes(b"")
    scene_of(0).save(tmp_path / "none.ply")
    for name in ("none.splat", "none.ply"):
        told = ask("render", tmp_path / name, "-o", tmp_path / "a.png", *SIZE)
        assert (told.code, told.err) == (0, f"hint: {tmp_path / name} has no splats: the picture is the background\n")
    record = ask("info", tmp_path / "none.ply", "--json").record
    assert (record["splats"], record["least"], record["most"]) == (0, None, None)


def damaged(scene: Path, name: str, splat: int, value: float) -> Path:
    """A copy of a scene in which one float of a splat is another."""
    data = bytearray(scene.read_bytes())
    head, _, _ = bytes(data).partition(b"end_header\n")
    names = [line.split()[-1].decode() for line in head.splitlines() if line.startswith(b"property")]
    at = len(head) + len(b"end_header\n") + 4 * (splat * len(names) + names.index(name))
    data[at : at + 4] = struct.pack("<f", value)
    path = scene.with_name("damaged.ply")
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(("name", "value"), [("x", np.nan), ("scale_1", np.inf), ("f_dc_0", -np.inf)])
def test_a_splat_that_is_no_number_is_counted_and_repair_leaves_it_out(
    name: str, value: float, ask: Ask, scene: Path, tmp_path: Path
) -> None:
    path = damaged(scene, name, 7, value)
    for command in (("render", path, "-o", tmp_path / "a.png", *SIZE), ("convert", path, tmp_path / "b.ply")):
        told = ask(*command)
        assert told.code == 3 and told.out == ""
        assert told.err.startswith(f"error: {path}: ") and "7" in told.err
        assert told.err.endswith("hint: --repair leaves such splats out\n")
        told = ask(*command, "--repair", "--json")
        assert told.code == 0 and told.record["splats"] == 39
        assert told.err.startswith(f"{path}: ")
    assert listing(tmp_path) == ["a.ply", "a.png", "b.ply", "damaged.ply"]


def test_a_zero_quaternion_is_named_and_repair_makes_it_identity(ask: Ask, scene: Path, tmp_path: Path) -> None:
    path = scene
    for name in ("rot_0", "rot_1", "rot_2", "rot_3"):
        path = damaged(path, name, 3, 0.0)
    assert ask("render", path, "-o", tmp_path / "a.png", *SIZE).code == 3
    assert ask("convert", path, tmp_path / "b.ply", "--repair").code == 0
    assert Scene.load(tmp_path / "b.ply").quats[3].tolist() == [1, 0, 0, 0]


def test_a_scale_of_e_to_the_40th_is_told_and_draws_no_nonsense(ask: Ask, scene: Path, tmp_path: Path) -> None:
    told = ask("render", damaged(scene, "scale_0", 2, 40.0), "-o", tmp_path / "a.png", *SIZE)
    assert told.code in (0, 3) and "Traceback" not in told.err
    assert "e^20" in told.err


PLY = b"ply\nformat binary_little_endian 1.0\nelement vertex %d\nproperty float x\nproperty float y\nproperty float z\n"
NO_SCENES = {
    "an empty file": (b"", "a.ply"),
    "text": (b"hello", "a.ply"),
    "a truncated scene": (None, "a.ply"),
    "a claim of 2^31 splats": (PLY % 2**31 + b"end_header\n", "a.ply"),
    "a mesh": (PLY % 1 + b"end_header\n" + bytes(12), "a.ply"),
    "33 bytes": (bytes(33), "a.splat"),
    "an index": (b"JVIM" + bytes(252), "a.ply"),
    "an array": (b"\x93NUMPY\x01\x00" + bytes(100), "a.ply"),
    "a picture": (b"\x89PNG\r\n\x1a\n" + zlib.compress(bytes(9)), "a.splat"),
}


@pytest.mark.parametrize("case", NO_SCENES)
def test_what_is_no_scene_is_exit_3_names_the_file_and_leaves_nothing(case: str, ask: Ask, tmp_path: Path) -> None:
    content, name = NO_SCENES[case]
    path = tmp_path / name
    if content is None:
        scene_of().save(path)
        content = path.read_bytes()[:-5]
    path.write_bytes(content)
    for command in (("render", path, "-o", tmp_path / "a.png"), ("convert", path, tmp_path / "b.ply"), ("info", path)):
        if case == "an index" and command[0] == "info":
            continue  # info tells what a file is by its first bytes
        told = ask(*command)
        assert told.code == 3 and told.out == "", told
        assert told.err.startswith(f"error: {path}: ") and "Traceback" not in told.err
    assert listing(tmp_path) == [name]


def test_a_run_a_folder_a_pipe_and_nothing_are_no_scenes(ask: Ask, yard_run: Path, tmp_path: Path) -> None:
    told = ask("render", yard_run, "-o", tmp_path / "a.png")
    assert (told.code, told.err) == (
        3,
        f"error: {yard_run}: expected a scene file, got a run\n"
        f"hint: droveway replay {yard_run} --png a.png draws a run\n",
    )
    told = ask("render", tmp_path, "-o", tmp_path / "a.png")
    words = "expected a scene file, or a folder with a meta.json (SOG), got a folder without one"
    assert (told.code, told.err) == (3, f"error: {tmp_path}: {words}\n")
    os.mkfifo(tmp_path / "pipe.ply")
    for path, words in (
        (tmp_path / "no.ply", "no such file"),
        (tmp_path / "pipe.ply", "is not a regular file"),
    ):
        told = ask("render", path, "-o", tmp_path / "a.png")
        assert told.code == 3 and f"expected to read it, got: {words}" in told.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--eye", "1,2"), "Invalid value for '--eye': expected three numbers with commas and no spaces, such as"),
        (("--eye", "1,2,nan"), "Invalid value for '--eye': expected three numbers"),
        (("--background", "1,2,3"), "Invalid value for '--background': expected three numbers from 0 to 1"),
        (("--background", "#12345"), "Invalid value for '--background': expected three numbers from 0 to 1"),
        (("--fov", "0"), "--fov: expected an angle above 0 and below 180 degrees, got 0"),
        (("--fov", "180"), "--fov: expected an angle above 0 and below 180 degrees, got 180"),
        (("--eye", "1,1,1", "--target", "1,1,1"), "--eye, --target, --up: eye and target must be two points"),
        (
            ("--eye", "0,-5,0", "--target", "0,5,0"),
            "--eye, --target, --up: up must not point along the view, got (0.0, -1.0, 0.0)\n"
            "hint: another --up, such as 0,0,1\n",
        ),
        (("--width", "0"), "Invalid value for '--width': 0 is not in the range 1<=x<=16384."),
        (("--width", "16384", "--height", "16384"), "expected at most 2^26 pixels, got 16384 × 16384"),
        (("--axes", "XYZ"), "--axes: expected one of "),
        (("--camera", "c.json", "--fov", "40"), "--camera says everything: expected no --fov beside it"),
        (("--camera", "c.json", "--width", "40"), "--camera says everything: expected no --width beside it"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_exit_2_and_says_what_is_right(
    options: tuple[str, ...], words: str, ask: Ask, scene: Path, tmp_path: Path
) -> None:
    told = ask("render", scene, "-o", tmp_path / "a.png", *options)
    assert told.code == 2 and told.out == ""
    assert told.err.startswith(f"error: {words}")
    assert listing(tmp_path) == ["a.ply"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "camera JSON: expected JSON, found: "),
        ('{"width": 3}', "camera JSON: expected the key height, found none"),
        ("[1]", "camera JSON: expected an object, found list"),
    ],
)
def test_a_camera_file_that_is_none_is_exit_3(text: str, words: str, ask: Ask, scene: Path, tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(text)
    told = ask("render", scene, "-o", tmp_path / "a.png", "--camera", tmp_path / "c.json")
    assert told.code == 3
    assert told.err.startswith(f"error: {tmp_path / 'c.json'}: {words}")
    assert told.err.endswith("hint: droveway info SCENE prints a camera in this form\n")
    assert listing(tmp_path) == ["a.ply", "c.json"]


def test_a_camera_file_of_too_large_a_picture_is_named_before_the_scene_is_read(ask: Ask, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(Camera(16384, 16384, 1.0, 1.0, 0.0, 0.0, np.eye(4)).to_json())
    told = ask("render", tmp_path / "no.ply", "-o", tmp_path / "a.png", "--camera", path)
    assert (told.code, told.err) == (3, f"error: {path}: expected at most 2^26 pixels, got 16384 × 16384\n")


def test_outputs_are_refused_before_anything_is_read(ask: Ask, scene: Path, tmp_path: Path) -> None:
    for command, words in (
        (("render", scene, "-o", tmp_path / "a.jpg"), "expected an output that ends in .png, got '.jpg'"),
        (("render", scene, "-o", tmp_path / "no" / "a.png"), f"expected the folder {tmp_path / 'no'} to exist"),
        (("convert", scene, scene), "expected another file than the input"),
        (("convert", scene, tmp_path / "b.spz"), "expected an output that ends in .ply, got '.spz'"),
        (
            ("convert", tmp_path / "no.ply", tmp_path / "b.Compressed.ply"),
            "expected an output that ends in .ply alone: compressed .ply is read, not written",
        ),
    ):
        told = ask(*command)
        assert told.code == 2 and f": {words}\n" in told.err
    (tmp_path / "folder.png").mkdir()
    assert "expected a file to write, got a folder" in ask("render", scene, "-o", tmp_path / "folder.png").err
    assert listing(tmp_path) == ["a.ply", "folder.png"]


def test_a_picture_that_was_there_stays_whole_when_the_new_one_fails(
    ask: Ask, scene: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno

    from splat import Image

    (tmp_path / "a.png").write_bytes(b"old")

    def full(self: Image, path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(Image, "save", full)
    told = ask("render", scene, "-o", tmp_path / "a.png", *SIZE)
    assert told.code == 4
    assert told.err == (
        f"error: {tmp_path / 'a.png'}: expected room to write, got: no space left on device\nhint: free some space\n"
    )
    assert (tmp_path / "a.png").read_bytes() == b"old" and listing(tmp_path) == ["a.ply", "a.png"]


def test_the_pixels_are_the_same_for_every_build_and_number_of_threads(
    ask: Ask, ask_process: Ask, scene: Path, tmp_path: Path
) -> None:
    expected = ask("render", scene, "-o", tmp_path / "a.png", *SIZE, "--json").record["digest"]
    for environment in ({"DROVEWAY_ISA": "ref"}, {"DROVEWAY_THREADS": "3"}):
        told = ask_process("render", scene, "-o", tmp_path / "b.png", *SIZE, "--json", **environment)
        assert told.record["digest"] == expected


def test_a_captured_scene_is_told_converted_and_drawn_alike(
    ask: Ask, data: Callable[[str], Path], tmp_path: Path
) -> None:
    biker = data("splats/biker.compressed.ply")
    record = ask("info", biker, "--json").record
    assert (record["splats"], record["sh_degree"], record["axes"]) == (152746, 0, "RDF")
    ask("convert", biker, tmp_path / "biker.ply")
    size = ("--width", 320, "--height", 180)
    first = ask("render", biker, "-o", tmp_path / "a.png", *size, "--json").record
    second = ask("render", tmp_path / "biker.ply", "-o", tmp_path / "b.png", *size, "--json").record
    assert first["visible"] > 100_000 and second["visible"] == first["visible"]
    apart = pixels(tmp_path / "a.png").astype(int) - pixels(tmp_path / "b.png").astype(int)
    assert abs(apart).max() <= 1  # an opacity of 1 is written as 1 - 1e-6


def test_a_scene_in_parts_is_told_drawn_and_converted(ask: Ask, data: Callable[[str], Path], tmp_path: Path) -> None:
    folder = data("splats/3_0")
    record = ask("info", folder, "--json").record
    assert (record["kind"], record["splats"], record["sh_degree"]) == ("scene", 31000, 2)
    assert ask("info", folder / "meta.json", "--json").record["splats"] == 31000
    drawn = ask("render", folder, "-o", tmp_path / "a.png", *SIZE, "--json").record
    assert drawn["visible"] > 10_000
    assert ask("convert", folder, tmp_path / "a.ply", "--json").record["splats"] == 31000


def test_a_name_as_long_as_names_can_be_is_written(ask: Ask, scene: Path, tmp_path: Path) -> None:
    for stem, beyond in (("n" * 251, "n" * 252), ("ü" * 125, "ü" * 126)):  # at most 255 bytes with the ending
        assert ask("convert", scene, tmp_path / f"{stem}.ply").code == 0
        assert ask("render", scene, "-o", tmp_path / f"{stem}.png", *SIZE).code == 0
        told = ask("convert", scene, tmp_path / f"{beyond}.ply")
        assert told.code == 2 and "expected to write it, got: file name too long" in told.err
    assert len(listing(tmp_path)) == 5
