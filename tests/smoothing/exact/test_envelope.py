"""The one-dimensional problem: its bound is never below the maximum, and close to it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from dualshield.images.axes import Matrix
from dualshield.smoothing.exact.envelope import SMALLEST_KAPPA, Envelope

KAPPAS = tuple(float(kappa) for kappa in np.logspace(np.log10(SMALLEST_KAPPA), 6, 37))
GRID = np.linspace(-10, 10, 1601)
FLOAT_ERROR = 5e-16  # of the search below, which only sees values of at most 1


def density(x: Matrix) -> Matrix:
    found: Matrix = np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
    return found


def search(kappa: float, y: Matrix) -> Matrix:
    """Return the largest value found by search, for each y: E is at least that, whatever the search misses."""

    def value(x: Matrix) -> Matrix:
        found: Matrix = ndtr(x) - kappa * (x - y[:, None]) ** 2
        return found

    near = y[:, None] + density(y)[:, None] / (2 * kappa) * np.array([0.0, 0.5, 1.0, 1.5])
    starts = np.concatenate([np.tile(GRID, (len(y), 1)), near], axis=1)
    x = np.take_along_axis(starts, np.argsort(value(starts), axis=1)[:, -3:], axis=1)
    best: Matrix = value(starts).max(1)
    for _ in range(8):  # Newton's method where the function is concave
        bend = x * density(x) + 2 * kappa
        step = (density(x) - 2 * kappa * (x - y[:, None])) / np.where(bend > 0, bend, np.inf)
        x = x + np.clip(step, -1, 1)
        best = np.maximum(best, value(x).max(1))
    return best


def points(envelope: Envelope) -> Matrix:
    """Return the knots, what is next to them and between them, and some far away."""
    knots = envelope.knots[:: max(1, len(envelope.knots) // 40)]
    knots = np.unique(np.concatenate([envelope.knots[:3], knots, envelope.knots[-3:]]))
    between = [knots[:-1] + part * np.diff(knots) for part in (0.01, 0.5, 0.9)]
    beside = [knots - 1e-7, knots + 1e-7]
    far = [knots[:1] - offset for offset in (1e-3, 0.05, 1.0, 100.0)] + [knots[-1:] + 0.01, np.linspace(-10, 7, 35)]
    return np.concatenate([knots, *between, *beside, *far])


@pytest.mark.parametrize("kappa", KAPPAS)
def test_the_bound_is_never_below_the_maximum(kappa: float) -> None:
    envelope = Envelope(kappa)
    y = points(envelope)
    assert (envelope(y) - search(kappa, y)).min() >= -FLOAT_ERROR


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.floats(np.log(SMALLEST_KAPPA), np.log(1e6)), st.floats(-1, 1), st.floats(0, 1))
def test_the_bound_is_never_below_the_maximum_where_staying_and_flipping_compete(
    log_kappa: float, offset: float, part: float
) -> None:
    kappa = float(np.exp(log_kappa))
    crossing = 1.5 - part - 1 / np.sqrt(kappa)  # a flip from there is worth about nothing
    y = np.array([crossing + offset, crossing * part, 6 * offset])
    assert (Envelope(kappa)(y) - search(kappa, y)).min() >= -FLOAT_ERROR


def test_the_bound_holds_where_staying_and_flipping_just_begin_to_differ() -> None:
    peak = np.exp(-0.5) / np.sqrt(2 * np.pi) / 2  # below this kappa there are two local maxima, around x = -1
    for kappa in (peak * (1 + np.linspace(-3e-4, 3e-4, 61))).tolist():
        envelope = Envelope(kappa)
        near = envelope.knots[np.abs(envelope.knots + 2) < 0.1]
        assert (np.diff(envelope.knots) > 0).all()
        assert (envelope(near) - search(kappa, near)).min() >= -FLOAT_ERROR


@pytest.mark.parametrize("kappa", KAPPAS)
def test_knots_rise_and_none_lies_below_the_maximum(kappa: float) -> None:
    envelope = Envelope(kappa)
    assert (np.diff(envelope.knots) > 0).all()
    assert (envelope(envelope.knots) >= search(kappa, envelope.knots) - FLOAT_ERROR).all()


@pytest.mark.parametrize("kappa", [0.01, 0.03, 0.1, 0.12, 0.13, 0.3, 1.0, 3.0])
def test_the_bound_is_close_to_the_maximum_for_the_prices_that_occur(kappa: float) -> None:
    envelope = Envelope(kappa)
    y = np.linspace(envelope.knots[0], envelope.knots[-1], 601)
    excess = envelope(y) - search(kappa, y)
    place = np.clip(np.searchsorted(envelope.knots, y), 1, len(envelope.knots) - 1)
    gap = np.diff(envelope.knots)[place - 1]
    # A chord is off by at most kappa / 4 times the square of the gap (E + kappa y^2 bends by at most 2 kappa), plus,
    # in the one gap that bridges the crossing, the change of slope there.
    smooth = gap < 0.3
    assert smooth.mean() > 0.5
    assert excess[smooth].max() < 0.3 * kappa * 0.3**2 + 0.02
    assert np.median(excess) < 0.002
    assert excess.max() < 0.05


@pytest.mark.parametrize("kappa", KAPPAS)
def test_a_bit_far_from_its_flip_is_worth_nothing_and_a_flipped_one_is_worth_one(kappa: float) -> None:
    far = 10 + 3 / np.sqrt(kappa)
    stays, flipped = Envelope(kappa)(np.array([-far, far]))
    assert 0 < stays < 1e-7
    assert flipped == pytest.approx(1, abs=1e-7)
    assert flipped >= 1


@pytest.mark.parametrize("kappa", [0.01, 0.1, 0.5, 5.0])
def test_the_place_of_the_maximum_gives_nearly_the_value_of_the_maximum(kappa: float) -> None:
    y, x = Envelope(kappa).maxima
    inside = (y > -8) & (y < 4)
    loss = search(kappa, y[inside]) - (ndtr(x[inside]) - kappa * (x[inside] - y[inside]) ** 2)
    assert loss.min() >= -FLOAT_ERROR
    assert np.median(loss) < 1e-3
