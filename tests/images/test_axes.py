"""One-dimensional factors against torch's and Pillow's own resampling."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

from dualshield.errors import InputError
from dualshield.images import axes
from dualshield.images.axes import Filter


@pytest.mark.parametrize("kind", ["bilinear", "bicubic"])
@pytest.mark.parametrize(("n_in", "n_out"), [(512, 360), (512, 16), (37, 100), (100, 100), (5, 1)])
def test_resize_equals_torch(kind: Filter, n_in: int, n_out: int) -> None:
    signal = torch.rand(1, 1, n_in, n_in, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    factor = torch.from_numpy(axes.resize(n_in, n_out, kind))
    expected = F.interpolate(signal, size=(n_out, n_out), mode=kind, antialias=True)
    torch.testing.assert_close(factor @ signal @ factor.T, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", get_args(Filter))
@pytest.mark.parametrize(("n_in", "n_out"), [(512, 360), (10, 4), (37, 100), (9, 6), (6, 9)])
def test_resize_equals_pillow(kind: Filter, n_in: int, n_out: int) -> None:
    """Also where a pixel lies on the edge of two boxes, as the third of ten does when they become four."""
    signal = np.random.default_rng(0).random((n_in, n_in), dtype=np.float32)
    expected = Image.fromarray(signal).resize((n_out, n_out), getattr(Image.Resampling, kind.upper()))
    factor = axes.resize(n_in, n_out, kind)
    np.testing.assert_allclose(factor @ signal @ factor.T, np.asarray(expected), rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", get_args(Filter))
@pytest.mark.parametrize("antialias", [True, False])
def test_every_filter_keeps_constants(kind: Filter, antialias: bool) -> None:
    for n_in, n_out in ((100, 33), (33, 100), (10, 5), (512, 360)):
        np.testing.assert_allclose(axes.resize(n_in, n_out, kind, antialias=antialias).sum(1), 1)


def test_box_averages_whole_blocks() -> None:
    np.testing.assert_allclose(axes.resize(8, 2, "box"), [[0.25] * 4 + [0] * 4, [0] * 4 + [0.25] * 4])


def test_without_antialias_the_kernel_is_not_stretched() -> None:
    assert (axes.resize(512, 64, "bilinear", antialias=False) > 0).sum(1).max() <= 2


def test_crops() -> None:
    np.testing.assert_array_equal(axes.crop(5, 1, 3) @ np.arange(5), [1, 2, 3])
    np.testing.assert_array_equal(axes.centre_crop(6, 2) @ np.arange(6), [2, 3])


def test_operator_norm_is_the_largest_singular_value() -> None:
    for shape in ((4, 9), (9, 4)):
        matrix = np.random.default_rng(1).normal(size=shape)
        assert axes.operator_norm(matrix) == pytest.approx(np.linalg.norm(matrix, 2))


def test_resize_norm_shrinks_or_grows_with_the_image() -> None:
    # Enlarging repeats each pixel: it stretches l2 distances by about sqrt(512/128) = 2.
    assert axes.resize_norm(128, 512) == pytest.approx(2, rel=0.1)
    assert axes.resize_norm(2048, 512) < 0.6


def test_split_recovers_the_factor_with_orthonormal_rows() -> None:
    factor = axes.low_pass(64, 12)
    expand, core = axes.split(factor)
    assert core.shape == (12, 64)
    np.testing.assert_allclose(expand @ core, factor, atol=1e-12)
    np.testing.assert_allclose(core @ core.T, np.eye(12), atol=1e-12)


def test_low_pass_keeps_slow_signals_and_drops_fast_ones() -> None:
    low = axes.low_pass(512, 32)
    x = np.arange(512)
    slow, fast = np.cos(2 * np.pi * x / 512), np.cos(2 * np.pi * x / 8)
    assert np.linalg.norm(low @ slow) > 0.95 * np.linalg.norm(slow)
    assert np.linalg.norm(low @ fast) < 0.1 * np.linalg.norm(fast)


@pytest.mark.parametrize(
    "call",
    [
        lambda: axes.resize(0, 5),
        lambda: axes.resize(5, 0),
        lambda: axes.resize(5, 5, "nearest"),  # type: ignore[arg-type]
        lambda: axes.crop(5, 3, 3),
        lambda: axes.crop(5, -1, 3),
        lambda: axes.centre_crop(5, 6),
        lambda: axes.low_pass(64, 1),
        lambda: axes.low_pass(64, 65),
    ],
)
def test_impossible_sizes_are_refused(call: object) -> None:
    assert callable(call)
    with pytest.raises(InputError):
        call()
