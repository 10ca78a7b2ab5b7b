"""The twin of the frames' CRC (coord/kernels/frame_crc.cpp)."""

from __future__ import annotations


def _crc_table() -> tuple[int, ...]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)  # noqa: PLW2901
        table.append(value)
    return tuple(table)


_CRC = _crc_table()


def crc32c(data: bytes) -> int:
    """Castagnoli CRC, reflected polynomial 0x82F63B78 (RFC 3720 appendix B.4).

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _CRC[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF
