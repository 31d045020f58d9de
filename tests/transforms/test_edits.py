from __future__ import annotations

import math

import pytest
import torch

from dualshield.errors import InputError
from dualshield.images import CanonicalImage
from dualshield.transforms import (
    ALL_TRANSFORMS,
    EVERYDAY_EDITS,
    EXTRA_TRANSFORMS,
    PAPER_TRANSFORMS,
    Chain,
    Transform,
    parse,
)
from dualshield.transforms.edits import FAMILIES, LEVELS

NAMES = [transform.name for transform in EVERYDAY_EDITS]


def test_the_list_of_edits() -> None:
    assert " ".join(NAMES) == (
        "border-0.02 border-0.05 border-0.08 border-0.1 padding-0.1 padding-0.2 padding-0.25 pillars-0.2 "
        "caption-bar-0.08 caption-bar-0.15 screenshot-0.02 screenshot-0.05 caption-0.1 caption-0.2 "
        "logo-0.05 logo-0.15 gamma-0.6 gamma-0.8 gamma-1.25 gamma-1.6 contrast-0.6 contrast-1.4 hue-30 hue-90 "
        "saturation-0.5 saturation-1.5 saturation-2 grey-1 flip-1 turn-90 turn-180 turn-270 "
        "rotation--10 rotation--5 rotation-3 rotation-5 rotation-10 perspective-0.05 perspective-0.1 "
        "crop-0.9 crop-0.8 crop-0.7 corner-crop-0.93 corner-crop-0.85 corner-crop-0.8 "
        "corner-crop-low-0.85 corner-crop-low-0.8 resize-0.25 sharpen-1 sharpen-2 grain-0.05 grain-0.1 jpeg-30 "
        "flip-1+border-0.05 crop-0.9+rotation-3 screenshot-0.02+jpeg-60 caption-bar-0.08+gamma-0.8"
    )
    assert set(FAMILIES) <= set(LEVELS)


def test_all_transforms_are_the_papers_and_the_extras_once_each() -> None:
    assert (*PAPER_TRANSFORMS, *EXTRA_TRANSFORMS) == ALL_TRANSFORMS
    assert len(set(ALL_TRANSFORMS)) == len({transform.name for transform in ALL_TRANSFORMS}) == len(ALL_TRANSFORMS)
    assert not set(PAPER_TRANSFORMS) & set(EXTRA_TRANSFORMS)
    assert set(EVERYDAY_EDITS) <= set(ALL_TRANSFORMS)


@pytest.mark.parametrize("transform", ALL_TRANSFORMS, ids=lambda transform: transform.name)
def test_parse_round_trip(transform: Transform | Chain) -> None:
    assert parse(transform.name) == transform


@pytest.mark.parametrize("shape", [(3, 1, 1), (3, 2, 3), (3, 7, 5), (3, 33, 64)])
def test_every_edit_takes_small_images(shape: tuple[int, ...]) -> None:
    pixels = torch.rand(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for transform in EVERYDAY_EDITS:
        found = transform(pixels)
        assert (found.shape, found.dtype) == (shape, torch.float64), transform.name
        assert 0 <= float(found.min()) <= float(found.max()) <= 1


def test_only_grain_depends_on_the_seed(photo: torch.Tensor) -> None:
    small = photo[:, :64, :64]
    for transform in EVERYDAY_EDITS:
        assert torch.equal(transform(small, seed=1), transform(small, seed=2)) == (transform.family != "grain")


@pytest.mark.parametrize("name", [name for name in NAMES if "+" in name])
def test_a_chain_is_the_composition(name: str, photo: torch.Tensor) -> None:
    first, second = (parse(part) for part in name.split("+"))
    chain = parse(name)
    assert isinstance(chain, Chain)
    assert chain in EVERYDAY_EDITS
    assert chain.family == f"{first.family}+{second.family}"
    assert torch.equal(chain(photo, seed=4), second(first(photo, seed=4), seed=4))


def test_a_chain_of_listed_ones_need_not_be_listed(photo: torch.Tensor) -> None:
    chain = parse(" Noise-0.01 + flip-1+crop-0.90 ")
    assert (chain.name, chain.family) == ("noise-0.01+flip-1+crop-0.9", "noise+flip+crop")
    assert not torch.equal(chain(photo, seed=1), chain(photo, seed=2))


def test_a_chain_names_what_it_did_to_a_canonical_image(photo: torch.Tensor) -> None:
    found = parse("flip-1+border-0.05")(CanonicalImage(photo, "photo"))
    assert found.name == "photo flip-1+border-0.05"


@pytest.mark.parametrize("parts", [(), (Transform("flip", 1),)])
def test_a_chain_has_two_or_more_parts(parts: tuple[Transform, ...]) -> None:
    with pytest.raises(InputError, match="two or more"):
        Chain(parts)


@pytest.mark.parametrize(
    "name", ["caption-bar", "caption-bar-0.1", "corner-crop-low-0.93", "bar-0.08", "+", "flip-1+", "flip-1+sepia-1"]
)
def test_parse_refuses(name: str) -> None:
    with pytest.raises(InputError, match=r"unknown transform .*rotation-10"):
        parse(name)


@pytest.mark.parametrize(
    ("family", "level"),
    [
        ("border", -0.01),
        ("border", 0.5),
        ("padding", 0.9),
        ("pillars", -0.1),
        ("caption-bar", 0),
        ("screenshot", 0.6),
        ("caption", 0.6),
        ("logo", 0.2),
        ("logo", 0),
        ("gamma", 0),
        ("hue", 361),
        ("saturation", -1),
        ("grey", 1.1),
        ("flip", 0),
        ("turn", 0),
        ("turn", 45),
        ("turn", 360),
        ("perspective", 0.5),
        ("corner-crop", 1.1),
        ("corner-crop-low", 0),
        ("resize", 0),
        ("sharpen", -1),
        ("grain", math.nan),
    ],
)
def test_levels_out_of_range(family: str, level: float) -> None:
    with pytest.raises(InputError, match=f"^{family} level"):
        Transform(family, level)


def test_turns_are_multiples_of_ninety() -> None:
    with pytest.raises(InputError, match=r"give a multiple of 90 in \[90, 270\]"):
        Transform("turn", 100)
