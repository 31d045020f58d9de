"""What is put onto the picture and covers a part of it: a caption, a logo."""

from __future__ import annotations

import math

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont

from dualshield.transforms.family import Family

CAPTION = "when you see it"
LETTER = "D"
DISC = (18, 52, 120)
MARK = (250, 196, 40)  # the ring and the letter
CENTRE = 0.75  # of the logo, as a share of both sides: the middle of the lower right quarter
FINER = 4  # the logo is drawn this much larger, for smooth edges


def text_band(rows: int, width: int) -> torch.Tensor:
    """Return a white band ``(rows, width)`` with black text in its middle."""
    band = Image.new("L", (width, rows), 255)
    font = ImageFont.load_default(max(6, rows // 2))
    ImageDraw.Draw(band).text((width / 2, rows / 2), CAPTION, fill=0, anchor="mm", font=font)
    return torch.from_numpy(np.array(band)) / 255


def _caption(pixels: torch.Tensor, share: float, _seed: int) -> torch.Tensor:
    """Cover the bottom of the image with a white band with black text, as on memes."""
    height, width = pixels.shape[-2:]
    rows = max(1, round(height * share))
    captioned = pixels.clone()
    captioned[:, height - rows :] = text_band(rows, width).to(pixels)
    return captioned


def _logo(pixels: torch.Tensor, share: float, _seed: int) -> torch.Tensor:
    """Cover this share of the image, in its lower right quarter, with a disc with a ring and a letter.

    The disc is round on a square image and stretched as the image is on others.
    """
    radius = math.sqrt(share / math.pi)
    (top, rows), (left, columns) = (_extent(side, radius) for side in pixels.shape[-2:])
    drawn = torch.from_numpy(_draw_logo(rows, columns)).permute(2, 0, 1).to(pixels) / 255
    colours, opacity = drawn[:3], drawn[3:]
    marked = pixels.clone()
    behind = marked[:, top : top + rows, left : left + columns]
    marked[:, top : top + rows, left : left + columns] = opacity * colours + (1 - opacity) * behind
    return marked


def _extent(side: int, radius: float) -> tuple[int, int]:
    """Return where the logo begins and its length along one side of the image."""
    length = max(1, round(2 * radius * side))
    return min(round((CENTRE - radius) * side), side - length), length


def _draw_logo(rows: int, columns: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Return the logo as ``(rows, columns, 4)`` with opacity."""
    height, width = FINER * rows, FINER * columns
    logo = Image.new("RGBA", (width, height), (*DISC, 0))
    draw = ImageDraw.Draw(logo)
    draw.ellipse((0, 0, width - 1, height - 1), fill=DISC)
    thickness = max(1, min(height, width) // 16)
    inner = (width // 12, height // 12, width - 1 - width // 12, height - 1 - height // 12)
    draw.ellipse(inner, outline=MARK, width=thickness)
    font = ImageFont.load_default(max(6, min(height, width) // 2))
    draw.text((width / 2, height / 2), LETTER, fill=MARK, anchor="mm", font=font, stroke_width=thickness // 4)
    return np.array(logo.resize((columns, rows), Image.Resampling.BOX))


FAMILIES = {
    "caption": Family(_caption, 0.02, 0.5),
    "logo": Family(_logo, 0.005, 0.19),  # a disc of 0.196 fills the quarter
}
