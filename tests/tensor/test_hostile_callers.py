"""The tensor object under callers that lie, change their arguments meanwhile, or do several things at once."""

from __future__ import annotations

import copy
import ctypes
import gc
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensor as tn
from tensor import _kernels


class Item:
    """An element of a list that does something when it is asked for its value or its index."""

    def __init__(self, action: Callable[[], Any]) -> None:
        self.action = action

    def item(self) -> float:
        self.action()
        return 1.0

    def __index__(self) -> int:
        self.action()
        return 1


@pytest.mark.parametrize(
    "change", [list.clear, lambda v: v.extend([1.0] * 10_000), lambda v: v.insert(0, 2.0), lambda v: v.pop()]
)
def test_a_list_that_its_elements_change_while_it_is_read_is_an_error(change: Callable[[list[Any]], Any]) -> None:
    values: list[Any] = []
    values += [Item(lambda: change(values)), *[2.0] * 50]
    with pytest.raises(RuntimeError, match=r"^asarray: a list of 51 elements has \d+ after some were read$"):
        tn.asarray(values)


def test_a_list_that_grows_deeper_on_the_second_reading_is_an_error() -> None:
    inner: list[Any] = [2.0]
    outer: list[Any] = []
    seen = [0]

    def deeper() -> None:
        seen[0] += 1
        if seen[0] == 2:
            outer[1][0] = [1.0, 2.0, 3.0]

    outer += [[Item(deeper)], inner]
    with pytest.raises(RuntimeError, match=r"^asarray: a list was changed while it was read$"):
        tn.asarray(outer)


@pytest.mark.parametrize("call", ["zeros", "reshape", "expand", "permute", "squeeze", "Spec"])
def test_a_shape_that_its_own_lengths_change_is_read_as_it_was(call: str) -> None:
    shape: list[Any] = []

    def change() -> None:
        shape.clear()
        gc.collect()

    shape += [Item(change), 2, 3]
    x = tn.ones((1, 2, 3))
    calls: dict[str, Callable[[], Any]] = {
        "zeros": lambda: tn.zeros(shape).shape,
        "reshape": lambda: x.reshape(shape).shape,
        "expand": lambda: x.expand(shape).shape,
        "permute": lambda: x.permute(shape).shape,
        "squeeze": lambda: x.squeeze(shape).shape,
        "Spec": lambda: _kernels.Spec(shape, "float32").shape,
    }
    if call in ("permute", "squeeze"):
        with pytest.raises((tn.AxisError, tn.ShapeError)):
            calls[call]()
    else:
        assert calls[call]() == (1, 2, 3)


class Neither:
    def __bool__(self) -> bool:
        raise ArithmeticError("neither")


UNDECIDED: Any = Neither()


@pytest.mark.parametrize(
    "call",
    [
        lambda: tn.ones((3,)).reshape(3, copy=UNDECIDED),
        lambda: tn.asarray([1.0], copy=UNDECIDED),
        lambda: tn.from_dlpack(np.ones(3), copy=UNDECIDED),
        lambda: tn.ones((3,)).__dlpack__(copy=UNDECIDED),
    ],
)
def test_a_truth_that_raises_comes_through(call: Callable[[], Any]) -> None:
    with pytest.raises(ArithmeticError, match=r"^neither$"):
        call()


def test_axes_beyond_a_machine_word_are_out_of_range() -> None:
    with pytest.raises(tn.AxisError, match=r"^sum: axis 1180591620717411303424 is out of range for 1 dimensions$"):
        tn.ones((3,)).sum(axis=2**70)


FIRST = (
    "broadcast_arrays broadcast_to empty_like expand_dims flatten flip full_like matrix_transpose "
    "meshgrid moveaxis ones_like pad permute_dims repeat reshape roll split "
    "squeeze tile tril triu unstack zeros_like"
)


@pytest.mark.parametrize("name", FIRST.split())
@pytest.mark.parametrize("value", ["abc", None, 3])
def test_a_function_of_tensors_says_that_it_got_none(name: str, value: Any) -> None:
    more: dict[str, tuple[Any, ...]] = {
        "broadcast_to": ((2,),),
        "full_like": (1,),
        "moveaxis": (0, 0),
        "pad": ((0, 1),),
        "permute_dims": ((0,),),
        "repeat": (2,),
        "reshape": ((1,),),
        "roll": (1,),
        "split": (1,),
        "squeeze": (0,),
        "tile": ((2,),),
    }
    with pytest.raises(TypeError, match=rf"^{name}: expected a Tensor, got {type(value).__name__} \(hint: asarray\)$"):
        getattr(tn, name)(value, *more.get(name, ()))


