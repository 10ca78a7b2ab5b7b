"""Sine, cosine and atan2 of Python floats from + − × ÷ and sqrt alone, so that no C library decides a last bit.

Meant for coordinates: a handful of angles at import, not arrays (those have `tensor.elementary`).
"""

from __future__ import annotations

import math

from tensor.float_mode import plain_mode

RADIANS_PER_DEGREE = 0.017453292519943295
DEGREES_PER_RADIAN = 57.29577951308232
_QUARTER_TURN_HIGH = 1.5707963267341256  # π/2 in two parts: the first has 33 bits, so that its multiples are exact
_QUARTER_TURN_LOW = 6.077100506506192e-11
_ANGLE_MAX = 1e5
_NEWTON_STEPS = 5

# Taylor's coefficients; what is left out is below 2^-56 of the result for |r| ≤ π/4.
with plain_mode():  # the host may have another one at the import
    _SINE = tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in range(1, 9))
    _COSINE = tuple((-1.0) ** k / math.factorial(2 * k) for k in range(1, 9))


def sin_cos(angle: float) -> tuple[float, float]:
    """(sine, cosine) of an angle in radians, |angle| ≤ 1e5; ValueError beyond.

    >>> sin_cos(0.5)
    (0.479425538604203, 0.8775825618903728)
    """
    if not abs(angle) <= _ANGLE_MAX:
        raise ValueError(f"sin_cos: expected an angle of at most {_ANGLE_MAX} radians, got {angle}")
    turns = round(angle / (_QUARTER_TURN_HIGH + _QUARTER_TURN_LOW))
    r = (angle - turns * _QUARTER_TURN_HIGH) - turns * _QUARTER_TURN_LOW
    square = r * r
    sine = r + r * square * _horner(_SINE, square)
    cosine = 1.0 + square * _horner(_COSINE, square)
    return ((sine, cosine), (cosine, -sine), (-sine, -cosine), (-cosine, sine))[turns % 4]


def atan2(y: float, x: float) -> float:
    """The angle of the finite point (x, y) in radians, from −π to π; 0 for the origin.

    Newton's step on the angle between (x, y) and the direction found so far; it converges cubically.

    >>> atan2(1.0, 1.0), atan2(1.0, -1.0)
    (0.7853981633974483, 2.356194490192345)
    """
    scale = max(abs(x), abs(y))
    if scale == 0:
        return 0.0
    x, y = x / scale, y / scale
    if x >= abs(y):
        angle = y / (x + 0.28 * y * y / x)
    elif x <= -abs(y):
        angle = (math.pi if y >= 0 else -math.pi) + y / (x + 0.28 * y * y / x)
    else:
        angle = math.copysign(math.pi / 2, y) - x / (y + 0.28 * x * x / y)
    for _ in range(_NEWTON_STEPS):
        sine, cosine = sin_cos(angle)
        angle += (y * cosine - x * sine) / (x * cosine + y * sine)
    return angle


def _horner(coefficients: tuple[float, ...], x: float) -> float:
    value = 0.0
    for c in reversed(coefficients):
        value = value * x + c
    return value
