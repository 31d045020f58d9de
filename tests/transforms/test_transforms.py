from __future__ import annotations

import math
from io import BytesIO
from pathlib import Path
from typing import Any, assert_type

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance

from dualshield.errors import ImageError, InputError
from dualshield.images import CanonicalImage, load_image
from dualshield.transforms import ALL_TRANSFORMS, LOWEST_INTENSITY, PAPER_TRANSFORMS, Chain, Transform, parse

NAMES = [transform.name for transform in PAPER_TRANSFORMS]


def distance(first: torch.Tensor, second: torch.Tensor) -> float:
    return float((first - second).abs().mean())


def test_the_list_is_the_papers() -> None:
    assert " ".join(NAMES) == (
        "jpeg-95 jpeg-80 jpeg-60 jpeg-40 brightness-0.7 brightness-0.85 brightness-1.15 brightness-1.3 "
        "contrast-0.7 contrast-0.85 contrast-1.15 contrast-1.3 crop-0.9 crop-0.8 crop-0.7 "
        "blur-3 blur-5 blur-7 noise-0.01 noise-0.02 noise-0.04 rotation-2 rotation-5 rotation-10"
    )
    assert " ".join(transform.name for transform in LOWEST_INTENSITY) == (
        "jpeg-95 brightness-0.85 brightness-1.15 contrast-0.85 contrast-1.15 crop-0.9 blur-3 noise-0.01 rotation-2"
    )


@pytest.mark.parametrize("transform", ALL_TRANSFORMS, ids=lambda transform: transform.name)
def test_shape_range_determinism_and_untouched_input(transform: Transform | Chain, photo: torch.Tensor) -> None:
    before = photo.clone()
    result = transform(photo)
    assert result.shape == photo.shape
    assert result.dtype == torch.float32
    assert 0 <= float(result.min()) <= float(result.max()) <= 1
    assert torch.equal(photo, before)
    assert torch.equal(result, transform(photo, seed=0))
    assert 1e-3 < distance(result, photo) < 0.4


@pytest.mark.parametrize("transform", PAPER_TRANSFORMS, ids=NAMES)
def test_black_stays_black_but_for_noise(transform: Transform) -> None:
    black = torch.zeros(3, 512, 512)
    expected = transform.level * math.sqrt(1 / (2 * math.pi)) if transform.family == "noise" else 0.0
    slack = 1.01 / 255 if transform.family == "jpeg" else 0  # a coarse quantiser may miss by one step
    assert float(transform(black).mean()) == pytest.approx(expected, rel=0.01, abs=slack)


@pytest.mark.parametrize(
    ("family", "level", "tolerance"),
    [
        ("brightness", 1, 0),
        ("contrast", 1, 1e-6),
        ("crop", 1, 1e-6),
        ("blur", 1, 1e-6),
        ("noise", 0, 0),
        ("rotation", 0, 1e-3),
    ],
)
def test_identity_levels(family: str, level: float, tolerance: float, photo: torch.Tensor) -> None:
    assert float((Transform(family, level)(photo) - photo).abs().max()) <= tolerance


def test_best_jpeg_of_flat_grey_is_eight_bit_rounding() -> None:
    grey = torch.full((3, 64, 64), 0.3)
    assert torch.allclose(Transform("jpeg", 100)(grey), torch.full_like(grey, round(0.3 * 255) / 255))


@pytest.mark.parametrize(
    "names",
    [
        ["jpeg-95", "jpeg-80", "jpeg-60", "jpeg-40"],
        ["brightness-0.85", "brightness-0.7"],
        ["brightness-1.15", "brightness-1.3"],
        ["contrast-0.85", "contrast-0.7"],
        ["contrast-1.15", "contrast-1.3"],
        ["crop-0.9", "crop-0.8", "crop-0.7"],
        ["blur-3", "blur-5", "blur-7"],
        ["noise-0.01", "noise-0.02", "noise-0.04"],
        ["rotation-2", "rotation-5", "rotation-10"],
    ],
)
def test_distortion_grows_with_intensity(names: list[str], photo: torch.Tensor) -> None:
    distances = [distance(parse(name)(photo), photo) for name in names]
    assert distances == sorted(distances)
    assert distances[-1] > 1.1 * distances[0]


