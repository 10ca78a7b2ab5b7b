"""Canonical msgpack: one encoding for each value, so that bytes can be compared, hashed and signed.

The format has no canonical form of its own; the rules mirror RFC 8949 section 4.2.1 and stand in
docs/formats/canonical-msgpack.md. A scan finds every violation, with its offset, before anything is decoded.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import msgpack  # type: ignore[import-untyped, unused-ignore]

from storage.errors import CanonicalError

BYTES_MAX = 16 << 20
DEPTH_MAX = 16
_PIECE_BYTES = 4096

_NAN = struct.unpack(">d", bytes.fromhex("7ff8000000000000"))[0]
_NAN_BYTES = bytes.fromhex("7ff8000000000000")

# Headers of 1, 2, 4 or 8 bytes: code → (bytes of the number, least value that needs this form).
_UNSIGNED = {0xCC: (1, 1 << 7), 0xCD: (2, 1 << 8), 0xCE: (4, 1 << 16), 0xCF: (8, 1 << 32)}
_SIGNED = {0xD0: (1, -(1 << 5)), 0xD1: (2, -(1 << 7)), 0xD2: (4, -(1 << 15)), 0xD3: (8, -(1 << 31))}
_BIN = {0xC4: (1, 0), 0xC5: (2, 1 << 8), 0xC6: (4, 1 << 16)}
_STR = {0xD9: (1, 32), 0xDA: (2, 1 << 8), 0xDB: (4, 1 << 16)}
_ARRAY = {0xDC: (2, 16), 0xDD: (4, 1 << 16)}
_MAP = {0xDE: (2, 16), 0xDF: (4, 1 << 16)}
_EXT = frozenset((0xC7, 0xC8, 0xC9, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8))


def pack(value: object, *, depth_max: int = DEPTH_MAX) -> bytes:
    """Encode a value of None, bool, int, float, str, bytes, list, tuple and dict as canonical msgpack.

    Dict keys are strings and are sorted by their UTF-8 bytes; every NaN becomes 7ff8000000000000.

    Raises CanonicalError for integers outside [-2**63, 2**64), strings that are not Unicode text and nesting
    deeper than `depth_max`; TypeError for any other type.

    >>> pack({"b": [1, -33], "a": 1.0}).hex()
    '82a161cb3ff0000000000000a1629201d0df'
    """
    return msgpack.packb(_ordered(value, depth_max), use_bin_type=True, strict_types=True)  # type: ignore[no-any-return]


def _ordered(value: object, depth_left: int) -> object:
    kind = type(value)
    if kind is str:
        _utf8(value)  # type: ignore[arg-type]
        return value
    if value is None or kind is bool or kind is bytes:
        return value
    if kind is int:
        if not -(1 << 63) <= value < 1 << 64:  # type: ignore[operator]
            raise CanonicalError(f"integers lie in [-2**63, 2**64), got {value}")
        return value
    if kind is float:
        return value if not math.isnan(value) else _NAN  # type: ignore[arg-type]
    if kind not in (list, tuple, dict):
        raise TypeError(
            f"canonical msgpack holds None, bool, int, float, str, bytes, list, tuple and dict, got {kind.__name__}"
        )
    if depth_left == 0:
        raise CanonicalError("nesting is deeper than the limit")
    if kind is dict:
        for key in value:  # type: ignore[attr-defined]
            if type(key) is not str:
                raise TypeError(f"map keys are strings, got {type(key).__name__}")
        keys = sorted(value, key=_utf8)  # type: ignore[call-overload]
        return {key: _ordered(value[key], depth_left - 1) for key in keys}  # type: ignore[index]
    return [_ordered(item, depth_left - 1) for item in value]  # type: ignore[attr-defined]


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise CanonicalError(f"string is not Unicode text: {error.reason} at character {error.start}") from None


def unpack(data: bytes, *, bytes_max: int = BYTES_MAX, depth_max: int = DEPTH_MAX) -> Any:
    """Decode canonical msgpack; whatever is not canonical is refused before it is decoded.

    Raises CanonicalError, whose `offset` is the first wrong byte. Refusing takes no memory beyond a copy of one
    map key, whatever sizes the headers claim.

    >>> unpack(bytes.fromhex("82a161cb3ff0000000000000a1629201d0df"))
    {'a': 1.0, 'b': [1, -33]}
    >>> unpack(bytes.fromhex("cc01"))
    Traceback (most recent call last):
    storage.errors.CanonicalError: canonical msgpack: byte 0: 1 is not in its shortest form
    """
    scan(data, bytes_max=bytes_max, depth_max=depth_max)
    return msgpack.unpackb(data, raw=False, use_list=True, strict_map_key=True)


def scan(data: bytes, *, bytes_max: int = BYTES_MAX, depth_max: int = DEPTH_MAX) -> None:
    """Check that `data` is one canonical msgpack value. Raises CanonicalError. Iterative: depth costs no stack.

    >>> scan(b"\\xdd\\xff\\xff\\xff\\xff")
    Traceback (most recent call last):
    storage.errors.CanonicalError: canonical msgpack: byte 0: the header claims 4294967295 elements, 0 bytes follow
    """
    if type(data) is not bytes:
        raise TypeError(f"canonical msgpack is decoded from bytes, got {type(data).__name__}")
    end = len(data)
    if end > bytes_max:
        raise CanonicalError(f"{end} bytes are more than the limit of {bytes_max}", 0)
    position = 0
    open_containers: list[tuple[int, bool, bytes | None]] = []
    left, in_map, last_key = 1, False, None
    while True:
        while left == 0:
            if not open_containers:
                if position != end:
                    raise CanonicalError(f"{end - position} bytes follow the value", position)
                return
            left, in_map, last_key = open_containers.pop()
        if position == end:
            raise CanonicalError("the data ends where a value is expected", position)
        left -= 1
        code = data[position]
        if in_map and left & 1:
            start, stop = _string(data, position, end)
            key = data[start:stop]
            if last_key is not None and key <= last_key:
                what = "appears twice" if key == last_key else f"must come before {last_key.decode()!r}"
                raise CanonicalError(f"map key {key.decode()!r} {what}", position)
            last_key, position = key, stop
        elif 0x80 <= code <= 0x9F or code in _ARRAY or code in _MAP:
            start, count, is_map = _container(data, position, end)
            if len(open_containers) == depth_max:
                raise CanonicalError(f"nesting is deeper than {depth_max}", position)
            open_containers.append((left, in_map, last_key))
            position, left, in_map, last_key = start, count, is_map, None
        else:
            position = _scalar(data, position, end)


def _scalar(data: bytes, position: int, end: int) -> int:
    """Where the number, text, bytes or constant at `position` stops."""
    code = data[position]
    if code <= 0x7F or code >= 0xE0 or code in (0xC0, 0xC2, 0xC3):
        return position + 1
    if code <= 0xBF or code in _STR:
        return _string(data, position, end)[1]
    if code in _BIN:
        start, length = _length(data, position, end, *_BIN[code])
        return _stop(position, start, length, end)
    if code in _UNSIGNED or code in _SIGNED:
        return _integer(data, position, end)
    if code == 0xCB:
        return _float(data, position, end)
    raise CanonicalError(_refusal(code), position)


def _refusal(code: int) -> str:
    if code == 0xCA:
        return "floats have 64 bits, got a 32-bit float"
    if code in _EXT:
        return "extension types are not allowed"
    return "0xc1 is no msgpack type"


def _length(data: bytes, position: int, end: int, width: int, least: int) -> tuple[int, int]:
    """The number after the header byte, and where what follows starts."""
    start = position + 1 + width
    if start > end:
        raise CanonicalError(f"the header needs {width} more bytes, {end - position - 1} follow", position)
    length = int.from_bytes(data[position + 1 : start], "big")
    if length < least:
        raise CanonicalError(f"a length of {length} is not in its shortest form", position)
    return start, length


def _stop(position: int, start: int, length: int, end: int) -> int:
    if length > end - start:
        raise CanonicalError(f"the header claims {length} bytes, {end - start} follow", position)
    return start + length


def _string(data: bytes, position: int, end: int) -> tuple[int, int]:
    """Where the text of the string at `position` starts and stops."""
    code = data[position]
    if 0xA0 <= code <= 0xBF:
        start, length = position + 1, code & 0x1F
    elif code in _STR:
        start, length = _length(data, position, end, *_STR[code])
    else:
        raise CanonicalError(f"map keys are strings, got type byte 0x{code:02x}", position)
    stop = _stop(position, start, length, end)
    _check_utf8(data, start, stop)
    return start, stop


def _check_utf8(data: bytes, start: int, stop: int) -> None:
    """Piece by piece: a decoded string takes up to four times the memory of its bytes."""
    while start < stop:
        end = min(start + _PIECE_BYTES, stop)
        if end < stop:
            while end > start + _PIECE_BYTES - 4 and data[end] & 0xC0 == 0x80:
                end -= 1
        try:
            data[start:end].decode()
        except UnicodeDecodeError as error:
            raise CanonicalError(f"invalid UTF-8: {error.reason}", start + error.start) from None
        start = end


def _integer(data: bytes, position: int, end: int) -> int:
    code = data[position]
    width, least = _UNSIGNED.get(code) or _SIGNED[code]
    stop = position + 1 + width
    if stop > end:
        raise CanonicalError(f"the header needs {width} more bytes, {end - position - 1} follow", position)
    value = int.from_bytes(data[position + 1 : stop], "big", signed=code in _SIGNED)
    if code in _SIGNED and value >= 0:
        raise CanonicalError(f"{value} is not negative and must be unsigned", position)
    if (code in _UNSIGNED and value < least) or (code in _SIGNED and value >= least):
        raise CanonicalError(f"{value} is not in its shortest form", position)
    return stop


def _float(data: bytes, position: int, end: int) -> int:
    stop = position + 9
    if stop > end:
        raise CanonicalError(f"the header needs 8 more bytes, {end - position - 1} follow", position)
    bits = data[position + 1 : stop]
    value = struct.unpack(">d", bits)[0]
    if math.isnan(value) and bits != _NAN_BYTES:
        raise CanonicalError(f"NaN is 7ff8000000000000, got {bits.hex()}", position)
    return stop


def _container(data: bytes, position: int, end: int) -> tuple[int, int, bool]:
    """Start of the first element, number of elements (two for each pair of a map), whether it is a map."""
    code = data[position]
    if code <= 0x9F:
        start, count, is_map = position + 1, code & 0x0F, code <= 0x8F
    else:
        is_map = code in _MAP
        start, count = _length(data, position, end, *(_MAP if is_map else _ARRAY)[code])
    count *= 2 if is_map else 1
    if count > end - start:
        raise CanonicalError(f"the header claims {count} elements, {end - start} bytes follow", position)
    return start, count, is_map