def test_an_endless_shape_is_refused_after_as_many_lengths_as_a_tensor_has_dimensions() -> None:
    for call in (tn.zeros, tn.ones((1,)).reshape, tn.ones((1,)).expand, tn.ones((1,)).permute):
        with pytest.raises(tn.ShapeError, match=r": a tensor has at most 16 dimensions, got more$"):
            call(range(10**15))


def test_a_type_that_is_none_is_named_by_every_rule_of_promotion() -> None:
    for call in (
        lambda: tn.promote_types("abc", "int8"),
        lambda: tn.result_type(tn.ones(2), "abc"),
        lambda: tn.result_type(tn.int8, object),
    ):
        with pytest.raises(tn.DtypeError, match=r"^dtype must be one of tensor's element types"):
            call()
    x = tn.ones((2,), dtype="uint16")
    with pytest.raises(tn.DtypeError, match=r"^in place: uint16 cannot take the float32 that uint16 and float give"):
        x //= np.float64(2)


@pytest.mark.parametrize("device", [5, [1, 0], "cpu", object()])
def test_a_dlpack_device_that_is_no_pair_is_a_type_error(device: Any) -> None:
    with pytest.raises(TypeError, match=r"^__dlpack__: dl_device must be a pair of ints, got "):
        tn.ones((3,)).__dlpack__(dl_device=device)


CHAINS: dict[str, Callable[[Any], Any]] = {
    "memoryviews": lambda x: tn.asarray(memoryview(x)),
    "arrays": lambda x: tn.asarray(np.asarray(x)),
    "dlpack": lambda x: tn.from_dlpack(np.from_dlpack(x)),
}


@pytest.mark.parametrize("link", [*CHAINS, "gradients"])
def test_a_hundred_thousand_tensors_that_own_each_other_end_in_a_loop(link: str) -> None:
    x = tn.ones((1,))
    for _ in range(100_000):
        if link == "gradients":
            y = tn.ones((1,))
            y.grad = x
            x = y
        else:
            x = CHAINS[link](x)
    assert x.item() == 1
    del x


def test_two_imports_of_one_array_overlap_and_in_place_is_as_if_copied() -> None:
    for target, source in ((slice(1, None), slice(None, -1)), (slice(None), slice(None, None, -1))):
        a = np.arange(40_000, dtype=np.float32)
        want = a.copy()
        want[target] += a[source].copy()
        x, y = tn.asarray(a)[target], tn.asarray(a[source])
        x += y
        assert (a == want).all()


def test_a_tensor_and_a_buffer_over_it_overlap_and_in_place_is_as_if_copied() -> None:
    x = tn.arange(5000, dtype="float32")
    x += tn.asarray(memoryview(x))[::-1]
    assert bool((x == 4999).all())
    x = tn.arange(5000, dtype="float32")
    x[1:] = tn.from_dlpack(np.from_dlpack(x))[:-1]
    assert x.tolist() == [0, *range(4999)]


def test_a_view_whose_elements_share_places_cannot_be_changed() -> None:
    a = np.arange(100, dtype=np.float32)
    for shape, strides in (((98, 3), (4, 4)), ((10, 10), (8, 4)), ((50, 2, 2), (4, 4, 4))):
        x = tn.asarray(np.lib.stride_tricks.as_strided(a, shape, strides))
        for change in (lambda x: x.__iadd__(1.0), lambda x: x.__setitem__(0, 1.0), lambda x: x.copy_(2.0)):
            with pytest.raises(tn.ReadOnlyError, match="several elements share one place in memory"):
                change(x)
    assert (a == np.arange(100)).all()
    for view in (
        tn.ones((6, 6)).T[::-2, ::3],
        tn.ones((3, 4, 5)).permute(2, 0, 1)[:, ::-1],
        tn.ones((1, 5)).expand(1, 5),
    ):
        view.__iadd__(1.0)  # distinct places, in whatever order
        assert view.sum().item() == 2 * view.size


def test_booleans_of_other_bytes_than_0_and_1_become_truths() -> None:
    raw = np.array([2, 255, 0, 1, 4], np.uint8)
    x = tn.asarray(raw.view(np.bool_))
    assert x.sum().item() == 4
    assert bytes(x) == b"\x01\x01\x00\x01\x01"
    assert tn.asarray(np.array([1, 0], np.uint8).view(np.bool_)).data_address != 0
    with pytest.raises(ValueError, match="whose booleans are not 0 and 1, cannot become a tensor without a copy"):
        tn.asarray(raw.view(np.bool_), copy=False)
    with pytest.raises(
        tn.DtypeError, match=r"^bitcast: the bytes of a bool are 0 and 1, those of this uint8 tensor are not"
    ):
        tn.bitcast(tn.asarray(raw), "bool")


