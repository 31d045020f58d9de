"""The names of transformations: families with hyphens, levels with minus signs, chains, and names of old runs."""

from __future__ import annotations

import random

import pytest

from dualshield.evaluation.transform_names import family, in_order, is_edit, split
from dualshield.transforms import ALL_TRANSFORMS, EVERYDAY_EDITS, PAPER_TRANSFORMS


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("jpeg-80", ("jpeg", "80")),
        ("caption-bar-0.08", ("caption-bar", "0.08")),
        ("corner-crop-0.8", ("corner-crop", "0.8")),
        ("corner-crop-low-0.8", ("corner-crop-low", "0.8")),
        ("rotation--10", ("rotation", "-10")),
        ("flip-1+border-0.05", ("flip+border", "1+0.05")),
        ("sepia-0.3-old", ("sepia", "0.3-old")),  # of a run that knew more than we do
        ("sepia", ("sepia", "")),
        ("", ("", "")),
        ("+", ("+", "")),
    ],
)
def test_a_name_is_family_and_level(name: str, expected: tuple[str, str]) -> None:
    assert split(name) == expected


def test_every_listed_transformation_has_its_own_family() -> None:
    assert [family(transform.name) for transform in ALL_TRANSFORMS] == [t.family for t in ALL_TRANSFORMS]


def test_edits_are_listed_by_family_in_their_order() -> None:
    names = [edit.name for edit in EVERYDAY_EDITS]
    mixed = random.Random(1).sample(names, len(names))
    assert in_order(mixed) == names
    found = in_order([*mixed, "resize-0.5", "sepia-1"])
    assert found[found.index("resize-0.25") + 1] == "resize-0.5"  # of no list of today, but of a known family
    assert found[-1] == "sepia-1"


def test_some_of_the_papers_are_edits_too() -> None:
    both = {transform.name for transform in PAPER_TRANSFORMS if is_edit(transform.name, paper=True)}
    assert both == {"crop-0.9", "crop-0.8", "crop-0.7", "rotation-5", "rotation-10"}
    assert is_edit("resize-0.5", paper=False)
