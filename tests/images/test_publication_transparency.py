"""Published files: what is transparent stays so, and the rest moves by what is seen of it."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from dualshield.images import decode, load_image
from tests.helpers.image_files import png, saved
from tests.helpers.published import NOTHING, opened, publication, smooth
from tests.helpers.scenes import DEEP, RGBA, TURNED, exif, grey, palette, scene


@pytest.mark.parametrize("kind", ["WEBP", "AVIF", "HEIF", "PNG", "TIFF"])
def test_alpha_is_kept(kind: str, tmp_path: Path) -> None:
    before = publication(tmp_path, saved(RGBA, kind), kind)
    stored = np.asarray(opened(saved(RGBA, kind)))
    found = np.asarray(opened(before.encode(smooth())))
    assert found.shape == stored.shape == (120, 200, 4)
    assert np.abs(found[..., 3].astype(int) - stored[..., 3]).mean() < (0.5 if kind in ("AVIF", "HEIF") else 1e-9)


@pytest.mark.parametrize("alpha", [255, 204, 128, 64])
@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_the_change_is_seen_through_the_alpha_channel(mode: str, alpha: int, tmp_path: Path) -> None:
    image = np.dstack([scene(), np.full((120, 200), alpha, np.uint8)])
    image[:, 0, 3] = 0  # so that there always is transparency
    data = saved(Image.fromarray(image).convert(mode), "PNG")
    before = publication(tmp_path, data)
    published = before.encode(NOTHING + 8 / 255)
    moved = (decode(published).pixels - decode(data).pixels) * 255
    assert moved[:, 1:].mean() == pytest.approx(8, abs=0.3)
    one, two = np.asarray(opened(data)), np.asarray(opened(published))
    assert np.array_equal(one[..., -1], two[..., -1])
    assert np.array_equal(one[:, 0], two[:, 0])
    assert np.abs(two.astype(int) - one).max() <= 33


def test_little_opacity_does_not_blow_the_change_up(tmp_path: Path) -> None:
    image = np.dstack([scene(), np.full((120, 200), 3, np.uint8)])
    found = np.asarray(opened(publication(tmp_path, saved(image, "PNG")).encode(NOTHING + 5 / 255)))
    assert np.abs(found.astype(int) - image).max() == 20


def test_opacity_is_canonical_and_upright(tmp_path: Path) -> None:
    image = np.dstack([scene(), np.full((120, 200), 255, np.uint8)])
    image[:60, :50, 3] = 0  # a corner that is not symmetric
    before = publication(tmp_path, saved(TURNED[6](image), "PNG", exif=exif(6)))
    assert before.opacity is not None
    assert before.opacity.shape == (512, 512)
    assert before.opacity[:250, :120].max() == 0
    assert before.opacity[262:].min() == before.opacity[:, 136:].min() == 1
    assert 0 < before.opacity[100, 128] < 1


@pytest.mark.parametrize(
    ("data", "mode"),
    [
        (palette(), "RGB"),
        (palette(3), "RGBA"),
        (palette(bytes([255, 80, 0, 255, 128])), "RGBA"),
        (saved(grey(), "PNG", transparency=int(grey()[5, 5])), "LA"),
        (saved(scene(), "PNG", transparency=tuple(scene()[5, 5].tolist())), "RGBA"),
        (saved(Image.fromarray(grey() > 120), "PNG", transparency=0), "LA"),
        (saved(DEEP, "PNG", transparency=int(DEEP[5, 5])), "I;16"),
    ],
    ids=["P", "P-index", "P-bytes", "L", "RGB", "1", "I;16"],
)
def test_palettes_and_transparent_colours(data: bytes, mode: str, tmp_path: Path) -> None:
    before = publication(tmp_path, data)
    published = before.encode(NOTHING)
    assert opened(published).mode == mode
    assert torch.equal(load_image(published).pixels, before.canonical.pixels)
    assert (before.opacity is None) == (mode == "RGB")
    hidden = (
        np.asarray(opened(data).convert("RGBA"))[..., 3] if mode != "I;16" else np.where(DEEP[5, 5] == DEEP, 0, 255)
    )
    onto_the_key = float(DEEP[5, 5]) - float(DEEP[DEEP[5, 5] != DEEP][0])
    for amount in (3 / 255, -3 / 255, onto_the_key / 65535):
        again = opened(before.encode(NOTHING + amount))
        found = np.where(np.asarray(again) == again.info["transparency"], 0, 255) if mode == "I;16" else None
        assert np.array_equal(np.asarray(again.convert("RGBA"))[..., 3] if found is None else found, hidden)


def test_transparent_gif_and_premultiplied_grey(tmp_path: Path) -> None:
    gif = saved(Image.fromarray(scene()).quantize(16), "GIF", transparency=3)
    alpha = struct.pack("<HHI", 338, 3, 1)
    tiff = saved(RGBA[..., [0, 3]], "TIFF").replace(alpha + b"\2", alpha + b"\1")
    assert opened(tiff).mode == "La"
    for data, kind, format, mode in ((gif, "GIF", "png", "RGBA"), (tiff, "TIFF", "keep", "LA")):
        before = publication(tmp_path, data, kind)
        assert before.opacity is not None
        published = before.encode(NOTHING, format)  # type: ignore[arg-type]
        assert opened(published).mode == mode
        assert torch.equal(load_image(published).pixels, before.canonical.pixels)


def test_colour_of_16_bits_is_reduced_to_8_as_decode_sees_it(tmp_path: Path) -> None:
    rows = b"".join(b"\0" + (row.astype(">u2") * 257).tobytes() for row in scene())
    published = publication(tmp_path, png(200, 120, 16, 2, rows)).encode(NOTHING)
    assert np.array_equal(np.asarray(opened(published)), scene())


def test_an_opaque_alpha_channel_is_no_transparency(tmp_path: Path) -> None:
    image = np.dstack([scene(), np.full((120, 200), 255, np.uint8)])
    before = publication(tmp_path, saved(image, "PNG"))
    assert before.opacity is None
    assert opened(before.encode(NOTHING)).mode == "RGBA"
    assert opened(before.encode(NOTHING, "jpeg")).mode == "RGB"
