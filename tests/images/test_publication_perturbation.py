"""Published files: the perturbation arrives where it was computed, whatever the format, size and orientation."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from dualshield.images import load_image
from dualshield.images.publication import Format
from tests.helpers.image_files import Pixels, saved
from tests.helpers.published import NOTHING, error_of, opened, publication, smooth
from tests.helpers.scenes import DEEP, RGBA, TURNED, XMP, exif, grey, scene

SHAPES = [(320, 200), (200, 320), (640, 420), (420, 640), (640, 560), (530, 600), (512, 512), (640, 100)]


@pytest.mark.parametrize("size", SHAPES)
@pytest.mark.parametrize(("kind", "limit"), [("PNG", 0.1), ("JPEG", 0.25)])
def test_a_smooth_perturbation_arrives(kind: str, limit: float, size: tuple[int, int], tmp_path: Path) -> None:
    options = {"quality": 85} if kind == "JPEG" else {}
    before = publication(tmp_path, saved(scene(*size), kind, **options), kind)
    published = before.encode(smooth())
    assert opened(published).size == size
    assert error_of(before, published, smooth()) < limit


@pytest.mark.parametrize("kind", ["WEBP", "TIFF", "BMP", "AVIF", "HEIF"])
def test_it_arrives_in_every_format(kind: str, tmp_path: Path) -> None:
    before = publication(tmp_path, saved(scene(300, 200), kind), kind)
    assert error_of(before, before.encode(smooth()), smooth()) < 0.25


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize(
    ("kind", "format"),
    [
        *((kind, "keep") for kind in ("JPEG", "PNG", "WEBP", "TIFF", "AVIF", "HEIF")),
        *((kind, "png") for kind in ("JPEG", "TIFF", "AVIF")),
        *((kind, "jpeg") for kind in ("PNG", "TIFF", "HEIF")),
    ],
)
def test_rotated_files_stay_rotated(kind: str, format: Format, orientation: int, tmp_path: Path) -> None:
    stored = TURNED[orientation](scene())
    data = saved(stored, kind, exif=exif(orientation).tobytes(), quality=85, lossless=True)
    before = publication(tmp_path, data, kind)
    assert before.size == (200, 120)
    published = before.encode(smooth(), format)
    assert load_image(published).upload_size == (200, 120)
    assert error_of(before, published, smooth()) < 0.25
    if kind == "HEIF":
        return  # is read and published upright
    found = Image.open(BytesIO(published))
    assert found.getexif()[0x0110] == "Camera 9"
    assert found.getexif().get(0x0112, 1) == orientation
    if found.format == "TIFF":  # Pillow turns it on loading
        assert (found.tag_v2[256], found.tag_v2[257]) == (stored.shape[1], stored.shape[0])  # type: ignore[attr-defined]
    else:
        assert np.abs(np.asarray(found).astype(int) - stored).max() < 30
        assert found.size == (stored.shape[1], stored.shape[0])


def test_orientation_in_xmp_alone(tmp_path: Path) -> None:
    xmp = XMP.replace(b"<rdf:RDF", b'<rdf:RDF tiff:Orientation="6"')
    for add in (PngInfo.add_itxt, PngInfo.add_text):
        text = PngInfo()
        add(text, "XML:com.adobe.xmp", xmp.decode())
        before = publication(tmp_path, saved(TURNED[6](scene()), "PNG", pnginfo=text))
        assert before.size == (200, 120)
        for format in ("keep", "jpeg"):
            assert error_of(before, before.encode(smooth(), format), smooth()) < 0.25


@pytest.mark.parametrize("image", [grey(), DEEP, RGBA[..., 0]])
def test_grey_files_get_the_luma(image: Pixels, tmp_path: Path) -> None:
    before = publication(tmp_path, saved(image, "PNG"))
    luma = (smooth() * torch.tensor([0.299, 0.587, 0.114])[:, None, None]).sum(0).expand(3, -1, -1)
    assert error_of(before, before.encode(smooth()), luma) < (0.01 if image.dtype == np.uint16 else 0.2)


def test_samples_are_clipped_and_do_not_wrap(tmp_path: Path) -> None:
    for value, sign, expected in ((250, 1, 255), (5, -1, 0)):
        before = publication(tmp_path, saved(np.full((80, 90, 3), value, np.uint8), "PNG"))
        assert np.all(np.asarray(opened(before.encode(NOTHING + sign * 40 / 255))) == expected)


def test_samples_are_rounded_to_nearest(tmp_path: Path) -> None:
    before = publication(tmp_path, saved(np.full((80, 90, 3), 100, np.uint8), "PNG"))
    for part, expected in ((0.4, 100), (0.6, 101), (-0.4, 100), (-0.6, 99)):
        assert np.all(np.asarray(opened(before.encode(NOTHING + part / 255))) == expected)
