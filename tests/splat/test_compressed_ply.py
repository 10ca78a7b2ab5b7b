"""Compressed .ply: words, bounds and bytes become the splats that the page says; damage is refused."""

from __future__ import annotations

import struct
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as options
from hypothesis import strategies as st

from splat import SceneFileError, SplatError
from splat.compressed_ply import COLOR_BOUNDS, MEAN_BOUNDS, PACKED, SCALE_BOUNDS
from splat.harmonics import C0

BOUNDS = MEAN_BOUNDS + SCALE_BOUNDS


def compressed(
    words: np.ndarray,  # [n, 4]
    bounds: np.ndarray,  # [chunks, 12 or 18]
    sh: np.ndarray | None = None,  # u8[n, 9, 24 or 45]
    order: str = "<",
) -> bytes:
    names = BOUNDS + (COLOR_BOUNDS if bounds.shape[1] == 18 else ())
    form = "little" if order == "<" else "big"
    lines = ["ply", f"format binary_{form}_endian 1.0", "comment by hand", f"element chunk {len(bounds)}"]
    lines += [f"property float {name}" for name in names]
    lines += [f"element vertex {len(words)}", *(f"property uint {name}" for name in PACKED)]
    if sh is not None:
        lines += [f"element sh {len(sh)}", *(f"property uchar f_rest_{i}" for i in range(sh.shape[1]))]
    body = bounds.astype(f"{order}f4").tobytes() + words.astype(f"{order}u4").tobytes()
    return ("\n".join([*lines, "end_header", ""])).encode() + body + (b"" if sh is None else sh.tobytes())


