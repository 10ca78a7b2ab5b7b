"""Canonical msgpack: check values, round trips, and every class of malformed input with its full error text."""

import math
import struct
import tracemalloc

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from storage import CanonicalError
from storage.canonical import pack, scan, unpack

CHECK_VALUES = [
    (0, "00"),
    (127, "7f"),
    (128, "cc80"),
    (255, "ccff"),
    (256, "cd0100"),
    (65535, "cdffff"),
    (65536, "ce00010000"),
    (2**32 - 1, "ceffffffff"),
    (2**32, "cf0000000100000000"),
    (2**64 - 1, "cfffffffffffffffff"),
    (-1, "ff"),
    (-32, "e0"),
    (-33, "d0df"),
    (-128, "d080"),
    (-129, "d1ff7f"),
    (-32768, "d18000"),
    (-32769, "d2ffff7fff"),
    (-(2**31), "d280000000"),
    (-(2**31) - 1, "d3ffffffff7fffffff"),
    (-(2**63), "d38000000000000000"),
    (1.0, "cb3ff0000000000000"),
    (0.0, "cb0000000000000000"),
    (-0.0, "cb8000000000000000"),
    (math.inf, "cb7ff0000000000000"),
    (math.nan, "cb7ff8000000000000"),
    (struct.unpack(">d", bytes.fromhex("fff8000000000001"))[0], "cb7ff8000000000000"),
    (None, "c0"),
    (False, "c2"),
    (True, "c3"),
    (b"", "c400"),
    ("", "a0"),
    ("é", "a2c3a9"),
    ("x" * 32, "d920" + "78" * 32),
    ([], "90"),
    ({}, "80"),
    ({"b": 1, "a": 2}, "82a16102a16201"),
    ({"é": 0, "z": 0, "zz": 0}, "83a17a00a27a7a00a2c3a900"),
]

