from __future__ import annotations

from itertools import combinations

import pytest
import torch

from dualshield.images import CanonicalImage
from dualshield.images.documents import KINDS, documents


@pytest.fixture(scope="module")
def some() -> list[CanonicalImage]:
    return list(documents(3 * len(KINDS)))


def of(kind: str, images: list[CanonicalImage]) -> list[CanonicalImage]:
    return [image for image in images if image.name.endswith(f" {kind}")]


def test_there_are_as_many_as_asked_for_and_the_kinds_take_turns(some: list[CanonicalImage]) -> None:
    assert [image.name for image in some] == [
        f"document-{index:03} {KINDS[index % len(KINDS)]}" for index in range(3 * len(KINDS))
    ]
    assert list(documents(0)) == []
    assert len(set(KINDS)) == len(KINDS) >= 10


def test_pixels_are_canonical(some: list[CanonicalImage]) -> None:
    for image in some:
        assert (image.pixels.shape, image.pixels.dtype) == ((3, 512, 512), torch.float32)
        assert 0 <= float(image.pixels.min()) < float(image.pixels.max()) <= 1
        assert image.upload_size is None


def test_an_item_depends_on_its_number_and_the_seed_only(some: list[CanonicalImage]) -> None:
    for count in (1, len(KINDS) + 1):
        for image, again in zip(documents(count), some, strict=False):
            assert torch.equal(image.pixels, again.pixels)
    for image, other in zip(documents(len(KINDS), seed=1), some, strict=False):
        assert image.name == other.name
        assert not torch.equal(image.pixels, other.pixels)


def test_different_items_differ(some: list[CanonicalImage]) -> None:
    small = [torch.nn.functional.avg_pool2d(image.pixels, 8) for image in some]
    for first, second in combinations(small, 2):
        assert float((first - second).abs().max()) > 0.2  # in content, beyond a shade of paper


def test_a_page_is_mostly_light_and_a_terminal_mostly_dark(some: list[CanonicalImage]) -> None:
    for kind in ("page", "form"):
        assert all(float(image.pixels.median()) > 0.8 for image in of(kind, some))
    assert all(float(image.pixels.median()) < 0.3 for image in of("terminal", some))


def test_every_kind_has_content(some: list[CanonicalImage]) -> None:
    for image in some:
        assert float(image.pixels.std()) > 0.05, image.name


def test_chats_are_light_and_dark() -> None:
    chats = of("chat", list(documents(8 * len(KINDS))))
    medians = [float(image.pixels.median()) for image in chats]
    assert min(medians) < 0.3
    assert max(medians) > 0.7