def test_what_cannot_be_had_without_a_copy_is_refused_if_a_copy_is_forbidden() -> None:
    odd = np.frombuffer(bytes(13), np.uint8)[1:].view(np.float32)
    with pytest.raises(ValueError, match="cannot become a tensor without a copy"):
        tn.asarray(odd, copy=False)
    with pytest.raises(ValueError, match=r"^asarray: a range cannot become a tensor without a copy$"):
        tn.asarray(range(3), copy=False)
    with pytest.raises(ValueError, match=r"^asarray: Python numbers cannot become a tensor without a copy$"):
        tn.asarray([1.0], copy=False)

    class Old:  # a producer of before DLPack 1.0, which knows no copy
        array = np.ones(3)

        def __dlpack__(self) -> Any:
            return self.array.__dlpack__()

    old = Old()
    x = tn.from_dlpack(old, copy=True)
    old.array[:] = 5
    assert x.tolist() == [1, 1, 1]


def test_a_sequence_that_claims_more_than_there_is_memory_for_is_read_to_its_end() -> None:
    class Claims:
        def __len__(self) -> int:
            return 10**12

        def __getitem__(self, i: int) -> float:
            if i == 3:
                raise IndexError
            return 0.5 * i

    assert tn.asarray(Claims()).tolist() == [0, 0.5, 1]


def test_a_capsule_without_a_shape_is_refused() -> None:
    class DlTensor(ctypes.Structure):
        _fields_ = [
            (n, ctypes.c_uint64)
            for n in ("data", "device", "ndim_and_type", "shape", "strides", "offset", "context", "deleter")
        ]

    made = DlTensor(device=1, ndim_and_type=2 | 2 << 32 | 32 << 40 | 1 << 48)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    with pytest.raises(BufferError, match=r"^from_dlpack: the shape is NULL for 2 dimensions$"):
        _kernels.from_dlpack(new(ctypes.addressof(made), b"dltensor", None))


def test_operations_that_are_no_activations_do_not_end_a_product() -> None:
    x, out = tn.ones((3, 3)), tn.zeros((3, 3))
    image, weight, result = tn.ones((1, 1, 3, 3)), tn.ones((1, 1, 1, 1)), tn.zeros((1, 1, 3, 3))
    for op in ("add", "where", "isnan", "cast"):
        code = _kernels.ELEMENTWISE[op]
        with pytest.raises(ValueError, match="no such activation for this element type"):
            _kernels.product(x, x, out, None, code)
        with pytest.raises(ValueError, match="no such activation for this element type"):
            _kernels.convolution(image, weight, result, (1, 1), (0, 0), (1, 1), (1, 1), 1, False, None, code)


def test_indices_that_are_also_the_result_are_refused_or_checked_again() -> None:
    numbers = tn.zeros((4,), dtype="int64")
    with pytest.raises(ValueError, match="overlap"):
        _kernels.sparse_rows(numbers, numbers)
    memory = tn.arange(12, dtype="int64")
    with pytest.raises(IndexError, match="is out of range for 8 elements"):
        _kernels.take_rows(tn.full((8,), 10**12, dtype="int64"), memory[:6], memory[1:7])


def test_a_primitive_that_was_never_made_ready_is_an_error() -> None:
    bare = _kernels.PrimitiveBase.__new__(_kernels.PrimitiveBase)
    x = tn.ones((3,)).requires_grad_()
    assert bare.name == "a primitive without name"
    with pytest.raises(TypeError, match=r"^a primitive without name: input 0 must be a Tensor, got int"):
        _kernels.apply(bare, (1,), None)
    with pytest.raises(AttributeError):
        _kernels.apply(bare, (x, x), None)


def test_a_tensor_that_only_claims_to_be_traced_has_no_elements_to_give() -> None:
    class Claims(tn.Tensor):
        pass

    x = Claims(_kernels.Spec((3,), "float32"), traced=True)
    for call in (
        lambda: _kernels.alias(x),
        lambda: Claims(x),
        lambda: x + 1,
        lambda: x[0],
        x.clone,
        lambda: bool(x),
        x.item,
        lambda: float(x),
        lambda: memoryview(x),
        lambda: x.__setitem__(0, 1.0),
        lambda: tn.ones((3,)).copy_(x),
        lambda: x @ x,
        x.sum,
        x.abi_header,
        lambda: _kernels.shadow(x),
    ):
        with pytest.raises((TypeError, BufferError, tn.TraceError)) as caught:
            call()
        assert "traced" in str(caught.value) or "Tensor with a value" in str(caught.value)


def test_a_node_has_more_inputs_than_sixteen_bits_count() -> None:
    parts = [tn.ones((1,)).requires_grad_() for _ in range(70_000)]
    whole = tn.concat(parts)
    assert len(whole.node.edges) == 70_000
    (whole * tn.arange(70_000, dtype="float32")).sum().backward()
    assert [parts[i].grad.item() for i in (0, 4464, 69_999)] == [0, 4464, 69_999]


