"""A photo in every mode and orientation, and what is kept beside its pixels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageCms

from tests.helpers.image_files import Pixels, saved

PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
XMP = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"/></x:xmpmeta>'
TURNED: dict[int, Callable[[Pixels], Pixels]] = {  # upright to stored
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.transpose(1, 0, 2),
    6: lambda a: np.rot90(a),
    7: lambda a: a[::-1, ::-1].transpose(1, 0, 2),
    8: lambda a: np.rot90(a, -1),
}


def scene(width: int = 200, height: int = 120) -> Pixels:
    """Soft texture without any symmetry, away from black and white so that nothing is clipped."""
    random = torch.Generator().manual_seed(5)
    coarse = 0.75 * torch.rand(1, 1, 6, 8, generator=random) + 0.25 * torch.rand(1, 3, 6, 8, generator=random)
    soft = F.interpolate(coarse, size=(height, width), mode="bicubic").clamp(0, 1)[0]
    return (soft.permute(1, 2, 0).numpy() * 175 + 40).round().astype(np.uint8)


def grey(width: int = 200, height: int = 120) -> Pixels:
    return scene(width, height)[..., 0]


RGBA = np.dstack([scene(), np.linspace(0, 255, 200 * 120).reshape(120, 200).astype(np.uint8)])
DEEP = (grey().astype(np.uint16) * 257) ^ 0x55


def exif(orientation: int = 1, model: str = "Camera 9") -> Image.Exif:
    found = Image.Exif()
    found[0x0110] = model
    found[0x0112] = orientation
    found.get_ifd(0x8769)[0x9286] = b"ASCII\0\0\0kept"
    return found


def palette(transparency: int | bytes | None = None) -> bytes:
    image = Image.fromarray(scene()).quantize(16)
    options = {} if transparency is None else {"transparency": transparency}
    return saved(image, "PNG", **options)
