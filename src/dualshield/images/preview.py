"""A preview of the original, the changed image and their amplified difference, side by side."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from dualshield.images.decode import DecodedImage, decode

AMPLIFICATION = 5
LARGEST_SIDE = 1024
STRIP = 18
GAP = 4


def preview(original: DecodedImage, changed: DecodedImage) -> bytes:
    """Return a PNG with the three panels; images larger than 1024 pixels are scaled down."""
    difference = 0.5 + AMPLIFICATION * (changed.pixels - original.pixels)
    panels = [_panel(p) for p in (original.pixels, changed.pixels, difference)]
    labels = ("original", "changed", f"difference x{AMPLIFICATION}")
    width, height = panels[0].size
    sheet = Image.new("RGB", (3 * width + 2 * GAP, height + STRIP), "white")
    draw = ImageDraw.Draw(sheet)
    for index, (panel, label) in enumerate(zip(panels, labels, strict=True)):
        left = index * (width + GAP)
        sheet.paste(panel, (left, STRIP))
        draw.text((left + 2, 2), label, fill="black")
    file = BytesIO()
    sheet.save(file, "PNG")
    return file.getvalue()


def preview_files(original: str | bytes, changed: str | bytes) -> bytes:
    """Return the preview of two image files (or their bytes)."""
    return preview(decode(original), decode(changed))


def _panel(pixels: npt.NDArray[np.float32]) -> Image.Image:
    image = Image.fromarray((np.clip(pixels, 0, 1) * 255).round().astype(np.uint8))
    image.thumbnail((LARGEST_SIDE, LARGEST_SIDE), Image.Resampling.BOX)
    return image
