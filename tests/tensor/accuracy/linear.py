"""How far Fourier transforms and decompositions are from the exact ones: `python tests/tensor/accuracy/linear.py`.

Prints the tables of docs/accuracy.md. Transforms are compared with numpy's in long double (64 bits);
decompositions with themselves: what they multiply to, how orthogonal their vectors are, in long double.
"""

from __future__ import annotations

import numpy as np

import tensor as tn

EPSILON = {"float32": 2.0**-23, "float64": 2.0**-52, "complex64": 2.0**-23, "complex128": 2.0**-52}
LENGTHS = (64, 97, 1000, 1024, 4096, 10007, 65536, 1000003, 1 << 20)
SIZES = (8, 64, 256, 512)


def normal(seed: int, dtype: str, *shape: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if dtype.startswith("complex") else x).astype(dtype)


def long(x: np.ndarray) -> np.ndarray:
    return x.astype(np.clongdouble if x.dtype.kind == "c" else np.longdouble)


def size(x: np.ndarray) -> float:
    return float(np.sqrt((np.abs(long(x)) ** 2).sum()))


def transforms() -> None:
    print("| n | complex64 | numpy | complex128 | numpy |\n|---|---|---|---|---|")
    for n in LENGTHS:
        cells = [f"{n:,}"]
        for dtype in ("complex64", "complex128"):
            x = normal(n, dtype, n)
            exact = np.fft.fft(long(x))
            for found in (tn.fft.fft(tn.asarray(x)).numpy(), np.fft.fft(x)):
                cells.append(f"{size(long(found) - exact) / size(exact) / EPSILON[dtype]:.2f}")
        print(f"| {' | '.join(cells)} |")


def apart(found: np.ndarray, expected: np.ndarray, dtype: str) -> str:
    return f"{size(found - expected) / size(expected) / EPSILON[dtype]:.1f}"


def decompositions() -> None:
    print("\n| n, type | cholesky | lu | qr | QᴴQ | eigh | VᴴV | svd | UᴴU |\n|---|---|---|---|---|---|---|---|---|")
    for dtype in ("float32", "float64", "complex128"):
        for n in SIZES:
            x = normal(n, dtype, n, n)
            wide = long(x)
            positive = (wide @ wide.conj().T / n + np.eye(n)).astype(dtype)
            positive = (positive + positive.conj().T) / 2
            eye = np.eye(n).astype(wide.dtype)
            t = tn.asarray(x)
            lower = long(tn.linalg.cholesky(tn.asarray(positive)).numpy())
            p, low, up = (long(part.numpy()) for part in tn.linalg.lu(t))
            q, r = (long(part.numpy()) for part in tn.linalg.qr(t))
            w, v = (long(part.numpy()) for part in tn.linalg.eigh(tn.asarray(positive)))
            u, s, vh = (long(part.numpy()) for part in tn.linalg.svd(t))
            cells = [
                apart(lower @ lower.conj().T, long(positive), dtype),
                apart(p @ low @ up, wide, dtype),
                apart(q @ r, wide, dtype),
                apart(q.conj().T @ q, eye, dtype),
                apart(v * w @ v.conj().T, long(positive), dtype),
                apart(v.conj().T @ v, eye, dtype),
                apart(u * s @ vh, wide, dtype),
                apart(u.conj().T @ u, eye, dtype),
            ]
            print(f"| {n}, {dtype} | {' | '.join(cells)} |")


if __name__ == "__main__":
    transforms()
    decompositions()