def test_only_noise_depends_on_the_seed(photo: torch.Tensor) -> None:
    for transform in LOWEST_INTENSITY:
        same = torch.equal(transform(photo, seed=1), transform(photo, seed=2))
        assert same == (transform.family != "noise")


def test_noise_has_the_stated_deviation() -> None:
    grey = torch.full((3, 512, 512), 0.5)
    noise = Transform("noise", 0.04)(grey, seed=5) - grey
    assert float(noise.std()) == pytest.approx(0.04, rel=0.01)
    assert abs(float(noise.mean())) < 3e-4


def test_brightness_multiplies_and_clips() -> None:
    pixels = torch.tensor([0.2, 0.5, 0.9]).view(3, 1, 1).expand(3, 4, 4)
    assert torch.allclose(Transform("brightness", 1.3)(pixels)[:, 0, 0], torch.tensor([0.26, 0.65, 1.0]))


def test_contrast_agrees_with_pillow(photo: torch.Tensor) -> None:
    image = Image.fromarray((photo * 255).round().to(torch.uint8).permute(1, 2, 0).numpy())
    for factor in (0.7, 1.3):
        pillow = np.asarray(ImageEnhance.Contrast(image).enhance(factor)) / 255
        ours = Transform("contrast", factor)(photo).permute(1, 2, 0).numpy()
        assert np.abs(pillow - ours).max() < 0.01


def test_jpeg_is_pillows(photo: torch.Tensor) -> None:
    image = Image.fromarray((photo * 255).round().to(torch.uint8).permute(1, 2, 0).numpy())
    file = BytesIO()
    image.save(file, "JPEG", quality=60)  # Pillow's default chroma, which is 4:2:0
    expected = np.asarray(Image.open(file), np.float32) / 255
    assert np.allclose(Transform("jpeg", 60)(photo).permute(1, 2, 0).numpy(), expected)


def test_crop_keeps_the_centre() -> None:
    pixels = torch.zeros(3, 100, 100)
    pixels[:, 15:85, 15:85] = 1
    assert float(Transform("crop", 0.7)(pixels).min()) == 1
    ramp = torch.linspace(0, 1, 512).expand(3, 512, 512)
    kept = Transform("crop", 0.5)(ramp)[0, 0]
    assert float(kept[0]) == pytest.approx(0.25, abs=0.003)
    assert float(kept[-1]) == pytest.approx(0.75, abs=0.003)