def test_a_list_of_numbers_that_have_a_history_keeps_it() -> None:
    x = tn.asarray(3.0).requires_grad_()
    y = tn.asarray([[x, 1.0], [2.0, x * x]])
    assert y.tolist() == [[3, 1], [2, 9]]
    y.sum().backward()
    assert x.grad.item() == 7
    assert tn.autograd.vmap(lambda v: tn.asarray([v, 2.0 * v]))(tn.asarray([1.0, 5.0])).tolist() == [[1, 2], [5, 10]]


def test_params_that_are_no_index_are_an_index_error() -> None:
    x = tn.ones((2, 3))
    for entries in ((-0.0, (0, 1, 1)), (0, (1, 2)), (None, "ab"), ((0, 1, 1), (0, 2**70, 1))):
        with pytest.raises(IndexError, match="does not fit the tensor"):
            _kernels.index_view(x, entries)


def test_a_thread_in_a_long_kernel_and_one_with_short_ones_do_not_wait_for_each_other(
    python: Callable[..., Any],
) -> None:
    code = """
import faulthandler, threading, time
import tensor as tn
faulthandler.dump_traceback_later(50, exit=True)
long, short, end = tn.ones((1500, 1500)), tn.ones((60_000,), dtype="float64"), time.monotonic() + 2
def work():
    while time.monotonic() < end:
        short + short
thread = threading.Thread(target=work)
thread.start()
while time.monotonic() < end:
    long @ long
thread.join()
print("done")
"""
    done = python(code, DROVEWAY_THREADS="2")
    assert done.stdout == "done\n", done.stderr


def test_a_signal_handler_may_use_tensors_and_the_kernel_it_interrupted_still_stops(python: Callable[..., Any]) -> None:
    code = """
import signal, time
import tensor as tn
seen = 0
tn.ones((200, 200)) @ tn.ones((200, 200))
def handler(*_):
    global seen
    b = tn.ones((200, 200))
    assert (b @ b)[0, 0].item() == 200
    seen += 1
    if seen == 3:
        raise KeyboardInterrupt
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
a = tn.ones((5000, 5000))
begin = time.monotonic()
try:
    while True:
        a @ a
except KeyboardInterrupt:
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(seen, time.monotonic() - begin < 3)
"""
    done = python(code)
    assert done.stdout == "3 True\n", done.stderr


def test_backward_from_several_threads_through_one_graph_is_a_gradient_or_an_error() -> None:
    for _ in range(15):
        x = tn.ones((100_000,)).requires_grad_()
        w = tn.ones((100_000,)).requires_grad_()
        y = x
        for _ in range(5):
            y = y * w
        total = y.sum()
        errors: list[BaseException] = []

        def work(total: Any = total, errors: list[BaseException] = errors) -> None:
            try:
                total.backward()
            except BaseException as wrong:
                errors.append(wrong)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(errors) >= 2
        assert all(isinstance(error, (tn.GradientError, RuntimeError)) for error in errors), errors


def test_an_index_that_another_thread_changes_is_never_followed_outside() -> None:
    x, at = tn.ones((1000, 64)), tn.zeros((200_000,), dtype="int64")
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            at.copy_(10**12)
            at.copy_(0)

    thread = threading.Thread(target=work)
    thread.start()
    errors = 0
    try:
        for _ in range(30):
            try:
                assert tn.take(x, at, axis=0).sum().item() == 200_000 * 64
            except IndexError:
                errors += 1
    finally:
        stop.set()
        thread.join()
    assert 0 <= errors <= 30


def test_a_subinterpreter_is_refused(python: Callable[..., Any]) -> None:
    code = """
import sys
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters
import tensor as tn
other = interpreters.create()
try:
    said = interpreters.run_string(other, f"import sys; sys.path[:0] = {sys.path!r}; import tensor")
except Exception as error:
    said = error
print("main interpreter only" in str(said), tn.ones(3).sum().item())
"""
    done = python(code)
    assert done.stdout == "True 3.0\n", done.stderr


def test_copies_and_pickles_keep_elements_type_device_and_wish_but_no_history() -> None:
    x = tn.ones((3,), device="ref").requires_grad_()
    for again in (copy.copy(x.detach()), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert again.tolist() == [1, 1, 1]
        assert again.device == "ref"
        assert again.data_address != x.data_address
    assert copy.copy(x * 2).node is not None  # a copy is an operation like any other
    pair = copy.deepcopy([x, x])
    assert pair[0] is pair[1] and pair[0].requires_grad
    for call, text in (
        (copy.deepcopy, "deepcopy: only a tensor without history"),
        (pickle.dumps, "pickle: only a tensor without history"),
    ):
        with pytest.raises(RuntimeError, match=text):
            call(x * 2)
