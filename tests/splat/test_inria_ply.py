"""INRIA .ply: what is written and read, in every order and form in which other tools write it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as options
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import tensor
from splat import Scene, SplatValueError
from splat.inria_ply import header

FORMS = ("binary_little_endian", "binary_big_endian", "ascii")


def same(a: Scene, b: Scene) -> bool:
    arrays = ("means", "log_scales", "quats", "opacities", "sh")
    return all(getattr(a, name).tobytes() == getattr(b, name).tobytes() for name in arrays)


def page_example(repository: Path, page_hex) -> bytes:
    text = (repository / "docs" / "formats" / "inria-ply.md").read_text()
    found = re.search(r"```text header\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1].encode() + page_hex("inria-ply", "body")


def test_the_example_of_the_page_is_read_and_written(repository: Path, page_hex, load, tmp_path: Path) -> None:
    data = page_example(repository, page_hex)
    scene = load(data)
    assert scene.means.tolist() == [[1, 2, 3]] and scene.log_scales.tolist() == [[-1, -1, -1]]
    assert scene.quats.tolist() == [[1, 0, 0, 0]] and scene.opacities.tolist() == [0.5]
    assert scene.sh.tolist() == [[[0, 0, 0]]] and scene.warnings == () and scene.source_axes == "RDF"
    scene.save(tmp_path / "b.ply")
    assert (tmp_path / "b.ply").read_bytes() == data


@pytest.mark.parametrize(("degree", "row_bytes"), [(0, 68), (1, 104), (2, 164), (3, 248)])
def test_rows_have_the_sizes_of_the_page(make_scene, tmp_path: Path, degree: int, row_bytes: int) -> None:
    scene = make_scene(5, degree)
    scene.save(tmp_path / "a.ply")
    text, record = header(scene)
    assert record.itemsize == row_bytes
    assert (tmp_path / "a.ply").read_bytes().startswith(text)
    assert (tmp_path / "a.ply").stat().st_size == len(text) + 5 * row_bytes


@pytest.mark.parametrize("degree", range(4))
@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_scene(make_ply, inria_columns, load, form: str, degree: int) -> None:
    columns = inria_columns(20, degree)
    scene = load(make_ply(columns, form))
    assert same(scene, load(make_ply(columns)))
    assert (scene.means == np.stack([columns[name] for name in "xyz"], 1)).all()
    assert (scene.log_scales == np.stack([columns[f"scale_{i}"] for i in range(3)], 1)).all()
    count = (degree + 1) ** 2 - 1
    for channel in range(3):
        assert (scene.sh[:, 0, channel] == columns[f"f_dc_{channel}"]).all()
        for k in range(count):
            assert (scene.sh[:, 1 + k, channel] == columns[f"f_rest_{channel * count + k}"]).all()
    raw = np.stack([columns[f"rot_{i}"] for i in range(4)], 1).astype(float)
    assert np.allclose(scene.quats, raw / np.linalg.norm(raw, axis=1, keepdims=True), atol=1e-7)
    assert np.allclose(scene.opacities, 1 / (1 + np.exp(-columns["opacity"].astype(float))), rtol=1e-7)


@given(st.data())
@options(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
def test_order_extra_columns_and_double_precision_change_nothing(make_ply, inria_columns, load, data) -> None:
    columns = inria_columns(4, data.draw(st.integers(0, 3)))
    plain = load(make_ply(columns))
    extra = {"nx": np.zeros(4), "red": np.arange(4), "f_extra": np.full(4, np.nan), "segment": np.arange(4)}
    names = data.draw(st.permutations([*columns, *extra]))
    types = {"red": "uchar", "segment": "int"}
    types |= dict.fromkeys(data.draw(st.sets(st.sampled_from(sorted(columns)))), "double")
    form = data.draw(st.sampled_from(FORMS))
    assert same(load(make_ply({name: {**columns, **extra}[name] for name in names}, form, types)), plain)


@pytest.mark.parametrize("form", FORMS)
def test_carriage_returns_and_comments_change_nothing(make_ply, inria_columns, load, form: str) -> None:
    columns = inria_columns()
    comments = ("comment made by hand", "obj_info 1 2 3", "comment end_header is near", "comment")
    assert same(load(make_ply(columns, form, newline="\r\n", comments=comments)), load(make_ply(columns)))


def test_other_elements_around_the_vertices_are_skipped(make_ply, inria_columns, load) -> None:
    columns = inria_columns(3)
    data = make_ply(columns)
    head, body = data.split(b"end_header\n")
    before = head.replace(b"element vertex", b"element camera 2\nproperty double f\nproperty uchar k\nelement vertex")
    after = b"element face 1\nproperty list uchar int vertex_indices\n"
    whole = before + after + b"end_header\n" + bytes(18) + body + b"\x03" + bytes(12)
    assert same(load(whole), load(data))


def test_numbers_of_an_ascii_file_may_stand_in_any_lines(make_ply, inria_columns, load) -> None:
    columns = inria_columns(30)
    text = make_ply(columns, "ascii")
    head, body = text.split(b"end_header\n")
    words = body.split()
    assert same(load(head + b"end_header\n" + b"\n".join(words)), load(text))
    assert same(load(head + b"end_header\n" + b"   " + b"\t".join(words) + b"\n\n"), load(text))


def test_large_files_are_read_in_blocks_without_a_seam(make_ply, inria_columns, load) -> None:
    columns = inria_columns(40_000, 0)
    scene = load(make_ply(columns))
    assert (scene.means == np.stack([columns[name] for name in "xyz"], 1)).all()
    assert same(load(make_ply(columns, "ascii")), scene)


@pytest.mark.parametrize("degree", range(4))
def test_a_scene_that_was_saved_and_loaded_is_saved_to_the_same_bytes(make_scene, tmp_path: Path, degree: int) -> None:
    plain = make_scene(500, degree, seed=degree)
    opacities = plain.opacities.copy()
    opacities[:6] = (0, 1, 1e-45, 1 - 2.0**-24, 1 - 1e-6, 1e-6)  # .splat and SOG are full of ones
    scene = Scene(plain.means, plain.log_scales, plain.quats, opacities, plain.sh)
    files = []
    for i in range(3):
        scene.save(tmp_path / f"{i}.ply")
        files.append((tmp_path / f"{i}.ply").read_bytes())
        scene = Scene.load(tmp_path / f"{i}.ply")
    assert files[0] == files[1] == files[2]


def test_quaternions_that_are_not_quite_of_unit_length_settle_too(make_scene, tmp_path: Path) -> None:
    plain = make_scene(500, 0)
    scene = Scene(plain.means, plain.log_scales, plain.quats * np.float32(1.0003), plain.opacities, plain.sh)
    files = []
    for _ in range(3):
        scene.save(tmp_path / "a.ply")
        files.append((tmp_path / "a.ply").read_bytes())
        scene = Scene.load(tmp_path / "a.ply")
    assert files[0] != files[1] == files[2]


def test_loading_what_was_saved_gives_the_scene_again(make_scene, tmp_path: Path) -> None:
    scene = make_scene(300, 2)
    scene.save(tmp_path / "a.ply")
    again = Scene.load(tmp_path / "a.ply")
    assert (again.means == scene.means).all() and (again.sh == scene.sh).all()
    assert (again.log_scales == scene.log_scales).all()
    assert np.allclose(again.quats, scene.quats, atol=2e-7)
    assert np.allclose(again.opacities, scene.opacities, rtol=1e-6)


@given(st.data())
@options(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_every_finite_number_comes_back_to_the_bit(tmp_path: Path, data) -> None:
    degree = data.draw(st.integers(0, 3))
    finite = st.floats(width=32, allow_nan=False, allow_infinity=False)

    def drawn(*shape: int) -> np.ndarray:
        return data.draw(arrays.arrays(np.float32, shape, elements=finite))

    one = np.tile(np.float32([0, 0, -1, 0]), (3, 1))
    scene = Scene(drawn(3, 3), drawn(3, 3), one, np.float32([0.25, 0.5, 0.75]), drawn(3, (degree + 1) ** 2, 3))
    scene.save(tmp_path / "a.ply")
    again = Scene.load(tmp_path / "a.ply")
    for name in ("means", "log_scales", "quats", "sh"):
        assert getattr(again, name).tobytes() == getattr(scene, name).tobytes()


def test_opacities_at_the_ends_are_clamped_in_the_file(make_ply, inria_columns, load, tmp_path: Path) -> None:
    columns = inria_columns(4, 0)
    columns["opacity"] = np.float32([np.inf, -np.inf, 90, -90])
    scene = load(make_ply(columns))
    assert scene.opacities.tolist()[:3] == [1, 0, 1]
    scene.save(tmp_path / "b.ply")
    again = Scene.load(tmp_path / "b.ply")
    assert np.allclose(again.opacities, [1 - 1e-6, 1e-6, 1 - 1e-6, 1e-6], atol=1e-7)
    rows = np.frombuffer((tmp_path / "b.ply").read_bytes(), "<f4", 4 * 17, len(header(scene)[0])).reshape(4, 17)
    assert rows[:, 9].tolist() == np.float32([13.8155, -13.8155, 13.8155, -13.8155]).tolist()


@pytest.mark.parametrize("degree", range(4))
def test_an_empty_scene_is_saved_and_loaded(make_scene, tmp_path: Path, degree: int) -> None:
    make_scene(0, degree).save(tmp_path / "a.ply")
    again = Scene.load(tmp_path / "a.ply")
    assert (len(again), again.degree) == (0, degree)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("a.splat", "a.ply"), ("a.compressed.ply", "a.ply"), ("scene", "scene.ply"), ("b.PLY.gz", "b.ply")],
)
def test_a_name_that_asks_for_another_format_is_refused(make_scene, tmp_path: Path, name: str, hint: str) -> None:
    with pytest.raises(SplatValueError) as caught:
        make_scene().save(tmp_path / name)
    assert str(caught.value) == f"Scene.save: {tmp_path / name}: this version writes INRIA .ply only (hint: {hint})"
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_replaced_when_the_new_one_is_complete(make_scene, tmp_path: Path, monkeypatch) -> None:
    target = tmp_path / "a.ply"
    target.write_bytes(b"before")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("splat.inria_ply._write", full)
    with pytest.raises(OSError, match="No space left"):
        make_scene().save(target)
    assert target.read_bytes() == b"before" and list(tmp_path.iterdir()) == [target]
    monkeypatch.undo()
    make_scene().save(target)
    assert target.read_bytes().startswith(b"ply\n") and list(tmp_path.iterdir()) == [target]


def test_a_budget_counts_what_a_scene_takes(make_scene, tmp_path: Path) -> None:
    make_scene(1000, 3).save(tmp_path / "a.ply")
    with tensor.budget(max_bytes=1000 * 59 * 4) as budget:
        scene = Scene.load(tmp_path / "a.ply")
        assert budget.peak_bytes == 1000 * 59 * 4
    del scene
    with tensor.budget(max_bytes=1000 * 59 * 4 - 1), pytest.raises(tensor.BudgetExceeded, match="scene sh"):
        Scene.load(tmp_path / "a.ply")


@pytest.mark.slow
def test_a_large_file_needs_little_more_memory_than_its_scene(python, tmp_path: Path) -> None:
    code = f"""
import numpy as np, re
from splat import Scene
n = 500_000
rng = np.random.default_rng(0)
one = rng.random((n, 3), np.float32)
quats = np.tile(np.float32([1, 0, 0, 0]), (n, 1))
Scene(one, -one, quats, one[:, 0].copy(), rng.random((n, 9, 3), np.float32)).save({str(tmp_path / "a.ply")!r})
"""
    assert python(code).stderr == ""
    code = f"""
import numpy as np, re
from splat import Scene, synthetic
def peak(): return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024
before = peak()
scene = Scene.load({str(tmp_path / "a.ply")!r})
size = sum(a.nbytes for a in (scene.means, scene.log_scales, scene.quats, scene.opacities, scene.sh))
print((peak() - before) / size)
"""
    done = python(code)
    assert done.stderr == ""
    assert float(done.stdout) < 1.2
