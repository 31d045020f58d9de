"""Further common transformations on platforms, beyond the paper's list and reported separately from it."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw, ImageFont

from dualshield.images.space import LUMA
from dualshield.transforms.family import Family

CAPTION = "when you see it"
STATUS_BAR = 0.06  # fraction of the screenshot's height
PAGE = 0.94
INK = 0.12


def _resized(pixels: torch.Tensor, height: int, width: int) -> torch.Tensor:
    return F.interpolate(pixels[None], size=(height, width), mode="bilinear", antialias=True)[0]


def _resize(pixels: torch.Tensor, ratio: float, _seed: int) -> torch.Tensor:
    """Shrink to a thumbnail, then enlarge again."""
    height, width = pixels.shape[-2:]
    return _resized(_resized(pixels, max(1, round(height * ratio)), max(1, round(width * ratio))), height, width)


def _grey(pixels: torch.Tensor, share: float, _seed: int) -> torch.Tensor:
    """Blend with the luma; at 1 the image is grey."""
    luma = (pixels * pixels.new_tensor(LUMA)[:, None, None]).sum(0, keepdim=True)
    return (1 - share) * pixels + share * luma


def _flip(pixels: torch.Tensor, _level: float, _seed: int) -> torch.Tensor:
    """Mirror left to right."""
    return pixels.flip(-1)


def _caption(pixels: torch.Tensor, share: float, _seed: int) -> torch.Tensor:
    """Cover the bottom of the image with a white band with black text, as on memes."""
    height, width = pixels.shape[-2:]
    rows = max(1, round(height * share))
    band = Image.new("L", (width, rows), 255)
    font = ImageFont.load_default(max(6, rows // 2))
    ImageDraw.Draw(band).text((width / 2, rows / 2), CAPTION, fill=0, anchor="mm", font=font)
    captioned = pixels.clone()
    captioned[:, height - rows :] = torch.from_numpy(np.array(band)).to(pixels) / 255
    return captioned


def _border(pixels: torch.Tensor, share: float, _seed: int) -> torch.Tensor:
    """Imitate a screenshot: the image on a light page, below a dark status bar, with margins on all sides."""
    height, width = pixels.shape[-2:]
    screen = torch.full_like(pixels, PAGE)
    bar = round(height * STATUS_BAR)
    screen[:, :bar] = INK
    side, above = round(width * share), bar + round((height - bar) * share)
    below = round((height - bar) * share)
    shown = _resized(pixels, height - above - below, width - 2 * side)
    screen[:, above : height - below, side : width - side] = shown
    return screen


FAMILIES = {
    "resize": Family(_resize, 0.02, 1),
    "grey": Family(_grey, 0, 1),
    "flip": Family(_flip, 1, 1, step=1),
    "caption": Family(_caption, 0.02, 0.5),
    "border": Family(_border, 0, 0.4),
}

LEVELS: dict[str, tuple[float, ...]] = {
    "resize": (0.5, 0.25),
    "grey": (1,),
    "flip": (1,),
    "caption": (0.1, 0.2),
    "border": (0.02, 0.05),
}
