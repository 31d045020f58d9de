"""The rows of a linear hash in units of their own length, and a proven bound on their largest eigenvalue.

A pixel change ``delta`` moves coefficient i by ``<A_i, delta>``; in units of ``||A_i||`` by ``u_i``. So ``u`` is in
pixel l2, and ``C = <A_i, A_j> / (||A_i|| ||A_j||)`` says how the movements are tied together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dualshield.errors import InputError
from dualshield.hashes.linear.linear_hash import LinearHash
from dualshield.images.axes import Matrix
from dualshield.images.space import LUMA

# Far above the rounding of these sums of at most 2,000 products, far below anything that matters.
ROUNDING = 1e-12
EIGENVALUE_SLACK = 4e-9
# Mixed rows whose squared length is below this part of that of their summands have lost too many digits.
CANCELLED = 1e-4


@dataclass(frozen=True, eq=False)
class Rows:
    """Lengths of the rows, their correlations, and ``floor`` with ``floor * C <= I`` (as matrices), proven."""

    lengths: Matrix
    correlations: Matrix
    floor: float
    coefficient_error: float  # largest rounding error of a computed coefficient, in units of its row's length

    @property
    def steepest(self) -> float:
        """How fast a margin can grow with theta."""
        return float(1 / self.lengths.min())

    @staticmethod
    def of(linear: LinearHash) -> Rows:
        """Return the rows of a hash; an error if a row is zero, because its bit would not depend on the image."""
        gram = linear.gram
        squares = np.diag(gram)
        if not (squares > 1e-18 * squares.max()).all():
            raise InputError(f"hash {linear.name}: a row of its map is zero, so one of its bits is constant")
        if linear.mix is not None and not (squares > CANCELLED * _without_cancellation(linear)).all():
            raise InputError(f"hash {linear.name}: the numbers that mix combines cancel; what remains is rounding")
        lengths = np.sqrt(squares)
        correlations = gram / np.outer(lengths, lengths)
        return Rows(lengths, correlations, _floor(correlations), _coefficient_error(linear, lengths))


def _without_cancellation(linear: LinearHash) -> Matrix:
    """Return what the squared lengths of mixed rows would be if nothing cancelled."""
    lengths = np.outer(np.linalg.norm(linear.vertical, axis=1), np.linalg.norm(linear.horizontal, axis=1)).reshape(-1)
    assert linear.mix is not None
    squares: Matrix = (np.abs(linear.mix) @ lengths) ** 2 * float(np.dot(LUMA, LUMA))
    return squares


def _floor(correlations: Matrix) -> float:
    """Return ``d`` with ``d C <= I``: the inverse of an upper bound on the largest eigenvalue.

    That the bound holds is proven by a Cholesky factorisation: where it runs to the end in floating point, the matrix
    is positive definite up to ``(n + 1) eps trace`` (Rump, Verification of positive definiteness, 2006).
    """
    largest, n = float(np.linalg.eigvalsh(correlations)[-1]), len(correlations)
    slack = max(EIGENVALUE_SLACK, 4 * (n + 1) * n * largest * np.finfo(np.float64).eps)
    bound = largest + slack
    np.linalg.cholesky((bound - slack / 2) * np.eye(n) - correlations)
    return (1 - ROUNDING) / bound


def _coefficient_error(linear: LinearHash, lengths: Matrix) -> float:
    """Bound the rounding of coefficients of pixels in [0, 1]: n products whose sizes sum to s are off by n eps s."""
    sums = np.abs(linear.vertical).sum(1)[:, None] * np.abs(linear.horizontal).sum(1)
    flat = sums.reshape(-1) * sum(LUMA)
    sizes = flat if linear.mix is None else np.abs(linear.mix) @ flat
    products = linear.vertical.shape[1] + linear.horizontal.shape[1] + 8
    products += 0 if linear.mix is None else linear.mix.shape[1]
    return float((products * np.finfo(np.float64).eps * sizes / lengths).max())
