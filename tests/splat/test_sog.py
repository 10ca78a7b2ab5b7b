"""SOG scenes: images and palettes become the splats that the page says; damage and bombs are refused."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as options
from hypothesis import strategies as st
from PIL import Image

from splat import Scene, SceneFileError, SplatError, SplatValueError

Files = dict[str, bytes]
NAMES = ("means_l", "means_u", "quats", "scales", "sh0")


def webp(pixels: np.ndarray, width: int | None = None, **how: Any) -> bytes:  # u8[n, 3 or 4]
    n = len(pixels)
    width = width or max(1, n)
    rows = max(1, -(-n // width))
    whole = np.zeros((rows * width, pixels.shape[1]), np.uint8)
    whole[:n] = pixels
    out = io.BytesIO()
    image = Image.fromarray(whole.reshape(rows, width, -1))
    image.save(out, "WEBP", **(how or {"lossless": True, "exact": True}))
    return out.getvalue()


def pixel_images(n: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    pixels = {name: rng.integers(0, 256, (n, 4), np.uint8) for name in NAMES}
    pixels["quats"][:, 3] = 252 + rng.integers(0, 4, n)
    return pixels


def scene_files(n: int = 40, bands: int = 1, seed: int = 0, width: int | None = None) -> Files:
    """A folder: n random splats, and a palette of 70 rows."""
    rng = np.random.default_rng(seed)
    meta: dict[str, Any] = {
        "version": 2,
        "asset": {"generator": "hand"},
        "count": n,
        "means": {"mins": [-1, -2, 3], "maxs": [1, 2.5, 3], "files": ["means_l.webp", "means_u.webp"]},
        "scales": {"codebook": np.linspace(-9, 1, 256).tolist(), "files": ["scales.webp"]},
        "quats": {"files": ["quats.webp"]},
        "sh0": {"codebook": np.linspace(-2, 2, 256).tolist(), "files": ["sh0.webp"]},
    }
    files = {f"{name}.webp": webp(pixels, width) for name, pixels in pixel_images(n, seed).items()}
    if bands:
        k = {1: 3, 2: 8, 3: 15}[bands]
        meta["shN"] = {"count": 70, "bands": bands, "codebook": np.linspace(-1, 1, 256).tolist(),
                       "files": ["c.webp", "l.webp"]}  # fmt: skip
        files["c.webp"] = webp(rng.integers(0, 256, (2 * 64 * k, 3), np.uint8), 64 * k)
        labels = np.zeros((n, 3), np.uint8)
        labels[:, 0] = rng.integers(0, 70, n)
        files["l.webp"] = webp(labels, width)
    return {"meta.json": json.dumps(meta).encode(), **files}


def zipped(files: Files, how: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", how) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


@pytest.fixture
def folder(tmp_path: Path) -> Callable[[Files], Path]:
    """folder(files): a new folder that holds them."""

    def write(files: Files) -> Path:
        for old in (tmp_path / "scene").glob("*"):
            old.unlink()
        (tmp_path / "scene").mkdir(exist_ok=True)
        for name, data in files.items():
            (tmp_path / "scene" / name).write_bytes(data)
        return tmp_path / "scene"

    return write


def changed(files: Files, change: Callable[[dict[str, Any]], object]) -> Files:
    meta = json.loads(files["meta.json"])
    change(meta)
    return {**files, "meta.json": json.dumps(meta).encode()}


def same(a: Scene, b: Scene) -> bool:
    arrays = ("means", "log_scales", "quats", "opacities", "sh")
    return all(getattr(a, name).tobytes() == getattr(b, name).tobytes() for name in arrays)


def test_the_example_of_the_page_is_read(page_hex, folder) -> None:
    rows = np.frombuffer(page_hex("sog", "pixels"), np.uint8).reshape(5, 1, 4)
    files = {f"{name}.webp": webp(row) for name, row in zip(NAMES, rows, strict=True)}
    meta = {
        "version": 2, "count": 1, "antialias": True,
        "means": {"mins": [-1, -1, -1], "maxs": [1, 1, 1], "files": ["means_l.webp", "means_u.webp"]},
        "scales": {"codebook": np.linspace(-8, 0, 256).tolist(), "files": ["scales.webp"]},
        "quats": {"files": ["quats.webp"]},
        "sh0": {"codebook": np.linspace(-2, 2, 256).tolist(), "files": ["sh0.webp"]},
    }  # fmt: skip
    scene = Scene.load(folder({"meta.json": json.dumps(meta).encode(), **files}))
    assert np.allclose(scene.means, [0.0000153, -0.6454917, 1.7182818], atol=5e-8)
    assert np.allclose(scene.quats, [0.9999885, 0.0027730, 0.0027730, 0.0027730], atol=5e-8)
    assert np.allclose(scene.log_scales, [0, -3.9843137, -8], atol=5e-7)
    assert np.allclose(scene.sh, [-2, 0.0078431, 2], atol=5e-8)
    assert scene.opacities[0] == np.float32(0.2) and scene.antialiased and scene.degree == 0


@pytest.mark.parametrize("bands", [0, 1, 2, 3])
@pytest.mark.parametrize("n", [1, 5, 600])
def test_every_splat_is_what_its_own_pixels_say(folder, n: int, bands: int) -> None:
    files = scene_files(n, bands, seed=n, width=7)
    scene = Scene.load(folder(files))
    pixels, meta = pixel_images(n, n), json.loads(files["meta.json"])
    assert (len(scene), scene.degree) == (n, bands)
    u = pixels["means_l"][:, :3] + 256.0 * pixels["means_u"][:, :3]
    low, high = np.array(meta["means"]["mins"]), np.array(meta["means"]["maxs"])
    t = low + (high - low) * u / 65535
    assert np.allclose(scene.means, np.sign(t) * np.expm1(abs(t)), rtol=1e-6, atol=1e-6)
    assert (scene.means[:, 2] == scene.means[0, 2]).all()
    assert (scene.log_scales == np.float32(meta["scales"]["codebook"])[pixels["scales"][:, :3]]).all()
    assert (scene.sh[:, 0] == np.float32(meta["sh0"]["codebook"])[pixels["sh0"][:, :3]]).all()
    assert (scene.opacities == (pixels["sh0"][:, 3] / 255).astype(np.float32)).all()
    for i in range(0, n, 11):
        three = list((pixels["quats"][i, :3] / 255 - 0.5) * 2**0.5)
        three.insert(int(pixels["quats"][i, 3]) - 252, max(0.0, 1 - sum(v * v for v in three)) ** 0.5)
        assert np.allclose(scene.quats[i], np.array(three) / np.linalg.norm(three), atol=1e-6)
    if bands:
        k = (bands + 1) ** 2 - 1
        palette = np.asarray(Image.open(io.BytesIO(files["c.webp"])))
        labels = np.asarray(Image.open(io.BytesIO(files["l.webp"]))).reshape(-1, 3)[:n, 0]
        codebook = np.float32(meta["shN"]["codebook"])
        for i in range(0, n, 11):
            row, column = divmod(int(labels[i]), 64)
            assert (scene.sh[i, 1:] == codebook[palette[row, column * k : (column + 1) * k]]).all()


def test_folder_meta_file_and_zips_are_one_scene(folder, load) -> None:
    files = scene_files(200, 2)
    path = folder(files)
    scene = Scene.load(path)
    assert same(Scene.load(path / "meta.json"), scene)
    assert same(load(zipped(files), "a.sog"), scene)
    assert same(load(zipped(files, zipfile.ZIP_DEFLATED), "any.name"), scene)


def test_colours_under_a_transparent_pixel_are_kept(folder) -> None:
    files = scene_files(30, 0)
    pixels = pixel_images(30)["sh0"]
    pixels[:, 3] = 0
    scene = Scene.load(folder({**files, "sh0.webp": webp(pixels)}))
    assert not scene.opacities.any()
    assert (scene.sh[:, 0] == np.float32(np.linspace(-2, 2, 256))[pixels[:, :3]]).all()


def test_an_empty_scene_is_legal(folder) -> None:
    files = changed(scene_files(4, 0), lambda meta: meta.update(count=0))
    assert len(Scene.load(folder(files))) == 0


META = [
    (lambda m: m.update(version=3), "meta.json, version: expected 2, found 3"),
    (lambda m: m.pop("version"), "meta.json, version: expected 2, found 1"),
    (lambda m: m.pop("count"), "meta.json: expected the key count, found none"),
    (lambda m: m.update(count=-1), "meta.json, count: expected a whole number from 0 to 2147483647, found -1"),
    (lambda m: m.update(count=2.0), "meta.json, count: expected a whole number from 0 to 2147483647, found 2.0"),
    (lambda m: m.update(count=True), "meta.json, count: expected a whole number from 0 to 2147483647, found True"),
    (lambda m: m.update(count=41), "means_l.webp: expected 41 to 65700 pixels, found 40 × 1 = 40"),
    (lambda m: m.update(count=2**31 - 1), "means_l.webp: expected 2147483647 to 8590000124 pixels, found 40 × 1 = 40"),
    (lambda m: m.update(means=[]), "meta.json, means: expected an object, found list"),
    (lambda m: m["means"].update(mins=[0, 1]), "meta.json, means, mins: expected 3 numbers, found 2 of them"),
    (lambda m: m["means"].update(mins=[0, 1, "2"]), "meta.json, means, mins: expected 3 numbers, found '2'"),
    (lambda m: m["means"].update(maxs=[0, 1, float("nan")]),
     "meta.json, means, maxs: expected numbers of at most 1e300, found nan"),
    (lambda m: m["means"].update(files=["a"]), "meta.json, means, files: expected 2 file names, found ['a']"),
    (lambda m: m["sh0"].update(codebook=[0] * 255),
     "meta.json, sh0, codebook: expected 256 numbers, found 255 of them"),
    (lambda m: m["scales"].update(codebook=None), "meta.json, scales, codebook: expected 256 numbers, found None"),
    (lambda m: m["quats"].update(files=["../secret"]),
     "meta.json, quats, files: expected a plain file name, found '../secret'"),
    (lambda m: m["quats"].update(files=["/etc/passwd"]),
     "meta.json, quats, files: expected a plain file name, found '/etc/passwd'"),
    (lambda m: m["quats"].update(files=[".."]), "meta.json, quats, files: expected a plain file name, found '..'"),
    (lambda m: m["quats"].update(files=["C:\\a"]),
     "meta.json, quats, files: expected a plain file name, found 'C:\\\\a'"),
    (lambda m: m["quats"].update(files=[7]), "meta.json, quats, files: expected a plain file name, found int"),
    (lambda m: m["quats"].update(files=["none.webp"]), "none.webp: expected a file, found none"),
    (lambda m: m["quats"].update(files=["meta.json"]), "meta.json: expected a lossless WebP image, found "),
    (lambda m: m["shN"].update(bands=4), "meta.json, shN, bands: expected a whole number from 1 to 3, found 4"),
    (lambda m: m["shN"].update(bands=2), "c.webp: expected 512 × 2 pixels, found 192 × 2"),
    (lambda m: m["shN"].update(count=65537),
     "meta.json, shN, count: expected a whole number from 1 to 65536, found 65537"),
    (lambda m: m["shN"].update(count=129), "c.webp: expected 192 × 3 pixels, found 192 × 2"),
    (lambda m: m["shN"].update(count=1), "l.webp, label of splat 0: expected less than 1, the count of shN, found "),
]  # fmt: skip


@pytest.mark.parametrize(("change", "text"), META)
def test_a_wrong_meta_json_is_refused_by_its_key(folder, change, text: str) -> None:
    path = folder(changed(scene_files(40), change))
    with pytest.raises(SceneFileError) as caught:
        Scene.load(path)
    assert str(caught.value).startswith(f"{path}: {text}")


@pytest.mark.parametrize(
    "meta", [b"", b"[", b"[]", b"\xff", b"[" * 100_000, b'{"version": 2' + b" " * (1 << 20) + b"}"]
)
def test_a_meta_json_that_is_none_is_refused(folder, meta: bytes) -> None:
    with pytest.raises(SceneFileError, match=r"meta\.json: expected (JSON|an object|at most 1048576 bytes), found"):
        Scene.load(folder({**scene_files(), "meta.json": meta}))


def test_a_key_that_is_there_twice_is_refused(folder) -> None:
    files = scene_files()
    path = folder({**files, "meta.json": files["meta.json"][:-1] + b', "count": 39}'})
    with pytest.raises(SceneFileError) as caught:
        Scene.load(path)
    assert str(caught.value) == f"{path}: meta.json: expected each key once, found 'count' twice"


def test_a_folder_without_a_scene_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SceneFileError) as caught:
        Scene.load(tmp_path)
    assert str(caught.value) == f"{tmp_path}: meta.json: expected a file, found none"


def test_a_quaternion_without_its_tag_is_refused_with_its_index(folder) -> None:
    files = scene_files(40, 0)
    pixels = pixel_images(40)["quats"]
    pixels[[17, 30], 3] = 251
    path = folder({**files, "quats.webp": webp(pixels)})
    with pytest.raises(SceneFileError) as caught:
        Scene.load(path)
    assert str(caught.value) == f"{path}: quats.webp, A of splat 17: expected 252 to 255, found 251"


def test_images_that_are_not_what_was_stored_are_refused(folder) -> None:
    files, pixels = scene_files(40, 0), pixel_images(40)["scales"]
    moving = io.BytesIO()
    frames = [Image.fromarray(np.full((8, 8, 4), v, np.uint8)) for v in (9, 99)]
    frames[0].save(moving, "WEBP", save_all=True, append_images=frames[1:], lossless=True)
    png = io.BytesIO()
    frames[0].save(png, "PNG")
    for data, found in (
        (webp(pixels, quality=80), "a lossy one"),
        (moving.getvalue(), "an animation"),
        (png.getvalue(), "bytes that begin with b'\\x89PNG'"),
        (b"", "0 bytes that begin with b''"),
    ):
        with pytest.raises(SceneFileError, match=r"scales\.webp: expected a lossless WebP image, found ") as caught:
            Scene.load(folder({**files, "scales.webp": data}))
        assert str(caught.value).endswith(found)


def test_every_truncation_of_an_image_is_refused(folder) -> None:
    files = scene_files(12, 0)
    whole = files["sh0.webp"]
    for size in range(len(whole)):
        with pytest.raises(SceneFileError):
            Scene.load(folder({**files, "sh0.webp": whole[:size]}))


def test_an_image_of_far_more_pixels_than_splats_is_refused_before_it_is_decoded(folder) -> None:
    header = b"\x2f" + struct.pack("<I", 16382 | 16382 << 14) + bytes(20)
    bomb = b"RIFF" + struct.pack("<I", 12 + len(header)) + b"WEBPVP8L" + struct.pack("<I", len(header)) + header
    with pytest.raises(
        SceneFileError, match=r"sh0\.webp: expected 40 to 65696 pixels, found 16383 × 16383 = 268402689"
    ):
        Scene.load(folder({**scene_files(40, 0), "sh0.webp": bomb}))
    every = changed(dict.fromkeys(scene_files(40, 0), bomb) | {"meta.json": scene_files(40, 0)["meta.json"]},
                    lambda meta: meta.update(count=268402689))  # fmt: skip
    with pytest.raises(
        SceneFileError, match=r"meta\.json, count: expected at most 1024 splats for each of the 225 bytes"
    ):
        Scene.load(folder(every))


ZIPS = [
    (lambda files: zipped(files)[:-1], "zip: expected a zip file, found File is not a zip file"),
    (lambda files: b"PK\x03\x04" + bytes(100), "zip: expected a zip file, found File is not a zip file"),
    (lambda files: zipped({**files, "../x": b""}), "zip: expected names inside the zip, found '../x'"),
    (lambda files: zipped({**files, "/x": b""}), "zip: expected names inside the zip, found '/x'"),
    (lambda files: zipped({**files, "a\\..\\x": b""}), "zip: expected names inside the zip, found 'a\\\\..\\\\x'"),
    (lambda files: zipped(files | {f"{i}": b"" for i in range(64)}), "zip: expected at most 64 entries, found 72"),
    (lambda files: zipped({k: v for k, v in files.items() if k != "meta.json"}),
     "meta.json: expected an entry of the zip, found none"),
    (lambda files: zipped({**files, "meta.json": bytes(10**7)}, zipfile.ZIP_DEFLATED),
     "meta.json: expected at most 1048576 bytes, found 10000000"),
    (lambda files: zipped({**files, "sh0.webp": bytes(10**6)}, zipfile.ZIP_DEFLATED),
     "sh0.webp: expected at most 328320 bytes, found 1000000"),
    (lambda files: zipped(files).replace(files["sh0.webp"][20:40], bytes(20)),
     "sh0.webp: expected an entry that can be read, found Bad CRC-32 for file 'sh0.webp'"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "text"), ZIPS)
def test_a_damaged_zip_is_refused(load, tmp_path: Path, make: Callable[[Files], bytes], text: str) -> None:
    with pytest.raises(SceneFileError) as caught:
        load(make(scene_files(40)), "a.sog")
    assert str(caught.value) == f"{tmp_path / 'a.sog'}: {text}"


def test_an_entry_that_unpacks_to_far_more_than_it_takes_is_refused(load) -> None:
    files = changed({**scene_files(40), "means_l.webp": bytes(10**7)}, lambda meta: meta.update(count=10**8))
    with pytest.raises(SceneFileError, match=r"means_l\.webp: expected at most 108\d{4} bytes, found 10000000$"):
        load(zipped(files, zipfile.ZIP_DEFLATED), "a.sog")


@given(st.data())
@options(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_flip_in_a_zip_leads_to_another_error_than_ours(load, data) -> None:
    whole = bytearray(zipped(scene_files(8, 1), data.draw(st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]))))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(2, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with suppress(SplatError):
        load(bytes(whole), "a.sog")


@given(st.data())
@options(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_flip_in_an_image_leads_to_another_error_than_ours(folder, data) -> None:
    files = scene_files(8, 1)
    name = data.draw(st.sampled_from(sorted(files)))
    whole = bytearray(files[name])
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with suppress(SplatError):
        Scene.load(folder({**files, name: bytes(whole)}))


def test_means_beyond_float32_are_counted_as_not_finite(folder) -> None:
    files = changed(scene_files(5, 0), lambda meta: meta["means"].update(maxs=[1000, 2, 3]))
    with pytest.raises(SplatValueError, match="splats with values that are not finite"):
        Scene.load(folder(files))


def test_pillow_is_loaded_for_these_scenes_only(python, tmp_path: Path) -> None:
    (tmp_path / "a.splat").write_bytes(bytes(28) + b"\xff\x80\x80\x80")
    code = (
        f"import sys; from splat import Scene; Scene.load({str(tmp_path / 'a.splat')!r}); print('PIL' in sys.modules)"
    )
    done = python(code)
    assert (done.stdout, done.stderr) == ("False\n", "")
