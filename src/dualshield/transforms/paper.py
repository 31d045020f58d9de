"""The transformations of the paper's evaluation. Rotation keeps the image size and fills the corners with black."""

from __future__ import annotations

import math
from io import BytesIO

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

from dualshield.errors import InputError
from dualshield.transforms.family import Family
from dualshield.transforms.pixels import blurred, resized

# ITU-R 601 luma as in PIL and torchvision, whose adjust_contrast blends with its mean.
_LUMA = (0.2989, 0.587, 0.114)


def _jpeg(pixels: torch.Tensor, quality: float, _seed: int) -> torch.Tensor:
    """Encode and decode a real 8-bit JPEG file with 4:2:0 chroma."""
    samples = (pixels.detach().clamp(0, 1) * 255).round().to(torch.uint8).permute(1, 2, 0)
    file = BytesIO()
    Image.fromarray(samples.cpu().numpy()).save(file, "JPEG", quality=int(quality), subsampling="4:2:0")
    with Image.open(file, formats=["JPEG"]) as image:
        decoded = torch.from_numpy(np.array(image.convert("RGB")))
    return decoded.permute(2, 0, 1).to(pixels) / 255


def _brightness(pixels: torch.Tensor, factor: float, _seed: int) -> torch.Tensor:
    return pixels * factor


def _contrast(pixels: torch.Tensor, factor: float, _seed: int) -> torch.Tensor:
    """Blend with the mean of the grey image."""
    grey = (pixels.mean(dim=(1, 2)) * pixels.new_tensor(_LUMA)).sum()
    return pixels * factor + grey * (1 - factor)


def _crop(pixels: torch.Tensor, ratio: float, _seed: int) -> torch.Tensor:
    """Crop the centre, then enlarge to full size."""
    height, width = pixels.shape[-2:]
    rows, columns = max(1, round(height * ratio)), max(1, round(width * ratio))
    top, left = (height - rows) // 2, (width - columns) // 2
    return resized(pixels[:, top : top + rows, left : left + columns], height, width)


def _blur(pixels: torch.Tensor, kernel_size: float, _seed: int) -> torch.Tensor:
    """Blur with a Gaussian kernel of this size."""
    size = int(kernel_size)
    if size // 2 >= min(pixels.shape[-2:]):
        raise InputError(f"blur kernel {size} does not fit an image of {tuple(pixels.shape[-2:])}; use a smaller one")
    return blurred(pixels, size)


def _noise(pixels: torch.Tensor, deviation: float, seed: int) -> torch.Tensor:
    """Add Gaussian noise, drawn on the CPU so that a seed gives the same noise on every device."""
    generator = torch.Generator().manual_seed(seed)
    return pixels + deviation * torch.randn(pixels.shape, generator=generator).to(pixels)


def _rotation(pixels: torch.Tensor, degrees: float, _seed: int) -> torch.Tensor:
    """Rotate counter-clockwise about the centre, bilinear."""
    height, width = pixels.shape[-2:]
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    inverse = [[cosine, -sine * height / width, 0.0], [sine * width / height, cosine, 0.0]]
    grid = F.affine_grid(torch.tensor([inverse]).to(pixels), [1, *pixels.shape], align_corners=False)
    return F.grid_sample(pixels[None], grid, mode="bilinear", padding_mode="zeros", align_corners=False)[0]


FAMILIES = {
    "jpeg": Family(_jpeg, 1, 100, step=1),
    "brightness": Family(_brightness, 0, 10),
    "contrast": Family(_contrast, 0, 10),
    "crop": Family(_crop, 0.05, 1),
    "blur": Family(_blur, 1, 99, step=2),
    "noise": Family(_noise, 0, 1),
    "rotation": Family(_rotation, -180, 180),
}

LEVELS: dict[str, tuple[float, ...]] = {
    "jpeg": (95, 80, 60, 40),
    "brightness": (0.70, 0.85, 1.15, 1.30),
    "contrast": (0.70, 0.85, 1.15, 1.30),
    "crop": (0.90, 0.80, 0.70),
    "blur": (3, 5, 7),
    "noise": (0.01, 0.02, 0.04),
    "rotation": (2, 5, 10),
}
MILDEST = {"jpeg-95", "brightness-0.85", "brightness-1.15", "contrast-0.85", "contrast-1.15"}
MILDEST |= {"crop-0.9", "blur-3", "noise-0.01", "rotation-2"}
