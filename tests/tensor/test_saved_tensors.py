"""tensor.save and tensor.load: trees of tensors come back, from mapped memory, with every bit."""

from __future__ import annotations

import numpy as np
import pytest

import tensor as tn
from tensor.io import SafetensorsFile

DTYPES = [d.name for d in tn.__array_namespace_info__().dtypes().values()]


def tree():
    return {
        "layers": [{"w": tn.asarray([[1.0, 2], [3, 4]]), "b": tn.zeros(2, dtype="bfloat16")}, None],
        "step": tn.asarray(7),
        "shapes": (tn.zeros((0, 3)), tn.ones((), dtype="float64")),
        "empty": {},
    }


def equal(a, b) -> bool:
    if isinstance(a, tn.Tensor):
        same = isinstance(b, tn.Tensor) and a.dtype == b.dtype and a.shape == b.shape
        return same and a.tolist() == b.tolist()
    if isinstance(a, dict):
        return isinstance(b, dict) and sorted(a) == sorted(b) and all(equal(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    return a is b


def test_a_tree_comes_back_as_it_was(tmp_path):
    tn.save(tmp_path / "t.safetensors", tree())
    assert equal(tn.load(tmp_path / "t.safetensors"), tree())


def test_equal_state_gives_equal_bytes(tmp_path):
    tn.save(tmp_path / "a", tree())
    tn.save(tmp_path / "b", dict(reversed(list(tree().items()))))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("dtype", [*DTYPES, "float16", "bfloat16"])
@pytest.mark.parametrize("suffix", ["safetensors", "npy"])
def test_every_type_comes_back_with_every_bit(tmp_path, dtype, suffix):
    size = np.dtype(dtype).itemsize if dtype != "bfloat16" else 2
    words = np.arange(6 * size, dtype=np.uint8) % (2 if dtype == "bool" else 251)
    path = tmp_path / f"t.{suffix}"
    if dtype == "bfloat16":
        x = tn.bitcast(tn.asarray(words.view(np.uint16).reshape(2, 3)), "bfloat16")
    else:
        x = tn.asarray(words.view(dtype).reshape(2, 3))
    if (dtype, suffix) in {("bfloat16", "npy"), ("complex128", "safetensors")}:
        with pytest.raises(tn.DtypeError):
            tn.save(path, x)
        return
    tn.save(path, x)
    back = tn.load(path)
    assert (back.dtype, back.shape) == (x.dtype, (2, 3))
    raw = tn.bitcast(back, "uint16") if dtype == "bfloat16" else back
    assert raw.numpy().tobytes() == words.tobytes()


def test_a_loaded_tensor_is_mapped_and_a_change_to_it_stays_in_the_process(tmp_path):
    path = tmp_path / "t"
    tn.save(path, {"w": tn.ones((1000, 1000))})
    with tn.budget(max_bytes=1000):  # the file's memory, not ours
        w = tn.load(path)["w"]
    before = path.read_bytes()
    w[0, 0] = 5.0
    assert w[0, 0].item() == 5.0
    assert path.read_bytes() == before
    assert tn.load(path)["w"][0, 0].item() == 1.0


def test_a_tensor_that_is_not_aligned_in_its_file_is_copied(tmp_path):
    header = b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    header += b" " * (-(8 + len(header)) % 4 + 1)
    (tmp_path / "t").write_bytes(len(header).to_bytes(8, "little") + header + np.float32([1, 2]).tobytes())
    assert tn.load(tmp_path / "t")["w"].tolist() == [1.0, 2.0]


def test_fortran_order_is_read(tmp_path):
    x = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    np.save(tmp_path / "f.npy", x)
    assert tn.load(tmp_path / "f.npy").tolist() == x.tolist()


def test_a_strided_tensor_and_one_with_history_are_saved_as_their_elements(tmp_path):
    x = tn.asarray([[1.0, 2], [3, 4]]).requires_grad_()
    tn.save(tmp_path / "t", {"t": x.mT, "twice": x * 2})
    back = tn.load(tmp_path / "t")
    assert back["t"].tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert back["twice"].tolist() == [[2.0, 4.0], [6.0, 8.0]]
    assert not back["twice"].requires_grad


def test_one_tensor_of_a_file_is_read_by_name(tmp_path):
    tn.save(tmp_path / "t", {"a": tn.asarray([1.0, 2.0]), "b": tn.ones((2, 2))})
    file = SafetensorsFile(tmp_path / "t")
    assert file.tensor("a").tolist() == [1.0, 2.0]
    with pytest.raises(KeyError):
        file.tensor("c")


def test_metadata_is_kept_beside_the_tree(tmp_path):
    tn.save(tmp_path / "t", [tn.ones(1)], metadata={"made": "here"})
    assert SafetensorsFile(tmp_path / "t").metadata["made"] == "here"
    assert equal(tn.load(tmp_path / "t"), [tn.ones(1)])


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda path: tn.save(path / "t", {"a": 3.0}),
            TypeError,
            "save: a tree has dicts, lists, tuples, None and arrays, got float at 'a' (hint: an array of it)",
        ),
        (
            lambda path: tn.save(path / "t.npy", tn.ones(1), metadata={"a": "b"}),
            ValueError,
            "save: .npy has no metadata (hint: .safetensors)",
        ),
        (
            lambda path: tn.save(path / "t", {}, metadata={"droveway-tree/1": "null"}),
            ValueError,
            "save: 'droveway-tree/1' is no key for metadata of yours",
        ),
    ],
)
def test_what_cannot_be_saved_is_named(tmp_path, call, error, text):
    with pytest.raises(error) as caught:
        call(tmp_path)
    assert str(caught.value) == text
    assert list(tmp_path.iterdir()) == []


def test_saving_and_loading_need_no_numpy(python):
    done = python(
        "import sys, tensor as tn\n"
        "tn.save('t', {'a': [tn.ones(3)]}); print(tn.load('t')['a'][0].tolist(), 'numpy' in sys.modules)\n"
        "tn.save('t.npy', tn.arange(2)); print(tn.load('t.npy').tolist(), 'numpy' in sys.modules)"
    )
    assert (done.stdout, done.stderr) == ("[1.0, 1.0, 1.0] False\n[0, 1] False\n", "")
