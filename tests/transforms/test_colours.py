from __future__ import annotations

import pytest
import torch

from dualshield.transforms import Transform

LUMA = torch.tensor((0.299, 0.587, 0.114))[:, None, None]


def luma(pixels: torch.Tensor) -> torch.Tensor:
    return (pixels * LUMA).sum(0)


@pytest.fixture
def pale(photo: torch.Tensor) -> torch.Tensor:
    """The photo with colours so weak that no edit of them is clipped."""
    grey = luma(photo)
    return 0.25 + 0.5 * grey + 0.15 * (photo - grey)


@pytest.mark.parametrize("level", [0.6, 0.8, 1.25, 1.6])
def test_gamma_is_a_power(level: float, photo: torch.Tensor) -> None:
    torch.testing.assert_close(Transform("gamma", level)(photo), photo**level)
    assert (float(Transform("gamma", level)(photo).mean()) > float(photo.mean())) == (level < 1)


def test_gamma_of_one_changes_nothing(photo: torch.Tensor) -> None:
    torch.testing.assert_close(Transform("gamma", 1)(photo), photo)


@pytest.mark.parametrize("degrees", [30, 90, 180])
def test_hue_keeps_the_luma(degrees: float, pale: torch.Tensor) -> None:
    turned = Transform("hue", degrees)(pale)
    torch.testing.assert_close(luma(turned), luma(pale), atol=1e-5, rtol=0)
    assert float((turned - pale).abs().mean()) > 0.01


@pytest.mark.parametrize("degrees", [-360, 0, 360])
def test_hue_of_a_whole_turn_changes_nothing(degrees: float, photo: torch.Tensor) -> None:
    torch.testing.assert_close(Transform("hue", degrees)(photo), photo, atol=1e-5, rtol=0)


def test_hue_adds_up_and_goes_from_red_to_green(pale: torch.Tensor) -> None:
    quarter = Transform("hue", 90)
    torch.testing.assert_close(quarter(quarter(pale)), Transform("hue", 180)(pale), atol=1e-5, rtol=0)
    red = torch.tensor([0.6, 0.4, 0.4]).view(3, 1, 1)
    assert int(Transform("hue", 120)(red).argmax()) == 1
    assert int(Transform("hue", -120)(red).argmax()) == 2


@pytest.mark.parametrize("factor", [0.0, 0.5, 1.5, 2.0])
def test_saturation_multiplies_the_distance_from_grey(factor: float, pale: torch.Tensor) -> None:
    found = Transform("saturation", factor)(pale)
    torch.testing.assert_close(found - luma(pale), factor * (pale - luma(pale)), atol=1e-5, rtol=0)


def test_saturation_leaves_grey_alone(photo: torch.Tensor) -> None:
    grey = Transform("grey", 1)(photo)
    torch.testing.assert_close(Transform("saturation", 2)(grey), grey)


def test_grey_has_one_colour_and_the_same_luma(photo: torch.Tensor) -> None:
    grey = Transform("grey", 1)(photo)
    assert torch.equal(grey[0], grey[1])
    torch.testing.assert_close(grey[0], luma(photo))
    torch.testing.assert_close(Transform("grey", 0)(photo), photo)
