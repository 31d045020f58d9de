"""Edits that move pixels: mirror, quarter turns, perspective, crops of a corner."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from dualshield.transforms.family import Family
from dualshield.transforms.pixels import resized


def _flip(pixels: torch.Tensor, _level: float, _seed: int) -> torch.Tensor:
    """Mirror left to right."""
    return pixels.flip(-1)


def _turn(pixels: torch.Tensor, degrees: float, _seed: int) -> torch.Tensor:
    """Turn counter-clockwise by quarters; an image that is not square is then stretched to its old shape."""
    turned = torch.rot90(pixels, int(degrees) // 90, (-2, -1))
    return turned if turned.shape == pixels.shape else resized(turned, *pixels.shape[-2:])


def _perspective(pixels: torch.Tensor, share: float, _seed: int) -> torch.Tensor:
    """Pull the top corners inwards by this share of the width, as if the picture leant back; black outside."""
    height, width = pixels.shape[-2:]
    y = (torch.arange(height, dtype=torch.float64) + 0.5) / height
    x = (torch.arange(width, dtype=torch.float64) + 0.5) / width * 2 - 1
    # The homography that is symmetric in x, is the identity at the bottom and narrows the top to 1 - 2 share.
    depth = 1 - 2 * share + 2 * share * y
    source_y = (2 * y / depth - 1)[:, None].expand(height, width)
    source_x = x[None, :] / depth[:, None]
    grid = torch.stack([source_x, source_y], -1)[None].to(pixels)
    return F.grid_sample(pixels[None], grid, mode="bilinear", padding_mode="zeros", align_corners=False)[0]


def _corner_crop(pixels: torch.Tensor, ratio: float, _seed: int) -> torch.Tensor:
    """Keep the top left, then enlarge to full size."""
    height, width = pixels.shape[-2:]
    return resized(pixels[:, : max(1, round(height * ratio)), : max(1, round(width * ratio))], height, width)


def _corner_crop_low(pixels: torch.Tensor, ratio: float, _seed: int) -> torch.Tensor:
    """Keep the bottom right, then enlarge to full size."""
    height, width = pixels.shape[-2:]
    return resized(pixels[:, -max(1, round(height * ratio)) :, -max(1, round(width * ratio)) :], height, width)


FAMILIES = {
    "flip": Family(_flip, 1, 1, step=1),
    "turn": Family(_turn, 90, 270, step=90),
    "perspective": Family(_perspective, 0, 0.4),
    "corner-crop": Family(_corner_crop, 0.05, 1),
    "corner-crop-low": Family(_corner_crop_low, 0.05, 1),
}
