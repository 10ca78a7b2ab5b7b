"""XXH3, 64 bits, without a seed and with its own secret: the twin of storage/kernels/xxh3.cpp.

Source: the XXH3 algorithm of the xxHash specification, version 0.8. RocksDB's tables carry it for every block.
"""

from __future__ import annotations

import struct

_MASK = (1 << 64) - 1
_P32_1, _P32_2, _P32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
_P64_1, _P64_2, _P64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P64_4, _P64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_STRIPE_BYTES, _BLOCK_STRIPES = 64, 16
_START = (_P32_3, _P64_1, _P64_2, _P64_3, _P64_4, _P32_2, _P64_5, _P32_1)
_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)


def xxh3(data: bytes) -> int:
    """XXH3_64bits of `data`, below 2**64.

    >>> hex(xxh3(b"")), hex(xxh3(b"123456789"))
    ('0x2d06800538d394c2', '0x72dcb18b67a17dff')
    """
    size = len(data)
    if size > 240:
        return _long(data)
    if size > 16:
        return _middle(data)
    if size > 8:
        low = _u64(data, 0) ^ _u64(_SECRET, 24) ^ _u64(_SECRET, 32)
        high = _u64(data, size - 8) ^ _u64(_SECRET, 40) ^ _u64(_SECRET, 48)
        return _avalanche(size + int.from_bytes(low.to_bytes(8, "little"), "big") + high + _folded(low, high))
    if size >= 4:
        h = _u32(data, size - 4) + (_u32(data, 0) << 32) ^ _u64(_SECRET, 8) ^ _u64(_SECRET, 16)
        h ^= _rotated(h, 49) ^ _rotated(h, 24)
        h = h * 0x9FB21C651E98DF25 & _MASK
        h = (h ^ (h >> 35) + size) * 0x9FB21C651E98DF25 & _MASK
        return h ^ h >> 28
    if size:
        h = data[0] << 16 | data[size >> 1] << 24 | data[-1] | size << 8
        return _old_avalanche(h ^ _u32(_SECRET, 0) ^ _u32(_SECRET, 4))
    return _old_avalanche(_u64(_SECRET, 56) ^ _u64(_SECRET, 64))


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _u64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _rotated(x: int, n: int) -> int:
    return (x << n | x >> (64 - n)) & _MASK


def _folded(a: int, b: int) -> int:
    product = a * b
    return product & _MASK ^ product >> 64


def _avalanche(h: int) -> int:
    h &= _MASK
    h = (h ^ h >> 37) * 0x165667919E3779F9 & _MASK
    return h ^ h >> 32


def _old_avalanche(h: int) -> int:
    h = (h ^ h >> 33) * _P64_2 & _MASK
    h = (h ^ h >> 29) * _P64_3 & _MASK
    return h ^ h >> 32


def _mixed(data: bytes, at: int, key: int) -> int:
    return _folded(_u64(data, at) ^ _u64(_SECRET, key), _u64(data, at + 8) ^ _u64(_SECRET, key + 8))


def _middle(data: bytes) -> int:
    size = len(data)
    total = size * _P64_1
    if size <= 128:
        for i in range((size - 1) // 32, -1, -1):
            total += _mixed(data, 16 * i, 32 * i) + _mixed(data, size - 16 * i - 16, 32 * i + 16)
        return _avalanche(total)
    total = _avalanche(total + sum(_mixed(data, 16 * i, 16 * i) for i in range(8)))
    total += sum(_mixed(data, 16 * i, 16 * (i - 8) + 3) for i in range(8, size // 16))
    return _avalanche(total + _mixed(data, size - 16, 119))


def _accumulate(lanes: list[int], data: bytes, at: int, key: int) -> None:
    values = struct.unpack_from("<8Q", data, at)
    for i, (value, secret) in enumerate(zip(values, struct.unpack_from("<8Q", _SECRET, key), strict=True)):
        keyed = value ^ secret
        lanes[i ^ 1] = lanes[i ^ 1] + value & _MASK
        lanes[i] = lanes[i] + (keyed & 0xFFFFFFFF) * (keyed >> 32) & _MASK


def _long(data: bytes) -> int:
    size = len(data)
    lanes = list(_START)
    for stripe in range((size - 1) // _STRIPE_BYTES):
        _accumulate(lanes, data, _STRIPE_BYTES * stripe, 8 * (stripe % _BLOCK_STRIPES))
        if stripe % _BLOCK_STRIPES == _BLOCK_STRIPES - 1:
            for i, secret in enumerate(struct.unpack_from("<8Q", _SECRET, 128)):
                lanes[i] = (lanes[i] ^ lanes[i] >> 47 ^ secret) * _P32_1 & _MASK
    _accumulate(lanes, data, size - _STRIPE_BYTES, 121)
    total = size * _P64_1
    for i in range(4):
        total += _folded(lanes[2 * i] ^ _u64(_SECRET, 11 + 16 * i), lanes[2 * i + 1] ^ _u64(_SECRET, 19 + 16 * i))
    return _avalanche(total)
