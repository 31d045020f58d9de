"""Which pairs count as unrelated."""

from __future__ import annotations

from pathlib import Path

import pytest

from dualshield.evaluation.parts.collided import _pair_of, pairs
from dualshield.evaluation.plan.datasets import Duplicate, Picture, Pool


def pool(count: int, duplicates: tuple[Duplicate, ...] = ()) -> Pool:
    pictures = tuple(Picture("set", f"{index}.png", index, Path(f"{index}.png"), "") for index in range(count))
    return Pool(pictures, (), duplicates, count)


def drawn(source: Pool, count: int, seed: int = 1) -> list[frozenset[str]]:
    found = pairs(source, count, seed)
    return [frozenset((reference.name, query.name)) for reference, queries in found.items() for query in queries]


def test_every_pair_has_one_number() -> None:
    assert [_pair_of(number) for number in range(6)] == [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3)]
    large = 10**17
    smaller, larger = _pair_of(large)
    assert 0 <= smaller < larger
    assert larger * (larger - 1) // 2 + smaller == large


@pytest.mark.parametrize(("count", "expected"), [(5, 5), (21, 21), (1000, 21)])
def test_pairs_are_distinct_and_as_many_as_asked(count: int, expected: int) -> None:
    found = drawn(pool(7), count)
    assert len(found) == len(set(found)) == expected
    assert all(len(pair) == 2 for pair in found)


def test_the_seed_decides() -> None:
    assert drawn(pool(30), 20) == drawn(pool(30), 20)
    assert drawn(pool(30), 20) != drawn(pool(30), 20, seed=2)


def test_duplicates_are_never_paired_and_do_not_cost_pairs() -> None:
    twins = tuple(Duplicate("set/0.png", f"set/{index}.png", 3, False) for index in (1, 2, 3))
    for seed in range(20):
        found = drawn(pool(7, twins), 18, seed)
        assert len(found) == 18
        assert not {frozenset(("0.png", f"{index}.png")) for index in (1, 2, 3)} & set(found)


def test_one_image_has_nothing_to_collide_with() -> None:
    assert pairs(pool(1), 10, 1) == {}
