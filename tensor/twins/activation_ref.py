"""Twins of the activation functions of float32: sigmoid silu gelu.

The definition of every bit of `kernels/include/droveway/math_activation.hpp`: the same operations in the same order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensor.elementary_ref import (
    EXP,
    LN2_HIGH32,
    LN2_LOW32,
    LOG2E32,
    MAGIC32,
    MAGIC32_BITS,
    blockwise,
    canonical,
    copysign32,
    floats32,
    horner32,
    power_of_2,
)
from tensor.fma_ref import F32, fma_f32

__all__ = ["gelu_f32", "sigmoid_f32", "silu_f32"]

U32 = NDArray[np.uint32]
fma = fma_f32

ONE, ZERO, HALF = np.float32(1), np.float32(0), np.float32(0.5)
# Φ(c + h) − ½ for c = k / 8, |h| ≤ 1/16: distance + (rest + h·Q(h)); a column for each k < 32. The distances are
# multiples of 2^-24, so that ½ ± distance is exact.
PHI = [
    floats32(
        "0x0p+0", "0x1.9774ap-5", "0x1.944d1p-4", "0x1.2b5b1p-3", "0x1.881d78p-3", "0x1.df42f8p-3", "0x1.17efp-2",
        "0x1.3ca258p-2", "0x1.5d897cp-2", "0x1.7a9414p-2", "0x1.93d08cp-2", "0x1.a9679cp-2", "0x1.bb96e4p-2",
        "0x1.caab34p-2", "0x1.d6fabcp-2", "0x1.e0dfc8p-2", "0x1.e8b43p-2", "0x1.eecdbcp-2", "0x1.f37b6cp-2",
        "0x1.f703d4p-2", "0x1.f9a42cp-2", "0x1.fb9048p-2", "0x1.fcf2ep-2", "0x1.fdee7p-2", "0x1.fe9e2p-2",
        "0x1.ff16f4p-2", "0x1.ff68bcp-2", "0x1.ff9f4p-2", "0x1.ffc304p-2", "0x1.ffda2p-2", "0x1.ffe8d4p-2",
        "0x1.fff208p-2",
    ),
    floats32(
        "0x0p+0", "-0x1.dfcb54p-29", "0x1.62ddaep-26", "-0x1.01e824p-26", "0x1.19563cp-28", "0x1.4e1b36p-26",
        "-0x1.5ace94p-29", "0x1.4feb68p-28", "-0x1.dbe59p-26", "-0x1.07cd86p-26", "-0x1.2ba9c2p-28", "-0x1.8f7248p-26",
        "0x1.3b4dcp-27", "0x1.016c2p-27", "-0x1.05155cp-27", "-0x1.4ecbf6p-26", "0x1.f4d89ep-28", "0x1.2032p-28",
        "0x1.86f164p-26", "-0x1.0e4d94p-26", "0x1.a81b64p-28", "-0x1.b01f7cp-26", "-0x1.0d27b2p-27", "-0x1.21cf9cp-26",
        "0x1.e067a4p-26", "-0x1.7a5706p-26", "0x1.0282fcp-27", "-0x1.be4098p-28", "0x1.0db522p-27", "0x1.0079dcp-30",
        "-0x1.9564b2p-26", "-0x1.bb31d2p-26",
    ),
    floats32(
        "0x1.988454p-2", "0x1.95567ap-2", "0x1.8bf2bap-2", "0x1.7cc794p-2", "0x1.6883dp-2", "0x1.50096ep-2",
        "0x1.345d5ep-2", "0x1.169596p-2", "0x1.ef8e58p-3", "0x1.b1ec62p-3", "0x1.7610bap-3", "0x1.3d7712p-3",
        "0x1.094086p-3", "0x1.b46178p-4", "0x1.616454p-4", "0x1.19bfa4p-4", "0x1.ba4b44p-5", "0x1.55c74p-5",
        "0x1.0402ep-5", "0x1.857a94p-6", "0x1.1f2f06p-6", "0x1.a0f22cp-7", "0x1.29fa54p-7", "0x1.a34ea6p-8",
        "0x1.227214p-8", "0x1.8c2226p-9", "0x1.09f38ep-9", "0x1.5f90f6p-10", "0x1.c9897cp-11", "0x1.251bf8p-11",
        "0x1.71b92ep-12", "0x1.cb2206p-13",
    ),
    floats32(
        "-0x1.90227cp-38", "-0x1.955672p-6", "-0x1.8bf2b4p-5", "-0x1.1d95aap-4", "-0x1.6883cap-4", "-0x1.a40bc4p-4",
        "-0x1.ce8c0ap-4", "-0x1.e785c2p-4", "-0x1.ef8e56p-4", "-0x1.e829ecp-4", "-0x1.d394e6p-4", "-0x1.b483bap-4",
        "-0x1.8de0cap-4", "-0x1.628f34p-4", "-0x1.3537ccp-4", "-0x1.0823acp-4", "-0x1.ba4b48p-5", "-0x1.6b23b8p-5",
        "-0x1.24834p-5", "-0x1.ce8196p-6", "-0x1.66facap-6", "-0x1.119eeep-6", "-0x1.99b836p-7", "-0x1.2d6086p-7",
        "-0x1.b3ab1ap-8", "-0x1.357aaap-8", "-0x1.b02bbcp-9", "-0x1.28a246p-9", "-0x1.905838p-10", "-0x1.09a146p-10",
        "-0x1.5a9d7ep-11", "-0x1.bcc8c6p-12",
    ),
    floats32(
        "-0x1.1061fp-4", "-0x1.0a0724p-4", "-0x1.eeedcp-5", "-0x1.b437cp-5", "-0x1.688066p-5", "-0x1.110c86p-5",
        "-0x1.679014p-6", "-0x1.5c467ep-7", "0x1.6bb684p-18", "0x1.335d66p-7", "0x1.1879a4p-6", "0x1.78ff84p-6",
        "0x1.ba078ep-6", "0x1.dd5214p-6", "0x1.e5e292p-6", "0x1.d87b58p-6", "0x1.ba4798p-6", "0x1.9081aep-6",
        "0x1.601822p-6", "0x1.2d3d4ep-6", "0x1.f68e12p-7", "0x1.99581ap-7", "0x1.45ec44p-7", "0x1.fbbf9ap-8",
        "0x1.8342cp-8", "0x1.215e54p-8", "0x1.a7dc8ap-9", "0x1.306be4p-9", "0x1.acf2b2p-10", "0x1.288accp-10",
        "0x1.9277p-11", "0x1.0c216cp-11",
    ),
    floats32(
        "0x1.e01a8ep-30", "0x1.92db9ap-8", "0x1.835e6p-7", "0x1.0ff1cap-6", "0x1.4a2f86p-6", "0x1.6d12fcp-6",
        "0x1.77908ep-6", "0x1.6adffep-6", "0x1.4a33f8p-6", "0x1.1a1aa2p-6", "0x1.bff9f4p-7", "0x1.42e40ap-7",
        "0x1.8e2992p-8", "0x1.5490dep-9", "-0x1.940746p-12", "-0x1.6a22acp-9", "-0x1.26637ep-8", "-0x1.6e7acep-8",
        "-0x1.91d3ap-8", "-0x1.96d1fap-8", "-0x1.84b78ap-8", "-0x1.62c32p-8", "-0x1.37846cp-8", "-0x1.088088p-8",
        "-0x1.b3c148p-9", "-0x1.5d15ecp-9", "-0x1.107eaap-9", "-0x1.9f181cp-10", "-0x1.34dc7ep-10", "-0x1.c1662ap-11",
        "-0x1.3fe9eap-11", "-0x1.bdf992p-12",
    ),
    floats32(
        "0x1.7e2b44p-7", "0x1.5e7f32p-7", "0x1.10adf6p-7", "0x1.32e56p-8", "0x1.18cda2p-8", "0x1.593cc4p-9",
        "-0x1.31fb7ep-9", "-0x1.0a663p-9", "-0x1.49171p-8", "-0x1.5ae87cp-8", "-0x1.52291cp-8", "-0x1.99aedcp-8",
        "-0x1.56b476p-8", "-0x1.6ac43ap-8", "-0x1.057348p-8", "-0x1.7d0dfp-9", "-0x1.11d622p-9", "-0x1.2617e6p-10",
        "-0x1.b39366p-12", "0x1.64e35p-13", "0x1.8d3616p-11", "0x1.ff853ap-11", "0x1.181d3ap-10", "0x1.343a9cp-10",
        "0x1.2268bep-10", "0x1.028cacp-10", "0x1.c49c4ep-11", "0x1.7555bep-11", "0x1.2cc366p-11", "0x1.da6bf8p-12",
        "0x1.64840ep-12", "0x1.073b4cp-12",
    ),
]  # fmt: skip
PHI_TABLE = np.array(PHI, np.float32)
# 1 / (1 + e^−(c + h)) − ½ for c = k / 4, |h| ≤ ⅛, in the same form.
SIGMA = [
    floats32(
        "0x0p+0", "0x1.fd59ap-5", "0x1.f597fp-4", "0x1.6ef54p-3", "0x1.d9354p-3", "0x1.1bf48p-2", "0x1.45324p-2",
        "0x1.68665p-2", "0x1.85efacp-2", "0x1.9e5cb4p-2", "0x1.b2523cp-2", "0x1.c278a4p-2", "0x1.cf6f98p-2",
        "0x1.d9c6fcp-2", "0x1.e1fbf8p-2", "0x1.e878ap-2", "0x1.ed9504p-2", "0x1.f1994cp-2", "0x1.f4bfd8p-2",
        "0x1.f73778p-2", "0x1.f92584p-2", "0x1.faa794p-2", "0x1.fbd508p-2", "0x1.fcc04cp-2", "0x1.fd77dp-2",
        "0x1.fe06ecp-2", "0x1.fe7678p-2", "0x1.fecd6cp-2", "0x1.ff112cp-2", "0x1.ff45f8p-2", "0x1.ff6f18p-2",
        "0x1.ff8f2p-2",
    ),
    floats32(
        "0x0p+0", "-0x1.a8769p-26", "-0x1.65978ep-26", "-0x1.0b9b82p-26", "-0x1.454ba8p-26", "-0x1.544706p-26",
        "-0x1.aad0dep-26", "0x1.718402p-27", "-0x1.5d618ep-27", "0x1.ba44d6p-26", "-0x1.253484p-28", "0x1.2a4e48p-26",
        "-0x1.e482a2p-28", "-0x1.019e38p-26", "0x1.7e3352p-26", "-0x1.313f22p-26", "0x1.e1bc3ep-26", "0x1.f724fcp-26",
        "-0x1.3d202ep-26", "-0x1.4d55d2p-26", "-0x1.9f58e4p-26", "-0x1.691428p-27", "0x1.ae7ae4p-26", "0x1.b79b8ap-27",
        "0x1.11a0bp-26", "-0x1.f2efbep-27", "0x1.5d353ap-26", "-0x1.02b9dap-27", "0x1.8ea41ep-28", "-0x1.2c9eccp-26",
        "-0x1.62ae24p-28", "0x1.cdaaa6p-26",
    ),
    floats32(
        "0x1p-2", "0x1.f81526p-3", "0x1.e149ap-3", "0x1.be3fbap-3", "0x1.92a946p-3", "0x1.6284c4p-3", "0x1.3173b2p-3",
        "0x1.02500ap-3", "0x1.ae0dc2p-4", "0x1.615002p-4", "0x1.1f2514p-4", "0x1.cea746p-5", "0x1.721652p-5",
        "0x1.265e34p-5", "0x1.d22ca2p-6", "0x1.6fcfa6p-6", "0x1.2162c2p-6", "0x1.c65b1cp-7", "0x1.64108ap-7",
        "0x1.16a7fcp-7", "0x1.b3afe2p-8", "0x1.5452p-8", "0x1.09a7a6p-8", "0x1.9e87dp-9", "0x1.434a52p-9",
        "0x1.f81bd8p-10", "0x1.88ef68p-10", "0x1.3238b8p-10", "0x1.dd37d2p-11", "0x1.73cecp-11", "0x1.21a7aep-11",
        "0x1.c34706p-12",
    ),
    floats32(
        "-0x1.60f6e8p-44", "-0x1.f578e8p-7", "-0x1.d7811ap-6", "-0x1.3fd53p-5", "-0x1.74272ap-5", "-0x1.893b5p-5",
        "-0x1.8403d4p-5", "-0x1.6ba7d2p-5", "-0x1.4786cap-5", "-0x1.1defb4p-5", "-0x1.e72924p-6", "-0x1.970e12p-6",
        "-0x1.4efbep-6", "-0x1.106472p-6", "-0x1.b6d85ep-7", "-0x1.5ee892p-7", "-0x1.16f9d2p-7", "-0x1.b9937ap-8",
        "-0x1.5c3d8ep-8", "-0x1.11e036p-8", "-0x1.addaep-9", "-0x1.50c468p-9", "-0x1.077e08p-9", "-0x1.9be66cp-10",
        "-0x1.41b104p-10", "-0x1.f62a84p-11", "-0x1.87c15ep-11", "-0x1.318156p-11", "-0x1.dc592ep-12", "-0x1.7347ap-12",
        "-0x1.2155aep-12", "-0x1.c2e382p-13",
    ),
    floats32(
        "-0x1.555538p-6", "-0x1.407afep-6", "-0x1.071c1ap-6", "-0x1.6db804p-7", "-0x1.81c08cp-8", "-0x1.247758p-10",
        "0x1.567ccap-9", "0x1.4f160ap-8", "0x1.a84fep-8", "0x1.c6952ap-8", "0x1.bb98b8p-8", "0x1.97d062p-8",
        "0x1.67b53ep-8", "0x1.33dc72p-8", "0x1.01b942p-8", "0x1.a861p-9", "0x1.58f776p-9", "0x1.15b368p-9",
        "0x1.bbd0f8p-10", "0x1.60978ap-10", "0x1.16df38p-10", "0x1.b7a2a2p-11", "0x1.59969ap-11", "0x1.0f1dcep-11",
        "0x1.a8a964p-12", "0x1.4c3398p-12", "0x1.03971p-12", "0x1.956c08p-13", "0x1.3c672ap-13", "0x1.eda6p-14",
        "0x1.80eeaep-14", "0x1.2c13a8p-14",
    ),
    floats32(
        "0x1.a56bbcp-38", "0x1.4595b6p-9", "0x1.1d4612p-8", "0x1.57873ep-8", "0x1.50b054p-8", "0x1.1a2604p-8",
        "0x1.989232p-9", "0x1.f2a12p-10", "0x1.c7aa12p-11", "0x1.b9549ep-14", "-0x1.99d13cp-12", "-0x1.5cd912p-11",
        "-0x1.985c3ap-11", "-0x1.9cc3eap-11", "-0x1.812866p-11", "-0x1.55cb6ep-11", "-0x1.25268cp-11",
        "-0x1.eae6c2p-12", "-0x1.93e9a8p-12", "-0x1.48071cp-12", "-0x1.07d742p-12", "-0x1.a5480cp-13",
        "-0x1.4e6e56p-13", "-0x1.08566ap-13", "-0x1.a0808p-14", "-0x1.474426p-14", "-0x1.00a356p-14", "-0x1.91e4d8p-15",
        "-0x1.3a526ap-15", "-0x1.eb304ep-16", "-0x1.7f7f5ap-16", "-0x1.2b417ep-16",
    ),
    floats32(
        "0x1.106ab6p-9", "0x1.e6a9cap-10", "0x1.21c1cep-10", "0x1.d043b2p-13", "-0x1.01bbb4p-11", "-0x1.a60ef8p-11",
        "-0x1.04a69p-10", "-0x1.e2ea9ep-11", "-0x1.68372p-11", "-0x1.119d3cp-11", "-0x1.1a4c4cp-12", "-0x1.0e4ep-13",
        "-0x1.a9858ap-15", "0x1.dbd6f4p-16", "0x1.f49e76p-15", "0x1.107388p-14", "0x1.2b21f8p-14", "0x1.2a8152p-14",
        "0x1.f323bep-15", "0x1.b4980ap-15", "0x1.76cebcp-15", "0x1.2a5488p-15", "0x1.f7f41ap-16", "0x1.86e92ep-16",
        "0x1.490d66p-16", "0x1.f1413ap-17", "0x1.a0265ap-17", "0x1.43d3bap-17", "0x1.f66faap-18", "0x1.79d6a6p-18",
        "0x1.2ba01cp-18", "0x1.d84e94p-19",
    ),
]  # fmt: skip
SIGMA_TABLE = np.array(SIGMA, np.float32)
GELU_TAIL = floats32(
    "-0x1.988342p-2", "0x1.321dbcp+0", "-0x1.789f08p+2", "0x1.289eeep+5", "-0x1.d3ff34p+7", "0x1.23f89cp+10",
    "-0x1.cf2dccp+11", "0x1.4ef028p+12",
)  # fmt: skip
GELU_TAIL_START = floats32("0x1.988454p-2", "-0x1.857936p-27")  # 1/√(2π)


class Power(NamedTuple):
    """(high + low) · 2^n"""

    high: F32
    low: F32
    n: U32


def scale_by_power(x: F32, n: U32) -> F32:
    """x · 2^n for −252 ≤ n ≤ 127: the first factor is exact on normal numbers, the last product rounds."""
    half = ((n + np.uint32(1024)) >> np.uint32(1)) - np.uint32(512)
    return x * power_of_2(half) * power_of_2(n - half)


def exp_parts(x: F32, x_rest: F32 | np.float32) -> Power:
    """e^(x + x_rest) for −112.5 ≤ x ≤ 0, |x_rest| ≤ ulp(x) / 2."""
    turns = fma(x, LOG2E32, MAGIC32)
    k = turns - MAGIC32
    first = fma(k, -LN2_HIGH32, x)  # exact
    second = k * LN2_LOW32
    r = first - second
    r_rest = ((first - r) - second) + x_rest
    square = (r * r) * horner32(r, EXP[2:])
    start = ONE + r
    high = start + square
    low = fma(r_rest, high, ((start - high) + square) + ((ONE - start) + r))
    return Power(high, low, turns.view(np.uint32) - MAGIC32_BITS)


def logistic(x: F32) -> Power:
    """1 / (1 + e^−x) for |x| ≤ 112."""
    e = exp_parts(-np.abs(x), ZERO)
    # 1 + e^−|x|, with what the addition lost
    least = np.int32(-126)
    scale = power_of_2(np.where(e.n.view(np.int32) < least, least.view(np.uint32), e.n))
    s = scale * e.high
    d = ONE + s
    d_rest = fma(scale, e.low, (ONE - d) + s)
    negative = x < 0
    u = ONE / d
    top = np.where(negative, e.high, ONE)
    t = top * u
    left = fma(-t, d_rest, fma(-t, d, top)) + np.where(negative, e.low, ZERO)
    return Power(t, left * u, np.where(negative, e.n, np.uint32(0)))


def clamp_112(x: F32) -> F32:
    y = np.where(x > 112, np.float32(112), x)
    return np.where(y < -112, np.float32(-112), y)


def gelu_tail(size: F32) -> F32:
    """y · Φ(−y) for 3.375 ≤ y: e^(−y²/2) · G(1/y²)."""
    y = np.where(size > 15, np.float32(15), size)
    z = y * y
    z_rest = fma(y, y, -z)
    e = exp_parts(-HALF * z, -HALF * z_rest)
    v: F32 = np.divide(ONE, z)
    w = fma(v, horner32(v, GELU_TAIL), GELU_TAIL_START[1])
    g = GELU_TAIL_START[0] + w
    g_rest = (GELU_TAIL_START[0] - g) + w
    t = e.high * g
    t_rest = fma(e.low, g, fma(e.high, g_rest, fma(e.high, g, -t)))
    return scale_by_power(t + t_rest, e.n)


def rise(table: NDArray[np.float32], steps: float, x: F32) -> tuple[F32, F32]:
    """A function that goes from 0 to 1 with f(−x) = 1 − f(x), near x = 0: start + change, the first exact."""
    y = np.abs(x)
    rounded = fma(y, np.float32(steps), MAGIC32)
    index = rounded.view(np.uint32) & np.uint32(31)
    sign = x.view(np.uint32) & np.uint32(1 << 31)
    h = fma(rounded - MAGIC32, np.float32(-1 / steps), y)
    column = table[:, index]
    q = column[6]
    for row in column[5:1:-1]:
        q = fma(q, h, row)
    change = fma(q, h, column[1])
    start = HALF + (column[0].view(np.uint32) ^ sign).view(np.float32)
    return start, (change.view(np.uint32) ^ sign).view(np.float32)


@blockwise
def sigmoid_f32(x: F32) -> F32:
    """1 / (1 + e^−x)."""
    start, change = rise(SIGMA_TABLE, 4, x)
    y = logistic(clamp_112(x))
    far = scale_by_power(y.high + y.low, y.n)
    return canonical(np.where(np.abs(x) > np.float32(7.75), far, start + change))


@blockwise
def silu_f32(x: F32) -> F32:
    """x · sigmoid(x); −0 at −∞. What underflows keeps its sign, too."""
    start, change = rise(SIGMA_TABLE, 4, x)
    clamped = clamp_112(x)
    y = logistic(clamped)
    p = clamped * y.high
    far = scale_by_power(p + fma(clamped, y.low, fma(clamped, y.high, -p)), y.n)
    far = np.where(x >= 112, x, far)
    value = np.where(np.abs(x) > np.float32(7.75), far, fma(x, start, x * change))
    return canonical(copysign32(value, x))


@blockwise
def gelu_f32(x: F32) -> F32:
    """x · Φ(x), Φ the distribution function of the standard normal (the exact form of GELU); −0 at −∞."""
    start, change = rise(PHI_TABLE, 8, x)
    tail = gelu_tail(np.abs(x))
    far = np.where(x < 0, -tail, x - tail)
    value = np.where((x < np.float32(-3.375)) | (x > np.float32(3.875)), far, fma(x, start, x * change))
    return canonical(copysign32(value, x))
