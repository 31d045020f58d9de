"""The canonical space."""

from __future__ import annotations

import math
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from dualshield.errors import ImageError
from dualshield.images import CanonicalImage, canonical_array, load_image


def encoded(array: np.ndarray) -> bytes:
    file = BytesIO()
    Image.fromarray(array).save(file, "PNG")
    return file.getvalue()


def test_any_size_becomes_512_rgb_in_range() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (30, 70, 3), dtype=np.uint8)
    found = load_image(encoded(noise))
    assert found.pixels.shape == (3, 512, 512)
    assert found.pixels.dtype == torch.float32
    assert found.pixels.min() >= 0
    assert found.pixels.max() <= 1
    assert found.upload_size == (70, 30)


def test_512_is_left_alone() -> None:
    noise = np.random.default_rng(1).integers(0, 256, (512, 512, 3), dtype=np.uint8)
    found = load_image(encoded(noise))
    np.testing.assert_array_equal(found.to_8bit(), noise)
    assert found.upload_norm == pytest.approx(1.0)


def test_resize_is_linear_in_the_upload() -> None:
    rng = np.random.default_rng(2)
    low = rng.integers(0, 100, (40, 64, 3), dtype=np.uint8)
    added = rng.integers(0, 100, (40, 64, 3), dtype=np.uint8)
    one, two, both = (load_image(encoded(a)).pixels for a in (low, added, low + added))
    torch.testing.assert_close(one + two, both, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("width", "height"), [(128, 256), (1024, 700)])
def test_upload_norm_bounds_every_perturbation(width: int, height: int) -> None:
    image = CanonicalImage(torch.zeros(3, 512, 512), "x", (width, height))
    norm = image.upload_norm
    assert norm is not None
    rng = np.random.default_rng(3)
    base = rng.integers(100, 150, (height, width, 3), dtype=np.uint8)
    for scale in (1, 10):
        coarse = rng.integers(0, 60, (height // scale, width // scale, 3), dtype=np.uint8)
        change = np.kron(coarse, np.ones((scale, scale, 1), np.uint8))
        other = base.copy()
        other[: change.shape[0], : change.shape[1]] += change
        moved = (load_image(encoded(other)).pixels - load_image(encoded(base)).pixels).norm()
        upload = np.linalg.norm((other.astype(float) - base) / 255)
        assert float(moved) <= norm * upload * (1 + 1e-5)


def test_upload_norm_is_unknown_without_an_upload_or_its_gain() -> None:
    assert CanonicalImage(torch.zeros(3, 512, 512), "x").upload_norm is None
    assert CanonicalImage(torch.zeros(3, 512, 512), "x", (640, 480), None).upload_norm is None


def test_upload_norm_grows_with_the_gain() -> None:
    plain, grey = (CanonicalImage(torch.zeros(3, 512, 512), "x", (640, 480), gain).upload_norm for gain in (1.0, 1.5))
    assert plain is not None
    assert grey == pytest.approx(1.5 * plain)


@pytest.mark.parametrize(
    ("pixels", "what"),
    [
        (np.zeros((3, 512, 512), np.float32), "ndarray"),
        (None, "NoneType"),
        (torch.zeros(3, 512, 512, dtype=torch.uint8), "torch.uint8"),
        (torch.zeros(3, 512, 512, dtype=torch.complex64), "torch.complex64"),
        (torch.zeros(1, 512, 512), r"\(1, 512, 512\)"),
        (torch.zeros(512, 512, 3), r"\(512, 512, 3\)"),
        (torch.zeros(3, 511, 512), r"\(3, 511, 512\)"),
        (torch.zeros(1, 3, 512, 512), r"\(1, 3, 512, 512\)"),
        (torch.zeros(0), r"\(0,\)"),
    ],
)
def test_other_pixels_are_refused(pixels: Any, what: str) -> None:
    with pytest.raises(
        ImageError, match=rf"^photo: its pixels are .*{what}.*; give a float tensor \(3, 512, 512\)"
    ) as e:
        CanonicalImage(pixels, "photo")
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_pixels_that_are_no_numbers_are_refused(bad: float) -> None:
    pixels = torch.full((3, 512, 512), 0.5)
    pixels[2, 511, 511] = bad
    with pytest.raises(ImageError, match=r"^photo: .*not all finite.*; give"):
        CanonicalImage(pixels, "photo")


def test_any_finite_float_is_allowed() -> None:
    for dtype in (torch.float16, torch.float32, torch.float64):
        pixels = torch.linspace(-2, 3, 3 * 512 * 512).view(3, 512, 512).to(dtype)
        assert CanonicalImage(pixels, "x").pixels is pixels


def test_repr_is_short() -> None:
    pixels = torch.zeros(3, 512, 512)
    assert repr(CanonicalImage(pixels, "photo.jpg", (640, 480))) == "<CanonicalImage photo.jpg, 640x480>"
    assert repr(CanonicalImage(pixels, "photo.jpg")) == "<CanonicalImage photo.jpg>"
    assert "\n" not in repr(CanonicalImage(pixels, "two\nlines"))


# -- large images ----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(900, 1300), (1300, 900), (700, 40)])
def test_resizing_by_strips_gives_what_resizing_at_once_gives(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = np.random.default_rng(2).integers(0, 256, (*size, 3), dtype=np.uint8)
    whole = torch.nn.functional.interpolate(
        torch.from_numpy(noise / np.float32(255)).permute(2, 0, 1)[None], (512, 512), mode="bilinear", antialias=True
    )[0]
    monkeypatch.setattr(canonical_array, "STRIP_PIXELS", 17 * size[1])
    assert torch.equal(load_image(encoded(noise)).pixels, whole.clamp(0, 1))
    monkeypatch.setattr(canonical_array, "MOST_ROWS", size[0] - 1)  # the way of very tall images
    torch.testing.assert_close(load_image(encoded(noise)).pixels, whole.clamp(0, 1), atol=2e-6, rtol=0)


@pytest.mark.parametrize("size", ["9400, 9400", "11, 8000000"])
def test_a_small_file_of_88_megapixels_takes_little_memory(size: str, tmp_path: Path) -> None:
    """It took 2.6 GB; its pixels as float32 RGB alone are 1.06 GB."""
    file = tmp_path / "large.png"
    make = f"from PIL import Image; Image.new('L', ({size})).save({str(file)!r})"
    subprocess.run([sys.executable, "-c", make], check=True)
    script = (
        "import resource; from dualshield.images import load_image\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        f"load_image({str(file)!r})\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    found = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert int(found.stdout) < 600_000  # kilobytes
