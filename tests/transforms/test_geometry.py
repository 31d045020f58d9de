from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

from dualshield.transforms import Transform


def test_flip_mirrors_and_undoes_itself(photo: torch.Tensor) -> None:
    flip = Transform("flip", 1)
    assert torch.equal(flip(photo)[:, :, 0], photo[:, :, -1])
    assert torch.equal(flip(flip(photo)), photo)


def test_four_turns_change_nothing(photo: torch.Tensor) -> None:
    quarter, found = Transform("turn", 90), photo
    for degrees in (90, 180, 270):
        found = quarter(found)
        assert torch.equal(found, Transform("turn", degrees)(photo))
    assert torch.equal(quarter(found), photo)


def test_turn_goes_the_way_of_rotation(photo: torch.Tensor) -> None:
    for degrees, same in ((90, 90), (180, 180), (270, -90)):
        rotated = Transform("rotation", same)(photo)
        torch.testing.assert_close(Transform("turn", degrees)(photo), rotated, atol=1e-3, rtol=0)


def test_turn_of_a_wide_image_keeps_its_shape() -> None:
    ramp = torch.linspace(0, 1, 80).expand(3, 40, 80)
    turned = Transform("turn", 90)(ramp)
    assert turned.shape == ramp.shape
    assert float(turned[0, 0].min()) > 0.9  # what was right is now above
    assert float(turned[0, -1].max()) < 0.1


def test_perspective_of_nothing_changes_nothing(photo: torch.Tensor) -> None:
    torch.testing.assert_close(Transform("perspective", 0)(photo), photo, atol=1e-4, rtol=0)


@pytest.mark.parametrize("level", [0.05, 0.1])
def test_perspective_narrows_the_top_only(level: float) -> None:
    found = Transform("perspective", level)(torch.ones(3, 200, 200))[0]
    assert float(found[0].sum()) == pytest.approx(200 * (1 - 2 * level), abs=2)
    assert float(found[100].sum()) == pytest.approx(200 * (1 - level), abs=2)
    assert float(found[-2].sum()) == pytest.approx(200, abs=2)  # the last row is blended with black
    torch.testing.assert_close(found, found.flip(-1), atol=1e-4, rtol=0)


def test_perspective_is_pillows(photo: torch.Tensor) -> None:
    smooth = Transform("blur", 7)(photo)
    found = Transform("perspective", 0.1)(smooth)
    # Pillow wants the map from the result to the source in pixels: (a x + b y + c, d x + e y + f) / (g x + h y + 1).
    numbers = (1.25, 0.125, -64, 0, 1.25, 0, 0, 0.25 / 512)
    for channel, ours in zip(smooth, found, strict=True):
        image = Image.fromarray(channel.numpy())
        pillow = image.transform(image.size, Image.Transform.PERSPECTIVE, numbers, Image.Resampling.BILINEAR)
        assert np.abs(np.array(pillow) - ours.numpy())[10:-10, 70:-70].max() < 0.01


def test_corner_crops_keep_opposite_corners(photo: torch.Tensor) -> None:
    for level, kept in ((0.93, 476), (0.85, 435), (0.8, 410)):
        for family, part in (("corner-crop", slice(0, kept)), ("corner-crop-low", slice(512 - kept, 512))):
            expected = F.interpolate(photo[None, :, part, part], size=(512, 512), mode="bilinear", antialias=True)[0]
            torch.testing.assert_close(Transform(family, level)(photo), expected)


@pytest.mark.parametrize("family", ["corner-crop", "corner-crop-low"])
def test_a_crop_of_everything_changes_nothing(family: str, photo: torch.Tensor) -> None:
    torch.testing.assert_close(Transform(family, 1)(photo), photo)
