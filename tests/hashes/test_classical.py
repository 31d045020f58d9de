"""pHash, dHash, aHash and block mean: the bits of ImageHash and OpenCV, the linear map behind them, no torch."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from PIL import Image, ImageDraw, ImageFilter

from dualshield.errors import InputError
from dualshield.hashes import get_hash
from dualshield.hashes.codes import to_hex
from dualshield.hashes.linear.linear_hash import LinearHash
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images.space import LUMA
from dualshield.images.synthetic import blank_images, natural_image
from dualshield.testing import HashContract
from tests.helpers.command_line import run

imagehash = pytest.importorskip("imagehash")

Bits = npt.NDArray[np.bool_]
NAMES = ("phash", "phash-dct", "dhash", "ahash", "block-mean")
BITS = {"phash": 64, "phash-dct": 64, "dhash": 64, "ahash": 64, "block-mean": 256}
SIZE = 512


# -- the published functions, once more -----------------------------------------------------------------------------


def phash_dct(image: Image.Image) -> Bits:
    """The DCT as sums of cosines, written out."""
    grey = np.asarray(image.convert("L").resize((32, 32), Image.Resampling.LANCZOS), dtype=np.float64)
    low = np.zeros((8, 8))
    for row in range(8):
        for col in range(8):
            down = np.cos(np.pi * (row + 1) * (np.arange(32) + 0.5) / 32)
            across = np.cos(np.pi * (col + 1) * (np.arange(32) + 0.5) / 32)
            low[row, col] = (grey * np.outer(down, across)).sum()
    bits: Bits = low > np.median(low)
    return bits


def block_mean(image: Image.Image) -> Bits:
    """What OpenCV does: halve with bilinear weights, grey by fixed-point weights, a block against the whole."""
    pixels = np.asarray(image, dtype=np.float64)
    corners = pixels[::2, ::2], pixels[1::2, ::2], pixels[::2, 1::2], pixels[1::2, 1::2]
    small = np.floor(sum(corners) / 4 + 0.5)
    red, green = (round(weight * 2**15) for weight in LUMA[:2])
    weights = np.array([red, green, 2**15 - red - green]) / 2**15
    grey = np.floor((small * weights).sum(2) + 0.5)
    means = [grey[top : top + 16, left : left + 16].mean() for top in range(0, 256, 16) for left in range(0, 256, 16)]
    return np.array([mean >= grey.mean() for mean in means])


ORACLES: dict[str, Callable[[Image.Image], Any]] = {
    "phash": lambda image: imagehash.phash(image).hash,
    "phash-dct": phash_dct,
    "dhash": lambda image: imagehash.dhash(image).hash,
    "ahash": lambda image: imagehash.average_hash(image).hash,
    "block-mean": block_mean,
}


# -- images ---------------------------------------------------------------------------------------------------------


@cache
def photo_like(seed: int) -> Image.Image:
    """Smoothed noise over a gradient, with a few shapes; every third with flat bars, where many cells are equal."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (int(rng.integers(4, 40)), int(rng.integers(4, 40)), 3), dtype=np.uint8)
    noise = Image.fromarray(coarse).resize((SIZE, SIZE), Image.Resampling.BICUBIC)
    slope = np.add.outer(np.linspace(0, rng.uniform(0, 200), SIZE), np.linspace(0, rng.uniform(0, 55), SIZE))
    ramp = Image.fromarray(np.repeat(slope.astype(np.uint8)[:, :, None], 3, axis=2))
    image = Image.blend(noise, ramp, rng.uniform(0.2, 0.8))
    draw = ImageDraw.Draw(image)
    for _ in range(int(rng.integers(1, 6))):
        left, top, width, height = (int(n) for n in rng.integers(10, 300, 4))
        draw.ellipse((left, top, left + width, top + height), fill=tuple(int(n) for n in rng.integers(0, 256, 3)))
    image = image.filter(ImageFilter.GaussianBlur(rng.uniform(0, 3)))
    if seed % 3 == 0:
        image.paste((0, 0, 0), (0, 0, SIZE, 96))
        image.paste((255, 255, 255), (0, SIZE - 96, SIZE, SIZE))
    return image


def pixels_of(image: Image.Image) -> torch.Tensor:
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).float().contiguous() / 255


def linear_of(name: str) -> LinearHash:
    linear = get_hash(name).linear
    assert linear is not None
    return linear


# -- the bits -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_bits_are_the_published_ones(name: str) -> None:
    hash_ = get_hash(name)
    for seed in range(40):
        image = photo_like(seed)
        expected = ORACLES[name](image).reshape(-1)
        assert expected.shape == (hash_.bits,) == (BITS[name],)
        code = hash_.code(pixels_of(image))
        assert code.dtype == torch.bool
        assert np.array_equal(code.numpy(), expected)
        assert np.array_equal(linear_of(name).code(pixels_of(image).numpy()), expected)


@pytest.mark.parametrize("name", NAMES)
def test_without_rounding_few_bits_differ(name: str) -> None:
    """The linear map has no rounding. So the two differ, but only next to the boundary."""
    hash_ = get_hash(name)
    differing = [
        int((hash_.encode(hash_.margins(pixels[None])[0]) ^ hash_.code(pixels)).sum())
        for pixels in (pixels_of(photo_like(seed)) for seed in range(40) if seed % 3)
    ]
    assert np.mean(differing) <= 0.02 * hash_.bits


