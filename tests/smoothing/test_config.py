"""MatcherConfig refuses whatever cannot define a matcher."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, get_args

import pytest

from dualshield.errors import InputError
from dualshield.smoothing.config import MAX_DRAWS, PAPER, PAPER_LIMIT, MatcherConfig
from dualshield.smoothing.names import NoiseName


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        *(("sigma", value, "sigma") for value in (0.0, -1.0, math.nan, math.inf, -math.inf, 1000.1, "0.1", True, None)),
        *(("sigma_grid", (0.1, value), "sigma") for value in (0.0, -1.0, math.nan, math.inf, 1000.1, "0.2", True)),
        *(("alpha", value, "alpha") for value in (0.0, 1.0, 2.0, -0.1, math.nan, "0.1", True)),
        *(("threshold", value, "threshold") for value in (-0.1, 0.5, math.nan, math.inf, "0.2", False)),
        *(("lowpass", value, "low-pass") for value in (32.0, "32", True)),
        *(("n", value, "n ") for value in (0, -1, MAX_DRAWS + 1, 10.0, "10", True)),
        *(("n0", value, "n0 ") for value in (0, -5, MAX_DRAWS + 1, 10.0, True)),
        *(("bank_size", value, "bank size ") for value in (0, -1, MAX_DRAWS + 1, 10.0, True)),
        *(("target_radius", value, "target radius") for value in (-0.1, math.nan, math.inf, "1", True)),
        ("reference_mode", "triple", "unknown reference mode 'triple': use one of code, bank, paired"),
        ("noise", "uniform", "unknown noise 'uniform': use one of linear, clipped"),
    ],
)
def test_values_out_of_range(field: str, value: Any, message: str) -> None:
    options: dict[str, Any] = {"sigma": 0.1, field: value}
    with pytest.raises(InputError, match=rf"^{message}"):
        MatcherConfig(**options)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("sigma", 1e-6),
        ("sigma", 1000.0),
        ("sigma", 1),
        ("alpha", 0.999),
        ("threshold", 0),
        ("threshold", 0.499),
        ("lowpass", 32),
        ("n", 1),
        ("n", MAX_DRAWS),
        ("n0", 1),
        ("bank_size", 1),
        ("target_radius", 0.0),
        ("target_radius", None),
        ("reference_mode", "bank"),
        ("noise", "clipped"),
    ],
)
def test_values_at_the_edge(field: str, value: Any) -> None:
    options: dict[str, Any] = {"sigma": 0.1, field: value}
    assert getattr(MatcherConfig(**options), field) == value


def test_sigma_auto_needs_a_grid() -> None:
    with pytest.raises(InputError, match="sigma auto needs a calibrated profile"):
        MatcherConfig(sigma="auto")
    assert MatcherConfig(sigma="auto", sigma_grid=(0.1,)).sigma_grid == (0.1,)


def test_the_sigmas_a_reference_may_get() -> None:
    assert MatcherConfig(sigma=0.3).sigmas == (0.3,)
    assert MatcherConfig(sigma=0.3, sigma_grid=(0.1, 0.2)).sigmas == (0.3,)
    assert MatcherConfig(sigma="auto", sigma_grid=(0.1, 0.2)).sigmas == (0.1, 0.2)


def test_only_a_limit_law_certifies_nothing() -> None:
    assert [MatcherConfig(0.1, noise=noise).certifies for noise in get_args(NoiseName)] == [True, True, False]
    assert PAPER.certifies
    assert replace(PAPER, noise="clipped-limit") == PAPER_LIMIT


def test_the_parameters_of_the_paper() -> None:
    assert MatcherConfig(0.1, "paired", "clipped", None, 0.2, 100, 5000, 1e-3) == PAPER
    assert PAPER.target_radius is None


def test_the_largest_radius_is_that_of_the_widest_noise() -> None:
    assert PAPER.radius_ceiling == pytest.approx(0.2993, abs=5e-5)
    chosen = MatcherConfig(sigma="auto", sigma_grid=(0.2, 0.1))
    assert chosen.radius_ceiling == pytest.approx(2 * PAPER.radius_ceiling)
