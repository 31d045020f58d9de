"""One-dimensional linear maps, the factors of every front end.

A separable image map is ``Y = L_h X L_w^T``. Each function here returns one such factor ``L`` of shape
``(n_out, n_in)`` in float64, so that norms and noise laws can be computed from it exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from dualshield.errors import InputError

Matrix = npt.NDArray[np.float64]
Filter = Literal["box", "bilinear", "bicubic", "lanczos"]


def _box(x: Matrix) -> Matrix:
    # A pixel on the edge of two boxes belongs to the left one, consistent with the range in `resize`.
    return ((x > -0.5) & (x <= 0.5)).astype(np.float64)


def _triangle(x: Matrix) -> Matrix:
    return np.clip(1.0 - np.abs(x), 0.0, None)


def _cubic(x: Matrix) -> Matrix:
    # Keys' kernel with a = -1/2, the one Pillow and torch's antialiased bicubic use.
    a, t = -0.5, np.abs(x)
    near = (a + 2) * t**3 - (a + 3) * t**2 + 1
    far = a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a
    return np.where(t < 1, near, np.where(t < 2, far, 0.0))


def _lanczos(x: Matrix) -> Matrix:
    return np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0.0)


_KERNELS: dict[str, tuple[Callable[[Matrix], Matrix], float]] = {
    "box": (_box, 0.5),
    "bilinear": (_triangle, 1.0),
    "bicubic": (_cubic, 2.0),
    "lanczos": (_lanczos, 3.0),
}


def resize(n_in: int, n_out: int, kind: Filter = "bilinear", *, antialias: bool = True) -> Matrix:
    """Return the matrix that resamples ``n_in`` to ``n_out`` pixels; every row sums to one.

    With ``antialias`` the kernel is widened when shrinking, as in Pillow. The result equals
    ``torch.nn.functional.interpolate(..., antialias=True)``; nothing is rounded to 8 bits.
    """
    if n_in < 1 or n_out < 1:
        raise InputError(f"cannot resize {n_in} pixels to {n_out}; both must be at least 1")
    if kind not in _KERNELS:
        raise InputError(f"unknown resize filter {kind!r}: use one of {', '.join(get_args(Filter))}")
    kernel, support = _KERNELS[kind]
    scale = n_in / n_out
    stretch = max(scale, 1.0) if antialias else 1.0
    centre = (np.arange(n_out) + 0.5) * scale
    first = np.floor(centre - support * stretch + 0.5).clip(0, n_in - 1)
    last = np.floor(centre + support * stretch + 0.5).clip(1, n_in)
    pixel = np.arange(n_in)[None, :]
    weights = kernel((pixel + 0.5 - centre[:, None]) / stretch)
    weights = np.where((pixel >= first[:, None]) & (pixel < last[:, None]), weights, 0.0)
    total: Matrix = weights.sum(axis=1, keepdims=True)
    return weights / total


def crop(n_in: int, start: int, length: int) -> Matrix:
    """Return the matrix that keeps ``length`` pixels from ``start`` on."""
    if start < 0 or length < 1 or start + length > n_in:
        raise InputError(f"cannot crop {length} pixels at offset {start} of {n_in}; stay within the image")
    return np.eye(n_in)[start : start + length]


def centre_crop(n_in: int, length: int) -> Matrix:
    """Return the matrix that keeps the ``length`` pixels in the middle."""
    return crop(n_in, max(n_in - length, 0) // 2, length)


def low_pass(n: int, m: int) -> Matrix:
    """Return a linear low-pass of rank ``m``: resize ``n`` samples to ``m`` and back (METHOD.md 3b)."""
    if not 2 <= m <= n:
        raise InputError(f"a low-pass must keep between 2 and {n} samples, not {m}")
    return resize(m, n, "bilinear") @ resize(n, m, "bilinear")


def operator_norm(factor: Matrix) -> float:
    """Return the largest singular value: how much the map can stretch an l2 distance."""
    gram = factor @ factor.T if factor.shape[0] <= factor.shape[1] else factor.T @ factor
    return float(np.sqrt(np.linalg.eigvalsh(gram)[-1]))


@lru_cache(maxsize=256)
def resize_norm(n_in: int, n_out: int, kind: Filter = "bilinear") -> float:
    """Return the operator norm of ``resize``: at most about 1 when shrinking, else about sqrt(n_out / n_in)."""
    return operator_norm(resize(n_in, n_out, kind))


def split(factor: Matrix) -> tuple[Matrix, Matrix]:
    """Return ``(U S, V^T)`` with ``L = (U S) V^T``; V^T has orthonormal rows, so it keeps white noise white.

    Singular values below 1e-9 of the largest are lost in float32 anyway and are dropped, so a rank-m low-pass
    has a core of m samples.
    """
    left, singular, right = np.linalg.svd(factor, full_matrices=False)
    rank = int((singular > 1e-9 * singular[0]).sum())
    return left[:, :rank] * singular[:rank], right[:rank]