MALFORMED = [
    ("", "byte 0: the data ends where a value is expected"),
    ("92c400", "byte 3: the data ends where a value is expected"),
    ("0000", "byte 1: 1 bytes follow the value"),
    ("80c1", "byte 1: 1 bytes follow the value"),
    ("c1", "byte 0: 0xc1 is no msgpack type"),
    ("cc7f", "byte 0: 127 is not in its shortest form"),
    ("cd00ff", "byte 0: 255 is not in its shortest form"),
    ("ce0000ffff", "byte 0: 65535 is not in its shortest form"),
    ("cf00000000ffffffff", "byte 0: 4294967295 is not in its shortest form"),
    ("d0e0", "byte 0: -32 is not in its shortest form"),
    ("d1ff80", "byte 0: -128 is not in its shortest form"),
    ("d2ffff8000", "byte 0: -32768 is not in its shortest form"),
    ("d3ffffffff80000000", "byte 0: -2147483648 is not in its shortest form"),
    ("d001", "byte 0: 1 is not negative and must be unsigned"),
    ("d30000000100000000", "byte 0: 4294967296 is not negative and must be unsigned"),
    ("cd01", "byte 0: the header needs 2 more bytes, 1 follow"),
    ("d3ff", "byte 0: the header needs 8 more bytes, 1 follow"),
    ("cb3ff0", "byte 0: the header needs 8 more bytes, 2 follow"),
    ("ca3f800000", "byte 0: floats have 64 bits, got a 32-bit float"),
    ("cb7ff8000000000001", "byte 0: NaN is 7ff8000000000000, got 7ff8000000000001"),
    ("cbfff8000000000000", "byte 0: NaN is 7ff8000000000000, got fff8000000000000"),
    ("cb7ff0000000000001", "byte 0: NaN is 7ff8000000000000, got 7ff0000000000001"),
    ("d91f" + "78" * 31, "byte 0: a length of 31 is not in its shortest form"),
    ("da00ff" + "78" * 255, "byte 0: a length of 255 is not in its shortest form"),
    ("db0000ffff" + "78" * 65535, "byte 0: a length of 65535 is not in its shortest form"),
    ("c500ff" + "00" * 255, "byte 0: a length of 255 is not in its shortest form"),
    ("c60000ffff" + "00" * 65535, "byte 0: a length of 65535 is not in its shortest form"),
    ("dc000f" + "00" * 15, "byte 0: a length of 15 is not in its shortest form"),
    ("dd0000ffff" + "00" * 65535, "byte 0: a length of 65535 is not in its shortest form"),
    ("de0001a16100", "byte 0: a length of 1 is not in its shortest form"),
    ("df00000001a16100", "byte 0: a length of 1 is not in its shortest form"),
    ("a378", "byte 0: the header claims 3 bytes, 1 follow"),
    ("c403ff", "byte 0: the header claims 3 bytes, 1 follow"),
    ("c6ffffffff00", "byte 0: the header claims 4294967295 bytes, 1 follow"),
    ("dbffffffff", "byte 0: the header claims 4294967295 bytes, 0 follow"),
    ("93c0c0", "byte 0: the header claims 3 elements, 2 bytes follow"),
    ("ddffffffff", "byte 0: the header claims 4294967295 elements, 0 bytes follow"),
    ("dfffffffff00", "byte 0: the header claims 8589934590 elements, 1 bytes follow"),
    ("dd0000", "byte 0: the header needs 4 more bytes, 2 follow"),
    ("92a161dcffff", "byte 3: the header claims 65535 elements, 0 bytes follow"),
    ("8100c0", "byte 1: map keys are strings, got type byte 0x00"),
    ("81c40161c0", "byte 1: map keys are strings, got type byte 0xc4"),
    ("8190c0", "byte 1: map keys are strings, got type byte 0x90"),
    ("82a16100a16100", "byte 4: map key 'a' appears twice"),
    ("82a16200a16100", "byte 4: map key 'a' must come before 'b'"),
    ("82a2616100a16100", "byte 5: map key 'a' must come before 'aa'"),
    ("91a1ff", "byte 2: invalid UTF-8: invalid start byte"),
    ("a2c328", "byte 1: invalid UTF-8: invalid continuation byte"),
    ("a2c080", "byte 1: invalid UTF-8: invalid start byte"),  # overlong NUL
    ("a4f0808080", "byte 1: invalid UTF-8: invalid continuation byte"),  # overlong
    ("a3eda080", "byte 1: invalid UTF-8: invalid continuation byte"),  # surrogate
    ("a4f4908080", "byte 1: invalid UTF-8: invalid continuation byte"),  # above U+10FFFF
    ("81a1ff00", "byte 2: invalid UTF-8: invalid start byte"),
    *[
        (code + "01" * 20, "byte 0: extension types are not allowed")
        for code in ("c7", "c8", "c9", "d4", "d5", "d6", "d7", "d8")
    ],
    ("d6ff00000000", "byte 0: extension types are not allowed"),  # timestamp
    ("91" * 17 + "c0", "byte 16: nesting is deeper than 16"),
    ("81a161" * 17 + "c0", "byte 48: nesting is deeper than 16"),
]

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=40)
    | st.binary(max_size=300),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=5), inner, max_size=20),
    max_leaves=30,
)


@pytest.mark.parametrize(("value", "encoded"), CHECK_VALUES)
def test_a_check_value_has_its_bytes_and_comes_back(value, encoded):
    assert pack(value).hex() == encoded
    back = unpack(bytes.fromhex(encoded))
    assert pack(back).hex() == encoded
    assert type(back) is type(value)


@pytest.mark.parametrize(("encoded", "text"), MALFORMED)
def test_malformed_bytes_are_refused_with_their_offset(encoded, text):
    with pytest.raises(CanonicalError) as caught:
        unpack(bytes.fromhex(encoded))
    assert str(caught.value) == f"canonical msgpack: {text}"
    assert caught.value.offset == int(text.split()[1].rstrip(":"))


@given(values)
@example([[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]])
def test_every_value_round_trips(value):
    data = pack(value)
    assert unpack(data) == value
    assert pack(unpack(data)) == data


@given(values)
def test_the_order_of_a_dict_never_reaches_the_bytes(value):
    def reversed_dicts(v):
        if isinstance(v, dict):
            return {k: reversed_dicts(v[k]) for k in reversed(v)}
        return [reversed_dicts(item) for item in v] if isinstance(v, list) else v

    assert pack(reversed_dicts(value)) == pack(value)