def test_blur_spreads_a_point_by_the_stated_sigma() -> None:
    for size, sigma in ((3, 0.8), (5, 1.1), (7, 1.4)):
        point = torch.zeros(3, 31, 31)
        point[:, 15, 15] = 1
        row = Transform("blur", size)(point)[0].sum(0)
        weights = torch.exp(-0.5 * ((torch.arange(31) - 15) / sigma) ** 2)
        weights[(torch.arange(31) - 15).abs() > size // 2] = 0
        assert torch.allclose(row, weights / weights.sum(), atol=1e-6)


def test_blur_reflects_at_the_border() -> None:
    pixels = torch.zeros(3, 8, 8)
    pixels[:, :, 1] = 1
    side = math.exp(-0.5 / 0.8**2)
    expected = 2 * side / (1 + 2 * side)  # column 1 counts from both sides of column 0
    assert torch.allclose(Transform("blur", 3)(pixels)[:, :, 0], torch.full((3, 8), expected))


def test_rotation_agrees_with_pillow_and_blackens_corners(photo: torch.Tensor) -> None:
    smooth = Transform("blur", 7)(photo)
    image = Image.fromarray((smooth * 255).round().to(torch.uint8).permute(1, 2, 0).numpy())
    for degrees in (2, 10, -5):
        pillow = np.asarray(image.rotate(degrees, Image.Resampling.BILINEAR)) / 255
        ours = Transform("rotation", degrees)(smooth).permute(1, 2, 0).numpy()
        assert np.abs(pillow - ours)[100:-100, 100:-100].max() < 0.01
    white = Transform("rotation", 10)(torch.ones(3, 512, 512))
    assert all(float(white[0, y, x]) == 0 for y in (0, -1) for x in (0, -1))
    assert float(white[0, 256, 256]) == pytest.approx(1)


def test_rotation_turns_rigidly_on_a_wide_canvas() -> None:
    pixels = torch.zeros(3, 40, 80)
    pixels[:, 19:21, 50:52] = 1  # eleven to the right of the centre, so eleven above it
    expected = torch.zeros(3, 40, 80)
    expected[:, 8:10, 39:41] = 1
    assert torch.allclose(Transform("rotation", 90)(pixels), expected, atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_parse_round_trip(name: str) -> None:
    assert parse(name).name == name
    assert parse(name) in PAPER_TRANSFORMS


def test_parse_takes_the_papers_spelling() -> None:
    assert parse("crop-0.90") == Transform("crop", 0.9)
    assert parse(" JPEG-95 ") == Transform("jpeg", 95)


@pytest.mark.parametrize("name", ["", "jpeg", "jpeg-", "jpeg-90", "jpeg-x", "sepia-1", "crop-nan", "rotation--2"])
def test_parse_refuses_and_lists_the_known(name: str) -> None:
    with pytest.raises(InputError, match=r"jpeg-95, .*rotation-10"):
        parse(name)


@pytest.mark.parametrize(
    ("family", "level"),
    [
        ("jpeg", 0),
        ("jpeg", 101),
        ("jpeg", 50.5),
        ("brightness", -0.1),
        ("contrast", math.inf),
        ("crop", 0),
        ("crop", 1.01),
        ("blur", 4),
        ("blur", 3.5),
        ("blur", -1),
        ("noise", -0.01),
        ("noise", math.nan),
        ("rotation", 181),
        ("sepia", 1),
    ],
)
def test_levels_out_of_range(family: str, level: float) -> None:
    with pytest.raises(InputError, match=family):
        Transform(family, level)


@pytest.mark.parametrize("pixels", [torch.zeros(64), torch.zeros(1, 3, 64, 64), torch.zeros(3, 8, 8).int(), None, 3])
def test_only_single_images(pixels: Any) -> None:
    with pytest.raises(ImageError, match="; give "):
        Transform("brightness", 1.15)(pixels)


def test_a_float_tensor_keeps_its_size_and_type() -> None:
    for dtype in (torch.float32, torch.float64):
        found = Transform("brightness", 0.5)(torch.full((3, 20, 30), 0.5, dtype=dtype))
        assert (found.shape, found.dtype) == ((3, 20, 30), dtype)
        assert torch.equal(found, torch.full_like(found, 0.25))


def test_whatever_else_holds_an_image_becomes_canonical(tmp_path: Path) -> None:
    array = np.random.default_rng(2).integers(0, 256, (20, 30, 3), np.uint8)
    path = tmp_path / "a.png"
    Image.fromarray(array).save(path)
    canonical = load_image(path)
    transform = Transform("noise", 0.01)
    expected = transform(canonical.pixels, seed=5)
    for source, name in (
        (canonical, str(path)),
        (path, str(path)),
        (str(path), str(path)),
        (path.read_bytes(), "<bytes>"),
        (Image.fromarray(array), "<image>"),
        (array, "<array>"),
    ):
        found = transform(source, seed=5)
        assert_type(found, CanonicalImage)
        assert found.name == f"{name} noise-0.01"
        assert torch.equal(found.pixels, expected)
        assert found.upload_norm is None  # nobody uploaded it


@pytest.mark.parametrize(
    "tensor", [torch.full((20, 30), 0.5), torch.full((1, 20, 30), 0.5), torch.full((3, 20, 30), 128).byte()]
)
def test_tensors_of_other_kinds_become_canonical(tensor: torch.Tensor) -> None:
    found: object = Transform("brightness", 0.5)(tensor)
    assert isinstance(found, CanonicalImage)
    assert found.name == "<tensor> brightness-0.5"
    assert torch.allclose(found.pixels, torch.tensor(0.25), atol=0.002)


def test_blur_larger_than_the_image() -> None:
    with pytest.raises(InputError, match="does not fit"):
        Transform("blur", 9)(torch.zeros(3, 4, 64))
