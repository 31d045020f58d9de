from __future__ import annotations

import pytest
import torch

from dualshield.transforms import Transform


def distance(first: torch.Tensor, second: torch.Tensor) -> float:
    return float((first - second).abs().mean())


def test_resize_loses_what_is_finer_than_the_thumbnail(photo: torch.Tensor) -> None:
    half, quarter = (Transform("resize", level)(photo) for level in (0.5, 0.25))
    assert distance(half, photo) < distance(quarter, photo)
    flat = torch.full((3, 64, 48), 0.3)
    torch.testing.assert_close(Transform("resize", 0.3)(flat), flat)


@pytest.mark.parametrize("amount", [0.0, 1.0, 2.0])
def test_sharpen_adds_what_a_blur_takes_away(amount: float, photo: torch.Tensor) -> None:
    pale = 0.4 + 0.2 * photo
    lost = pale - Transform("blur", 7)(pale)
    torch.testing.assert_close(Transform("sharpen", amount)(pale), pale + amount * lost)


def test_sharpen_leaves_flat_images_alone() -> None:
    flat = torch.full((3, 20, 30), 0.3)
    torch.testing.assert_close(Transform("sharpen", 2)(flat), flat)


@pytest.mark.parametrize("deviation", [0.05, 0.1])
def test_grain_is_the_same_in_all_colours_and_has_the_stated_deviation(deviation: float) -> None:
    grey = torch.full((3, 512, 512), 0.5)
    grain = Transform("grain", deviation)(grey, seed=5) - grey
    assert torch.equal(grain[0], grain[1])
    assert torch.equal(grain[0], grain[2])
    assert float(grain.std()) == pytest.approx(deviation, rel=0.01)
    assert abs(float(grain.mean())) < 1e-3