def canonical_by_decoding(data):
    """The rule as it is written: decode, encode again, compare bytes."""
    try:
        return pack(msgpack.unpackb(data, raw=False, strict_map_key=True)) == data
    except (ValueError, TypeError, msgpack.exceptions.UnpackException):
        return False


@given(st.binary(max_size=40) | values.map(pack), st.integers(0, 39), st.integers(0, 255))
def test_the_scan_agrees_with_decoding_and_encoding_again(data, at, byte):
    changed = bytearray(data)
    if at < len(changed):
        changed[at] = byte
    data = bytes(changed)
    try:
        scan(data)
        accepted = True
    except CanonicalError:
        accepted = False
    assert accepted == canonical_by_decoding(data)


@pytest.mark.parametrize(
    "data",
    [
        b"\x91" * 100_000,
        b"\x81\xa1a" * 100_000,
        b"\xdd\xff\xff\xff\xff" + bytes(100_000),
        b"\xdf\x7f\xff\xff\xff" + bytes(100_000),
        b"\xdd\x00\xff\xff\xff" + bytes(100_000),
        b"\xc6\xff\xff\xff\xff" + bytes(100_000),
        b"\xdb\xff\xff\xff\xff" + bytes(100_000),
        b"\xdd\x00\x01\x86\xa0" + bytes(99_999) + b"\xc1",
        b"\xdb\x00\x01\x86\xa0" + b"x" * 99_999 + b"\xff",
    ],
    ids=["arrays", "maps", "array header", "map header", "16 M array", "bin header", "str header", "late", "utf-8"],
)
def test_refusing_takes_less_memory_than_twice_the_input(data):
    tracemalloc.start()
    try:
        with pytest.raises(CanonicalError):
            unpack(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * len(data)


def test_input_above_the_limit_is_refused_unread():
    with pytest.raises(CanonicalError) as caught:
        unpack(b"\xc1" * 11, bytes_max=10)
    assert str(caught.value) == "canonical msgpack: byte 0: 11 bytes are more than the limit of 10"


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (2**64, CanonicalError, "integers lie in [-2**63, 2**64), got 18446744073709551616"),
        (-(2**63) - 1, CanonicalError, "integers lie in [-2**63, 2**64), got -9223372036854775809"),
        ("\ud800", CanonicalError, "string is not Unicode text: surrogates not allowed at character 0"),
        ({"\udfff": 1}, CanonicalError, "string is not Unicode text: surrogates not allowed at character 0"),
        ({1: 2}, TypeError, "map keys are strings, got int"),
        (
            {1, 2},
            TypeError,
            "canonical msgpack holds None, bool, int, float, str, bytes, list, tuple and dict, got set",
        ),
        (
            bytearray(1),
            TypeError,
            "canonical msgpack holds None, bool, int, float, str, bytes, list, tuple and dict, got bytearray",
        ),
    ],
)
def test_a_value_without_canonical_bytes_is_refused(value, kind, text):
    with pytest.raises(kind) as caught:
        pack([value])
    assert str(caught.value) == text


def test_nesting_has_the_same_limit_in_both_directions():
    deep = []
    for _ in range(15):
        deep = [deep]
    assert unpack(pack(deep)) == deep
    with pytest.raises(CanonicalError, match=r"^nesting is deeper than the limit$"):
        pack([deep])
    with pytest.raises(CanonicalError, match=r"byte 16: nesting is deeper than 16$"):
        unpack(b"\x91" * 16 + b"\x90")


def test_only_bytes_are_decoded():
    with pytest.raises(TypeError, match=r"^canonical msgpack is decoded from bytes, got bytearray$"):
        unpack(bytearray(b"\x00"))


@pytest.mark.parametrize("shift", range(4))
@pytest.mark.parametrize("letter", "aé€😀")
def test_long_text_is_checked_across_the_pieces_it_is_read_in(letter, shift):
    text = "x" * shift + letter * 9000
    data = pack(text)
    assert unpack(data) == text
    with pytest.raises(CanonicalError) as caught:
        scan(data[:-1] + b"\xff")
    assert caught.value.offset == len(data) - len(letter.encode())
