"""Images from inside Python become what the same pixels in a file become."""

from __future__ import annotations

import math
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from PIL import Image

from dualshield.errors import ImageError
from dualshield.images import CanonicalImage, as_image, load_image

Samples = npt.NDArray[Any]
ROOT3 = math.sqrt(3)


def saved(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    buffer = BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def noise(*shape: int) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(sum(shape)).integers(0, 256, shape, np.uint8)


def same(found: CanonicalImage, expected: CanonicalImage) -> None:
    assert torch.equal(found.pixels, expected.pixels)
    assert found.upload_size == expected.upload_size
    assert found.upload_gain == expected.upload_gain


def refused(source: Any, *words: str, name: str | None = None) -> None:
    with pytest.raises(ImageError) as caught:
        as_image(source, name)
    message = str(caught.value)
    assert "\n" not in message
    assert "; " in message  # what; what to do next
    for word in words:
        assert word in message


# --- files and canonical images ---


def test_a_canonical_image_is_returned_as_it_is() -> None:
    image = load_image(saved(Image.fromarray(noise(20, 30, 3))))
    assert as_image(image) is image
    renamed = as_image(image, "other")
    assert renamed.name == "other"
    assert renamed.pixels is image.pixels
    same(renamed, image)


def test_files_and_their_bytes(tmp_path: Path) -> None:
    data = saved(Image.fromarray(noise(20, 30, 3)))
    path = tmp_path / "a.png"
    path.write_bytes(data)
    for source, name in (
        (path, str(path)),
        (str(path), str(path)),
        (data, "<bytes>"),
        (bytearray(data), "<bytes>"),
        (memoryview(data), "<bytes>"),
    ):
        found = as_image(source)
        same(found, load_image(path))
        assert found.name == name
        assert as_image(source, "photo").name == "photo"


def test_files_are_refused_as_ever(tmp_path: Path) -> None:
    refused(tmp_path / "none.png", "none.png", "no such file")
    refused(b"", "<bytes>", "empty")
    refused(bytearray(b"text"), "photo: not a readable", name="photo")


# --- Pillow ---

PILLOW: dict[str, Callable[[], tuple[Image.Image, str, dict[str, Any]]]] = {
    "RGB": lambda: (Image.fromarray(noise(30, 40, 3)), "PNG", {}),
    "RGBA": lambda: (Image.fromarray(noise(30, 40, 4)), "PNG", {}),
    "L": lambda: (Image.fromarray(noise(30, 40)), "PNG", {}),
    "LA": lambda: (Image.fromarray(noise(30, 40, 2)), "PNG", {}),
    "1": lambda: (Image.fromarray(noise(30, 40) > 99), "PNG", {}),
    "I;16": lambda: (Image.fromarray(noise(30, 40).astype(np.uint16) * 200), "PNG", {}),
    "F": lambda: (Image.fromarray(noise(30, 40).astype(np.float32) / 255), "TIFF", {}),
    "P": lambda: (Image.fromarray(noise(30, 40, 3)).quantize(16), "PNG", {}),
    "P with a key": lambda: (Image.fromarray(noise(30, 40, 3)).quantize(16), "PNG", {"transparency": 3}),
    "RGB with a key": lambda: (Image.new("RGB", (8, 9), (1, 2, 3)), "PNG", {"transparency": (1, 2, 3)}),
    "CMYK": lambda: (Image.frombytes("CMYK", (40, 30), noise(30, 40, 4).tobytes()), "TIFF", {}),
    "LAB": lambda: (Image.frombytes("LAB", (40, 30), noise(30, 40, 3).tobytes()), "TIFF", {}),
}


@pytest.mark.parametrize("case", PILLOW)
def test_a_pillow_image_is_what_its_file_is(case: str) -> None:
    image, kind, options = PILLOW[case]()
    data = saved(image, kind, **options)
    image.info.update(options)
    same(as_image(image), load_image(data))
    with Image.open(BytesIO(data)) as opened:  # not loaded yet
        same(as_image(opened), load_image(data))
        same(as_image(opened), load_image(data))  # loaded by now


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF"])
@pytest.mark.parametrize("orientation", [1, 3, 6])
def test_a_pillow_image_is_turned_by_its_exif(kind: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[274] = orientation
    data = saved(Image.fromarray(noise(16, 64, 3)), kind, exif=exif)
    expected = load_image(data)
    assert expected.upload_size == ((16, 64) if orientation == 6 else (64, 16))
    with Image.open(BytesIO(data)) as opened:
        same(as_image(opened), expected)
        same(as_image(opened), expected)


def test_names_of_pillow_images(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(saved(Image.fromarray(noise(20, 30, 3))))
    with Image.open(path) as opened:
        assert as_image(opened).name == str(path)
        assert as_image(opened, "photo").name == "photo"
    with Image.open(BytesIO(path.read_bytes())) as opened:
        assert as_image(opened).name == "<image>"
    made = Image.new("RGB", (4, 4))
    assert as_image(made).name == "<image>"
    vars(made)["filename"] = None  # other libraries set it as they like
    assert as_image(made).name == "<image>"


def test_pillow_images_of_formats_that_files_may_not_have() -> None:
    pixels = noise(20, 30, 3)
    with Image.open(BytesIO(saved(Image.fromarray(pixels), "PPM"))) as opened:
        same(as_image(opened), load_image(saved(Image.fromarray(pixels))))


def test_pillow_images_that_are_refused() -> None:
    refused(Image.new("RGB", (0, 4)), "<image>: has no pixels (0 x 4)")
    refused(Image.fromarray(np.full((4, 4), 255, np.float32)), "grey samples outside [0, 1]")
    whole = saved(Image.fromarray(noise(64, 64, 3)))
    with Image.open(BytesIO(whole[: len(whole) // 2])) as opened:
        refused(opened, "damaged or truncated")
    before = Image.MAX_IMAGE_PIXELS
    refused(Image.new("1", (12_000, 10_001)), "12000 x 10001 is more than 120,000,000 pixels")
    assert before == Image.MAX_IMAGE_PIXELS


# --- arrays ---


@pytest.mark.parametrize("side", [512, 37])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_a_uint8_array_is_what_its_png_is(channels: int, side: int) -> None:
    array = noise(side, 512, channels)
    flat = array[..., 0] if channels == 1 else array
    found = as_image(array)
    same(found, load_image(saved(Image.fromarray(flat))))
    same(as_image(flat), found)
    assert found.name == "<array>"
    assert as_image(array, "photo").name == "photo"
    assert found.upload_gain == {1: pytest.approx(ROOT3), 3: 1, 4: 2}[channels]


def test_uint16_bool_and_foreign_byte_order() -> None:
    deep = noise(20, 30).astype(np.uint16) * 200
    same(as_image(deep), load_image(saved(Image.fromarray(deep))))
    same(as_image(deep.astype(">u2")), as_image(deep))
    bits = noise(20, 30) > 99
    same(as_image(bits), load_image(saved(Image.fromarray(bits))))
    colour = noise(512, 512, 3).astype(np.uint16) * 257
    assert torch.equal(as_image(colour).pixels, as_image(noise(512, 512, 3)).pixels)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_float_arrays(dtype: type[np.floating[Any]]) -> None:
    array = (noise(512, 512, 3) / 255).astype(dtype)
    expected = torch.from_numpy(array.astype(np.float32)).permute(2, 0, 1)
    assert torch.equal(as_image(array).pixels, expected)
    same(as_image(array[::-1, ::-1]), as_image(np.ascontiguousarray(array[::-1, ::-1])))


def test_transparent_floats_show_white() -> None:
    array = np.zeros((512, 512, 4))
    array[..., 0], array[..., 3] = 0.5, 0.25
    pixels = as_image(array).pixels
    assert pixels[:, 0, 0].tolist() == [0.875, 0.75, 0.75]


def test_the_image_does_not_change_with_its_source() -> None:
    array = (noise(512, 512, 3) / 255).astype(np.float32)
    tensor = torch.from_numpy(array).permute(2, 0, 1).contiguous()
    images = [as_image(array), as_image(tensor)]
    before = [image.pixels.clone() for image in images]
    array[:] = 0
    tensor.zero_()
    assert all(torch.equal(image.pixels, old) for image, old in zip(images, before, strict=True))


def test_a_mask_hides_nothing() -> None:
    array = np.full((4, 4), 0.5)
    array[1, 1] = np.nan
    refused(np.ma.masked_invalid(array), "NaN or infinite")


# --- tensors ---


def test_a_float_tensor_of_512_is_kept_to_the_bit() -> None:
    tensor = torch.rand(3, 512, 512, generator=torch.Generator().manual_seed(1))
    found = as_image(tensor)
    assert torch.equal(found.pixels, tensor)
    assert found.pixels.dtype == torch.float32
    assert (found.name, found.upload_size, found.upload_gain) == ("<tensor>", (512, 512), 1)
    assert as_image(tensor, "photo").name == "photo"


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_tensors_are_arrays_with_channels_first(channels: int) -> None:
    array = noise(20, 30, channels)
    tensor = torch.from_numpy(array).permute(2, 0, 1)
    same(as_image(tensor), as_image(array))
    unit = (array / 255).astype(np.float32)
    same(as_image(torch.from_numpy(unit).permute(2, 0, 1)), as_image(unit))
    if channels == 1:
        same(as_image(tensor[0]), as_image(array))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_tensors_of_other_floats(dtype: torch.dtype) -> None:
    tensor = torch.rand(3, 512, 512).to(dtype)
    found = as_image(tensor)
    assert found.pixels.dtype == torch.float32
    assert torch.equal(found.pixels, tensor.float())


def test_tensors_with_gradients_are_detached() -> None:
    tensor = torch.rand(3, 64, 64, requires_grad=True)
    found = as_image(tensor * 0.5)
    assert not found.pixels.requires_grad
    same(found, as_image((tensor * 0.5).detach()))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_tensors_on_the_gpu() -> None:
    tensor = torch.rand(3, 64, 64)
    same(as_image(tensor.cuda()), as_image(tensor))


# --- refusals ---


@pytest.mark.parametrize(
    "source", [None, 3, 0.5, [[0, 1]], {"a": 1}, object(), np.uint8(3)], ids=lambda value: type(value).__name__
)
def test_other_types(source: object) -> None:
    refused(source, type(source).__name__, "give a file name, bytes, a PIL image, a NumPy array or a torch tensor")
    refused(source, "photo: ", name="photo")


@pytest.mark.parametrize(
    "shape", [(), (5,), (0, 5), (5, 0, 3), (5, 5, 0), (5, 5, 2), (5, 5, 5), (3, 5, 6), (1, 5, 5, 3)]
)
def test_shapes_of_arrays(shape: tuple[int, ...]) -> None:
    refused(np.zeros(shape, np.uint8), f"<array>: got uint8 of shape {shape}", "(height, width, channels)")


@pytest.mark.parametrize("shape", [(), (5,), (0, 5), (3, 5, 0), (0, 5, 5), (2, 5, 5), (5, 6, 3), (1, 3, 5, 5)])
def test_shapes_of_tensors(shape: tuple[int, ...]) -> None:
    refused(torch.zeros(shape), f"<tensor>: got torch.float32 of shape {shape}", "(channels, height, width)")


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint32", "uint64", "complex64", "object", "U1", "M8[s]"])
def test_dtypes_of_arrays(dtype: str) -> None:
    refused(np.zeros((5, 5, 3), dtype), "of shape (5, 5, 3)", "give uint8, uint16, bool, or floats in [0, 1]")


@pytest.mark.parametrize("dtype", [torch.int8, torch.int64, torch.bool, torch.complex64, torch.uint16])
def test_dtypes_of_tensors(dtype: torch.dtype) -> None:
    refused(torch.zeros(3, 5, 5, dtype=dtype), str(dtype), "give uint8, or floats in [0, 1]")


@pytest.mark.parametrize("bad", [-0.01, 1.01, 255.0, 1e300, math.nan, math.inf, -math.inf])
def test_values_of_floats(bad: float) -> None:
    array = np.full((5, 5, 3), 0.5)
    array[1, 2, 0] = bad
    what = ("got values from", f"{bad:.6g}") if math.isfinite(bad) else ("got NaN or infinite values",)
    refused(array, "<array>", *what, "floats in [0, 1]")
    refused(torch.from_numpy(array).permute(2, 0, 1), "<tensor>", *what, "floats in [0, 1]")


def test_too_many_pixels() -> None:
    many = "12000 x 10001 is more than 120,000,000 pixels"
    refused(np.broadcast_to(np.uint8(0), (10_001, 12_000)), many)
    refused(torch.zeros(1, dtype=torch.uint8).expand(3, 10_001, 12_000), many)


def test_tensors_without_readable_data() -> None:
    refused(torch.zeros(3, 5, 5, device="meta"), "<tensor>: got torch.float32 of shape (3, 5, 5) that cannot be read")
    refused(torch.zeros(5, 5).to_sparse(), "cannot be read")