@pytest.mark.parametrize(("name", "function"), [("phash", "phash"), ("dhash", "dhash"), ("ahash", "average_hash")])
def test_hex_is_that_of_imagehash(name: str, function: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = photo_like(1)
    expected = str(getattr(imagehash, function)(image))
    assert to_hex(get_hash(name).code(pixels_of(image))) == expected
    image.save(tmp_path / "photo.png")
    assert run("hash", tmp_path / "photo.png", "--hash", name) == 0
    assert capsys.readouterr().out == f"{expected}  {tmp_path / 'photo.png'}\n"


@pytest.mark.parametrize("name", NAMES)
def test_pixels_are_rounded_to_8_bits_first(name: str) -> None:
    hash_, pixels = get_hash(name), pixels_of(photo_like(2))
    moved = pixels + 0.4 / 255 * torch.rand(pixels.shape, generator=torch.Generator().manual_seed(0))
    assert torch.equal(hash_.code(moved), hash_.code(pixels))
    beyond = torch.where(pixels == 1, 1.5, torch.where(pixels == 0, -0.5, pixels))
    assert torch.equal(hash_.code(beyond), hash_.code(pixels))


@pytest.mark.parametrize("name", NAMES)
def test_blank_images_have_a_defined_code(name: str) -> None:
    hash_ = get_hash(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for image in blank_images():
            expected = ORACLES[name](Image.fromarray(image.to_8bit())).reshape(-1)
            code = hash_.code(image.pixels)
            if name == "phash-dct" and image.name != "faint-noise":
                expected = np.zeros(64, dtype=bool)  # all coefficients are zero; in the oracle only up to rounding
            assert np.array_equal(code.numpy(), expected), image.name
            assert torch.equal(code, hash_.code(image.pixels))
            assert hash_.margins(image.pixels[None]).isfinite().all()


@pytest.mark.parametrize("name", NAMES)
def test_other_sizes_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="expected canonical pixels of shape"):
        get_hash(name).code(torch.zeros(3, 256, 256))


# -- the linear map -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lowpass", [None, 32])
@pytest.mark.parametrize("name", NAMES)
def test_margins_are_the_coefficients_above_the_boundary(name: str, lowpass: int | None) -> None:
    hash_ = get_hash(name).with_lowpass(lowpass)
    linear = hash_.linear
    assert linear is not None
    assert (linear.name, linear.bits, linear.lowpass) == (hash_.name, hash_.bits, lowpass)
    for pixels in (natural_image(4).pixels, pixels_of(photo_like(4))):
        coefficients = linear.coefficients(pixels.numpy().astype(np.float64))
        expected = coefficients - linear.boundary(coefficients)
        margins = hash_.margins(pixels[None])[0].numpy()
        assert np.abs(margins - expected).max() <= 1e-5 * np.abs(coefficients).max()


@pytest.mark.parametrize("name", NAMES)
def test_a_low_pass_makes_another_hash(name: str) -> None:
    low, pixels = get_hash(name).with_lowpass(24), natural_image(5).pixels
    assert low.linear is not None
    assert low.linear.published is None
    assert torch.equal(low.code(pixels), low.margins(pixels[None])[0] > 0)


@pytest.mark.parametrize("name", NAMES)
def test_gram_is_that_of_the_whole_map(name: str) -> None:
    linear = linear_of(name)
    # The same hash of 1/16 of the pixels, whose whole map is a small matrix.
    rows, cols = linear.vertical[:, ::16], linear.horizontal[:, ::16]
    small = LinearHash(linear.name, linear.version, rows, cols, linear.rule, linear.mix)
    columns = []
    for channel in range(3):
        for place in range(32 * 32):
            pixels = np.zeros((3, 32, 32))
            pixels[channel].flat[place] = 1
            columns.append(small.coefficients(pixels))
    whole = np.stack(columns, axis=1)
    np.testing.assert_allclose(small.gram, whole @ whole.T, rtol=0, atol=1e-12 * np.abs(small.gram).max())


@pytest.mark.parametrize("name", NAMES)
def test_rules(name: str) -> None:
    hash_, linear = get_hash(name), linear_of(name)
    median = name in ("phash", "phash-dct")
    assert hash_.is_balanced == hash_.is_linear == (linear.rule == "median") == median
    assert linear.expected_ones == (32 if median else None)
    assert hash_.has_small_network
    if median:
        assert int(hash_.code(natural_image(6).pixels).sum()) == 32


def test_identities_differ() -> None:
    identities = [get_hash(name).identity for name in NAMES]
    assert len({str(identity) for identity in identities}) == len(NAMES)
    assert len({identity["front_end"] for identity in identities}) == len(NAMES)
    assert [bool(identity["weights"]) for identity in identities] == [False, False, False, True, True]


def test_no_torch_is_imported() -> None:
    program = (
        "import sys, numpy as np\n"
        "from dualshield.hashes.linear import ahash, block_mean, dhash, pdq, phash\n"
        "loaders = ahash.load, block_mean.load, dhash.load, pdq.load, phash.load, phash.load_dct\n"
        "pixels = np.random.default_rng(0).random((3, 512, 512), dtype=np.float32)\n"
        "print([int(load().code(pixels).size) for load in loaders], 'torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[64, 256, 64, 256, 64, 64] False"


# -- the contract of every hash -------------------------------------------------------------------------------------


class TestPhash(HashContract):
    def load(self) -> PerceptualHash:
        return get_hash("phash")


class TestPhashDct(HashContract):
    def load(self) -> PerceptualHash:
        return get_hash("phash-dct")


class TestDhash(HashContract):
    def load(self) -> PerceptualHash:
        return get_hash("dhash")


class TestAhash(HashContract):
    def load(self) -> PerceptualHash:
        return get_hash("ahash")


class TestBlockMean(HashContract):
    def load(self) -> PerceptualHash:
        return get_hash("block-mean")


class TestPhashBehindALowPass(HashContract):
    def load(self) -> PerceptualHash:
        return get_hash("phash").with_lowpass(32)
