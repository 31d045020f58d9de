from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from dualshield.transforms import Transform
from dualshield.transforms.frames import INK, PAGE


def shrunk(pixels: torch.Tensor, height: int, width: int) -> torch.Tensor:
    return F.interpolate(pixels[None], size=(height, width), mode="bilinear", antialias=True)[0]


@pytest.mark.parametrize(("level", "margin"), [(0.02, 10), (0.05, 26), (0.08, 41), (0.1, 51)])
def test_border_is_white_around_the_smaller_picture(level: float, margin: int, photo: torch.Tensor) -> None:
    framed = Transform("border", level)(photo)
    inside = slice(margin, 512 - margin)
    torch.testing.assert_close(framed[:, inside, inside], shrunk(photo, 512 - 2 * margin, 512 - 2 * margin))
    framed[:, inside, inside] = 1
    assert float(framed.min()) == 1


def test_border_of_a_wide_image_is_a_share_of_each_side() -> None:
    framed = Transform("border", 0.1)(torch.zeros(3, 40, 100))
    assert float(framed.sum()) == 3 * (40 * 100 - 32 * 80)


@pytest.mark.parametrize(("level", "bar"), [(0.1, 26), (0.2, 51), (0.25, 64)])
def test_padding_is_black_above_and_below(level: float, bar: int, photo: torch.Tensor) -> None:
    padded = Transform("padding", level)(photo)
    assert float(padded[:, :bar].max()) == float(padded[:, 512 - bar :].max()) == 0
    torch.testing.assert_close(padded[:, bar : 512 - bar], shrunk(photo, 512 - 2 * bar, 512))


def test_pillars_are_padding_of_the_other_axis(photo: torch.Tensor) -> None:
    on_its_side = Transform("padding", 0.2)(photo.transpose(1, 2))
    torch.testing.assert_close(Transform("pillars", 0.2)(photo), on_its_side.transpose(1, 2))


@pytest.mark.parametrize(("level", "rows"), [(0.08, 41), (0.15, 77)])
def test_caption_bar_is_above_the_whole_picture(level: float, rows: int, photo: torch.Tensor) -> None:
    captioned = Transform("caption-bar", level)(photo)
    bar = captioned[:, :rows]
    assert float(bar.median()) == float(bar.max()) == 1
    assert 0.005 < float((bar < 0.5).float().mean()) < 0.3
    torch.testing.assert_close(captioned[:, rows:], shrunk(photo, 512 - rows, 512))


def test_screenshot_has_a_status_bar_and_a_page(photo: torch.Tensor) -> None:
    screen = Transform("screenshot", 0.05)(photo)
    torch.testing.assert_close(screen[:, :31], torch.full((3, 31, 512), INK))
    torch.testing.assert_close(screen[:, 31:, :26], torch.full((3, 481, 26), PAGE))
    inner = screen[:, 31 + 24 : 512 - 24, 26 : 512 - 26]
    torch.testing.assert_close(inner, shrunk(photo, 512 - 31 - 48, 512 - 52))


@pytest.mark.parametrize("family", ["border", "padding", "pillars"])
def test_a_frame_of_no_width_changes_nothing(family: str, photo: torch.Tensor) -> None:
    torch.testing.assert_close(Transform(family, 0)(photo), photo)