def example(n: int = 300, colors: bool = True, rest: int = 0, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    chunks = -(-n // 256)
    low, high = rng.normal(size=(chunks, 3, 3)) - 2, rng.normal(size=(chunks, 3, 3)) + 2
    bounds = np.concatenate([part[:, i] for i in range(3) for part in (low, high)], axis=1)
    given = {"words": rng.integers(0, 2**32, (n, 4)), "bounds": bounds[:, : 18 if colors else 12]}
    return given | ({"sh": rng.integers(0, 256, (n, rest), np.uint8)} if rest else {})


def test_the_example_of_the_page_is_read(page_hex, load) -> None:
    body = page_hex("compressed-ply", "body")
    bounds, words = np.frombuffer(body[:72], "<f4"), np.frombuffer(body[72:], "<u4")
    data = compressed(words[None], bounds[None])
    assert data.endswith(body)
    scene = load(data)
    assert np.allclose(scene.means, [0.9452858, -1.0068426, -0.1333659], atol=5e-8)
    assert np.allclose(scene.log_scales, [-3.1734245, -3.3841643, -6.3273080], atol=5e-7)
    assert np.allclose(scene.quats, [0.4610364, -0.0629000, 0.8848552, 0.0228099], atol=5e-8)
    assert np.allclose(scene.sh, [0.6325228, 0.6047195, -0.5560640], atol=5e-8)
    assert scene.opacities[0] == np.float32(18 / 255)


@pytest.mark.parametrize("n", [0, 1, 255, 256, 257, 1000])
@pytest.mark.parametrize("rest", [0, 9, 24, 45])
def test_every_splat_is_what_its_own_words_say(load, n: int, rest: int) -> None:
    parts = example(n, rest=rest, seed=n + rest)
    scene = load(compressed(**parts))
    assert (len(scene), scene.degree) == (n, {0: 0, 9: 1, 24: 2, 45: 3}[rest] if n or rest else 0)
    for i in range(0, n, 37):
        b = parts["bounds"][i // 256].astype(np.float32).astype(float)
        position, rotation, scale, color = (int(word) for word in parts["words"][i])
        t = [(position >> 21) / 2047, (position >> 11 & 1023) / 1023, (position & 2047) / 2047]
        assert np.allclose(scene.means[i], [b[k] * (1 - t[k]) + b[3 + k] * t[k] for k in range(3)], rtol=1e-6)
        t = [(scale >> 21) / 2047, (scale >> 11 & 1023) / 1023, (scale & 2047) / 2047]
        assert np.allclose(scene.log_scales[i], [b[6 + k] * (1 - t[k]) + b[9 + k] * t[k] for k in range(3)], rtol=1e-5)
        three = [((rotation >> shift & 1023) / 1023 - 0.5) * 2**0.5 for shift in (20, 10, 0)]
        largest = max(0.0, 1 - sum(v * v for v in three)) ** 0.5
        three.insert(rotation >> 30, largest)
        assert np.allclose(scene.quats[i], np.array(three) / np.linalg.norm(three), atol=1e-6)
        c = [(color >> shift & 255) / 255 for shift in (24, 16, 8, 0)]
        rgb = [b[12 + k] * (1 - c[k]) + b[15 + k] * c[k] for k in range(3)]
        assert np.allclose(scene.sh[i, 0], (np.array(rgb) - 0.5) / C0, atol=1e-5)
        assert scene.opacities[i] == np.float32(c[3])
        if rest:
            raw = parts["sh"][i].astype(float)
            unit = np.where(raw == 0, 0, np.where(raw == 255, 1, (raw + 0.5) / 256))
            assert (scene.sh[i, 1:] == ((unit - 0.5) * 8).reshape(3, -1).T.astype(np.float32)).all()


def test_without_colour_bounds_the_bytes_are_the_colours(load) -> None:
    parts = example(3, colors=False)
    scene = load(compressed(**parts))
    rgb = (parts["words"][:, 3, None] >> np.array([24, 16, 8])) & 255
    assert np.allclose(scene.sh[:, 0], (rgb / 255 - 0.5) / C0, atol=1e-6)


def test_big_endian_files_are_read_too(load) -> None:
    parts = example(300, rest=9)
    little, big = load(compressed(**parts)), load(compressed(**parts, order=">"))
    assert all((getattr(little, k) == getattr(big, k)).all() for k in ("means", "log_scales", "quats", "sh"))


def test_every_truncation_is_refused(load) -> None:
    data = compressed(**example(2, rest=9))
    for size in range(len(data)):
        with pytest.raises(SceneFileError):
            load(data[:size])


def test_bounds_that_are_not_finite_make_their_splats_so(load) -> None:
    parts = example(300)
    parts["bounds"][1, 0] = np.nan
    with pytest.raises(
        SplatError, match=r"44 splats with values that are not finite \(indices 256, 257, 258, 259, 260, …"
    ):
        load(compressed(**parts))
    assert len(load(compressed(**parts), repair=True)) == 256


DAMAGE = [
    (b"element chunk 2", b"element chunk 1",
     "element chunk: expected 2 rows (one for each 256 of 300 vertices), found 1"),
    (b"element sh 300", b"element sh 299", "element sh: expected 300 rows (one for each vertex), found 299"),
    (b"element chunk", b"element trunk", "header: expected an element chunk (compressed PLY), found none"),
    (b"element vertex", b"element points", "header: expected an element vertex (compressed PLY), found none"),
    (b"uint packed_scale", b"int packed_scale",
     "element vertex, packed_scale: expected type uint, found another (int32)"),
    (b"packed_scale", b"packed_size", "element vertex: expected the properties packed_position, packed_rotation, "
     "packed_scale, packed_color, found none named packed_scale"),
    (b"min_scale_y", b"min_size_y", f"element chunk: expected the properties {', '.join(BOUNDS)}, "
     "found none named min_scale_y"),
    (b"max_b", b"max_blue", "element chunk: expected the properties min_r, min_g, min_b, max_r, max_g, max_b, "
     "found none named max_b"),
    (b"float max_y", b"int max_y", "element chunk, max_y: expected type float or double, found another (int32)"),
    (b"uchar f_rest_2", b"char f_rest_2", "element sh, f_rest_2: expected type uchar, found another (int8)"),
    (b"f_rest_8", b"f_last_8", "element sh, f_rest: expected 0, 9, 24 or 45 properties, found 8"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "text"), DAMAGE)
def test_a_damaged_header_is_refused_with_what_was_expected(load, old: bytes, new: bytes, text: str) -> None:
    data = compressed(**example(300, rest=9))
    assert old in data
    with pytest.raises(SceneFileError) as caught:
        load(data.replace(old, new))
    assert str(caught.value).split("a.ply: ", 1)[1] == text


@given(st.data())
@options(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_flip_leads_to_another_error_than_ours(load, data) -> None:
    whole = bytearray(compressed(**example(3, rest=9)))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with suppress(SplatError):
        load(bytes(whole))


def test_a_quaternion_of_three_large_fields_gets_a_length_of_one(load) -> None:
    words = np.array([[0, 0x3FFFFFFF, 0, 0]], np.uint32)
    bounds = np.array([struct.unpack("<12f", bytes(48))])
    scene = load(compressed(words, bounds))
    assert scene.quats[0, 0] == 0 and np.allclose(scene.quats[0, 1:], 3**-0.5)
