"""Band matrices, block by block: the same product as with the whole matrix, and its gradient."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dualshield.images import axes
from dualshield.images.axes import Matrix
from dualshield.images.bands import Band
from dualshield.images.frontend import FrontEnd


def with_gaps() -> Matrix:
    """Whole blocks of zero rows, at the ends and in between."""
    matrix = axes.resize(100, 70, "bicubic")
    matrix[:20] = matrix[32:48] = matrix[64:] = 0
    return matrix


MATRICES = {
    "resize": axes.resize(100, 70, "bicubic"),
    "enlarge": axes.resize(100, 170),
    "crop": axes.centre_crop(100, 33),
    "one row": axes.resize(100, 1),
    "mirror": np.eye(100)[::-1],
    "gaps": with_gaps(),
    "dense": axes.low_pass(100, 8),
    "zero": np.zeros((40, 100)),
}


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_a_band_is_its_matrix(name: str, batch: tuple[int, ...]) -> None:
    matrix, band = torch.tensor(MATRICES[name].copy(), dtype=torch.float32), Band(MATRICES[name])
    image = torch.rand(*batch, 100, 100, generator=torch.Generator().manual_seed(1))
    for found, expected in (
        (band.rows(image), matrix @ image),
        (band.cols(image), image @ matrix.T),
        (band.rows(image.transpose(-1, -2)), matrix @ image.transpose(-1, -2)),
    ):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("name", MATRICES)
def test_gradients_go_through_the_transpose(name: str) -> None:
    matrix, band = torch.tensor(MATRICES[name].copy(), dtype=torch.float32), Band(MATRICES[name])
    image = torch.rand(3, 100, 100, generator=torch.Generator().manual_seed(2), requires_grad=True)
    weights = torch.rand(len(matrix), len(matrix), generator=torch.Generator().manual_seed(3))
    (found,) = torch.autograd.grad((weights * band.cols(band.rows(image))).sum(), image)
    (expected,) = torch.autograd.grad((weights * (matrix @ image @ matrix.T)).sum(), image)
    torch.testing.assert_close(found, expected)


def test_only_bands_are_taken_apart() -> None:
    """A resize is nearly all zeros."""
    resized = FrontEnd.identity().resize(360, 360, "bicubic")
    assert resized.is_banded
    assert not resized.project(np.ones((8, 360)), np.ones((8, 360))).is_banded
    assert not resized.grey().is_banded  # mixing its colours first saves more
