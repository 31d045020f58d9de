"""The rows of a linear hash: their lengths, correlations, largest eigenvalue and rounding error, in more digits."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dualshield.errors import InputError
from dualshield.hashes.linear import pdq
from dualshield.hashes.linear.linear_hash import LinearHash, minus_mean
from dualshield.images.axes import Matrix
from dualshield.images.space import LUMA
from dualshield.smoothing.exact.rows import Rows

mpmath = pytest.importorskip("mpmath")

LongMatrix = npt.NDArray[np.longdouble]
SIZE = 7


def random_hash(seed: int, mix: Matrix | None = None, *, scale: float = 1.0, rows: int = 3) -> LinearHash:
    rng = np.random.default_rng(seed)
    return LinearHash("random", "1", rng.normal(size=(rows, SIZE)) * scale, rng.normal(size=(4, SIZE)), "zero", mix)


def hashes() -> dict[str, LinearHash]:
    rng = np.random.default_rng(1)
    mix = rng.normal(size=(9, 12))
    twice = mix.copy()
    twice[1], twice[5] = mix[0], -3 * mix[0]
    return {
        "no mix": random_hash(2),
        "more bits than numbers": random_hash(3, rng.normal(size=(16, 12))),
        "rows that sum to zero": random_hash(4, minus_mean(9) @ mix),
        "minus the mean": random_hash(5, minus_mean(12)),
        "rows that are multiples of each other": random_hash(6, twice),
        "rank one": random_hash(7, np.outer(rng.normal(size=10), mix[0])),
        "tiny rows": random_hash(8, scale=1e-100),
        "huge rows": random_hash(9, scale=1e100),
        "rows of very different lengths": random_hash(10, np.diag(np.logspace(0, -8, 12))),
        "one bit": random_hash(11, mix[:1]),
    }


HASHES = hashes()


def explicit(linear: LinearHash) -> LongMatrix:
    """Return the whole map from pixels to coefficients, bits x (3 * height * width)."""
    vertical, horizontal = linear.vertical.astype(np.longdouble), linear.horizontal.astype(np.longdouble)
    luma = np.kron(vertical, horizontal)
    if linear.mix is not None:
        luma = linear.mix.astype(np.longdouble) @ luma
    found: LongMatrix = np.concatenate([np.longdouble(weight) * luma for weight in LUMA], axis=1)
    return found


@pytest.mark.parametrize("name", HASHES)
def test_lengths_and_correlations_are_those_of_the_explicit_map(name: str) -> None:
    linear = HASHES[name]
    rows, matrix = Rows.of(linear), explicit(linear)
    scale = np.abs(matrix).max()
    lengths = np.sqrt(((matrix / scale) ** 2).sum(1)) * scale
    unit = matrix / lengths[:, None]
    assert np.abs(rows.lengths / lengths - 1).max() < 1e-13
    assert np.abs(rows.correlations - unit @ unit.T).max() < 1e-12


def test_the_explicit_map_is_the_map_of_the_hash() -> None:
    linear = HASHES["rows that sum to zero"]
    pixels = np.random.default_rng(0).random((3, SIZE, SIZE))
    assert linear.coefficients(pixels) == pytest.approx(
        (explicit(linear) @ pixels.reshape(-1)).astype(float), abs=1e-12
    )


@pytest.mark.parametrize("name", HASHES)
def test_the_floor_is_below_the_inverse_of_the_largest_eigenvalue_in_40_digits(name: str) -> None:
    linear = HASHES[name]
    rows = Rows.of(linear)
    with mpmath.workdps(40):

        def exact(matrix: Matrix) -> Any:
            return mpmath.matrix(matrix.tolist())

        vertical, horizontal = exact(linear.vertical), exact(linear.horizontal)
        down, across = vertical * vertical.T, horizontal * horizontal.T
        numbers = [(i, j) for i in range(vertical.rows) for j in range(horizontal.rows)]
        gram = mpmath.matrix([[down[i, k] * across[j, m] for k, m in numbers] for i, j in numbers])
        if linear.mix is not None:
            gram = exact(linear.mix) * gram * exact(linear.mix).T
        luma = sum(mpmath.mpf(weight) ** 2 for weight in LUMA)
        lengths = [mpmath.mpf(length) for length in rows.lengths.tolist()]
        bits = range(linear.bits)
        correlations = mpmath.matrix([[luma * gram[i, j] / (lengths[i] * lengths[j]) for j in bits] for i in bits])
        largest = max(mpmath.eigsy(correlations, eigvals_only=True))
        assert mpmath.mpf(rows.floor) * largest < 1
        assert mpmath.mpf(rows.floor) * largest > 1 - 1e-7


def largest_eigenvalue(matrix: LongMatrix) -> float:
    """A Rayleigh quotient: never above the largest eigenvalue but for the rounding of long doubles."""
    vector = np.ones(len(matrix), np.longdouble)
    for _ in range(3000):
        vector = matrix @ vector
        vector /= np.sqrt(vector @ vector)
    return float(vector @ (matrix @ vector))


@pytest.mark.parametrize("lowpass", [None, 64])
def test_the_floor_of_pdq_is_proven_and_tight(lowpass: int | None) -> None:
    linear = pdq.load().with_lowpass(lowpass)
    rows = Rows.of(linear)
    factor = linear.vertical.astype(np.longdouble)
    factor = factor / np.sqrt((factor**2).sum(1))[:, None]
    along = largest_eigenvalue(factor @ factor.T)  # the correlations are the Kronecker product of two such matrices
    assert rows.floor * along**2 < 1
    assert rows.floor * along**2 > 1 - 1e-6


@pytest.mark.parametrize("bits", [64, 256, 600])
def test_the_floor_holds_where_all_rows_are_the_same(bits: int) -> None:
    linear = LinearHash("same", "1", np.ones((bits, 3)), np.ones((1, 3)), "zero")
    assert 1 - 1e-6 < Rows.of(linear).floor * bits < 1


@pytest.mark.parametrize(
    "mix",
    [
        np.array([[1.0, 0, 0, 0], [0, 0, 0, 0]]),
        np.array([[1.0, 0, 0, 0], [1.0, -1.0, 0, 0]]),
        np.array([[1.0, 0, 0, 0], [0.1, 0.2, -0.3, 0]]),
    ],
)
def test_a_row_that_is_zero_is_an_error(mix: Matrix) -> None:
    vertical = np.tile(np.random.default_rng(0).normal(size=SIZE), (4, 1))  # four equal rows
    with pytest.raises(InputError, match="hash constant"):
        Rows.of(LinearHash("constant", "1", vertical, np.ones((1, SIZE)), "zero", mix))


@pytest.mark.parametrize("seed", range(6))
def test_rows_that_cancel_up_to_rounding_are_an_error_or_right(seed: int) -> None:
    rng = np.random.default_rng(seed)
    vertical = np.tile(rng.normal(size=SIZE), (2, 1))
    vertical[1] += 3e-9 * rng.normal(size=SIZE)
    linear = LinearHash("cancel", "1", vertical, np.ones((1, SIZE)), "zero", np.array([[1.0, 0], [-1.0, 1.0]]))
    try:
        rows = Rows.of(linear)
    except InputError:
        return
    assert np.abs(rows.lengths / np.sqrt((explicit(linear) ** 2).sum(1)) - 1).max() < 1e-9


@pytest.mark.parametrize("name", [name for name in HASHES if name != "one bit"])
@pytest.mark.parametrize("is_double", [True, False])
def test_computed_coefficients_are_within_the_error_of_exact_fractions(name: str, is_double: bool) -> None:
    linear, rng = HASHES[name], np.random.default_rng(12)
    rows = Rows.of(linear)
    pixels = rng.choice(np.array([0.0, 1.0, 1 / 3, *rng.random(20)]), size=(3, SIZE, SIZE))
    pixels = pixels.astype(np.float64 if is_double else np.float32)

    def fractions(matrix: Matrix) -> npt.NDArray[np.object_]:
        found: npt.NDArray[np.object_] = np.vectorize(Fraction, otypes=[object])(matrix.astype(np.float64))
        return found

    luma = sum(Fraction(weight) * fractions(channel) for weight, channel in zip(LUMA, pixels, strict=True))
    exact = (fractions(linear.vertical) @ luma @ fractions(linear.horizontal).T).reshape(-1)
    exact = exact if linear.mix is None else fractions(linear.mix) @ exact
    error = [abs(Fraction(float(c)) - e) for c, e in zip(linear.coefficients(pixels), exact, strict=True)]
    assert max(float(e / Fraction(float(length))) for e, length in zip(error, rows.lengths, strict=True)) > 0
    allowed = Fraction(rows.coefficient_error)
    assert all(e <= allowed * Fraction(float(length)) for e, length in zip(error, rows.lengths, strict=True))


def test_the_error_of_coefficients_of_pdq_holds_and_is_small() -> None:
    linear = pdq.load()
    rows = Rows.of(linear)
    luma = np.random.default_rng(3).random((512, 512)).astype(np.float32)
    pixels = np.stack([luma, luma, luma])
    exact = (
        linear.vertical.astype(np.longdouble) @ luma.astype(np.longdouble) @ linear.horizontal.T.astype(np.longdouble)
    )
    exact = exact.reshape(-1) * sum(np.longdouble(weight) for weight in LUMA)
    error = np.abs(linear.coefficients(pixels) - exact) / rows.lengths
    assert 0 < error.max() <= rows.coefficient_error < 1e-8
