from __future__ import annotations

import pytest
import torch

from dualshield.transforms import Transform
from dualshield.transforms.overlays import DISC, MARK


def test_caption_covers_its_share_of_the_bottom_with_letters(photo: torch.Tensor) -> None:
    captioned = Transform("caption", 0.2)(photo)
    assert torch.equal(captioned[:, :410], photo[:, :410])
    band = captioned[:, 410:]
    assert float(band.max()) == 1
    assert 0.02 < float((band < 0.5).float().mean()) < 0.3


@pytest.mark.parametrize("share", [0.05, 0.15, 0.19])
@pytest.mark.parametrize("shape", [(3, 512, 512), (3, 90, 160)])
def test_logo_covers_its_share_of_the_lower_right_quarter(share: float, shape: tuple[int, ...]) -> None:
    black, white = torch.zeros(shape), torch.ones(shape)
    logo = Transform("logo", share)
    covered = 1 - (logo(white) - logo(black))[0]  # the opacity
    assert float(covered.mean()) == pytest.approx(share, rel=0.1)
    height, width = shape[1:]
    assert float(covered[: height // 2].max()) == float(covered[:, : width // 2].max()) == 0


def test_logo_has_two_colours(photo: torch.Tensor) -> None:
    marked = Transform("logo", 0.15)(photo)
    colours = (marked * 255).round().int().permute(1, 2, 0).reshape(-1, 3)
    disc, mark = (float((colours == torch.tensor(colour)).all(1).float().mean()) for colour in (DISC, MARK))
    assert disc > mark > 0.02
    assert 0.8 * 0.15 < disc + mark <= 0.15


def test_logo_is_round_on_a_square_image() -> None:
    marked = Transform("logo", 0.05)(torch.zeros(3, 256, 256))[2]  # both colours have blue
    rows, columns = (marked.amax(axis).nonzero().flatten() for axis in (1, 0))
    assert torch.equal(rows, columns)
    assert float(rows.float().mean()) == pytest.approx(0.75 * 256, abs=1)
