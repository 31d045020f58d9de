import pytest
from scipy.stats import binomtest

from dualshield.evaluation.intervals import wilson


@pytest.mark.parametrize(("successes", "total"), [(0, 1), (1, 1), (0, 100), (100, 100), (3, 7), (1, 300), (150, 300)])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_wilson_agrees_with_scipy(successes: int, total: int, confidence: float) -> None:
    expected = binomtest(successes, total).proportion_ci(confidence, method="wilson")
    assert wilson(successes, total, confidence) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_no_trials_say_nothing() -> None:
    assert wilson(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(("successes", "total"), [(-1, 3), (4, 3)])
def test_more_successes_than_trials_are_refused(successes: int, total: int) -> None:
    with pytest.raises(ValueError, match="successes of"):
        wilson(successes, total)
