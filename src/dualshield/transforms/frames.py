"""What is put around the picture, which is shrunk into the rest: borders, bars, a screenshot's page."""

from __future__ import annotations

import torch

from dualshield.transforms.family import Family
from dualshield.transforms.overlays import text_band
from dualshield.transforms.pixels import resized

STATUS_BAR = 0.06  # fraction of the screenshot's height
PAGE = 0.94
INK = 0.12


def _place(canvas: torch.Tensor, pixels: torch.Tensor, above: int, below: int, side: int) -> torch.Tensor:
    """Put the picture onto the canvas with these margins, in rows and columns."""
    height, width = canvas.shape[-2:]
    shown = resized(pixels, height - above - below, width - 2 * side)
    canvas[:, above : height - below, side : width - side] = shown
    return canvas


def _margin(side: int, share: float) -> int:
    """Return the pixels of a margin that leaves at least one pixel of the picture between two of them."""
    return min(round(side * share), (side - 1) // 2)


def _border(pixels: torch.Tensor, share: float, _seed: int) -> torch.Tensor:
    """Add a white border on all four sides."""
    rows, columns = (_margin(side, share) for side in pixels.shape[-2:])
    return _place(torch.ones_like(pixels), pixels, rows, rows, columns)


def _padding(pixels: torch.Tensor, share: float, _seed: int) -> torch.Tensor:
    """Add black bars at top and bottom, as around a wide film."""
    rows = _margin(pixels.shape[-2], share / 2)
    return _place(torch.zeros_like(pixels), pixels, rows, rows, 0)


def _pillars(pixels: torch.Tensor, share: float, _seed: int) -> torch.Tensor:
    """Add black bars left and right."""
    columns = _margin(pixels.shape[-1], share / 2)
    return _place(torch.zeros_like(pixels), pixels, 0, 0, columns)


def _caption_bar(pixels: torch.Tensor, share: float, _seed: int) -> torch.Tensor:
    """Add a white bar with black text above the picture."""
    height, width = pixels.shape[-2:]
    if height == 1:
        return pixels.clone()
    rows = max(1, round(height * share))
    canvas = torch.ones_like(pixels)
    canvas[:, :rows] = text_band(rows, width).to(pixels)
    return _place(canvas, pixels, rows, 0, 0)


def _screenshot(pixels: torch.Tensor, share: float, _seed: int) -> torch.Tensor:
    """Imitate a screenshot: the image on a light page, below a dark status bar, with margins on all sides."""
    height, width = pixels.shape[-2:]
    screen = torch.full_like(pixels, PAGE)
    bar = round(height * STATUS_BAR)
    screen[:, :bar] = INK
    margin = _margin(height - bar, share)
    return _place(screen, pixels, bar + margin, margin, _margin(width, share))


FAMILIES = {
    "border": Family(_border, 0, 0.4),
    "padding": Family(_padding, 0, 0.8),
    "pillars": Family(_pillars, 0, 0.8),
    "caption-bar": Family(_caption_bar, 0.02, 0.5),
    "screenshot": Family(_screenshot, 0, 0.4),
}
