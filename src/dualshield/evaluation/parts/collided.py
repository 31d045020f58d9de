"""Measure collisions: whether unrelated images match published references."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

from dualshield.errors import NothingToAttackError
from dualshield.evaluation.parts.under_test import ImageUnderTest
from dualshield.evaluation.plan.datasets import Picture, Pool
from dualshield.images.eight_bit import to_8bit
from dualshield.smoothing.statistics import Decision

PART = "collisions"


def pairs(pool: Pool, count: int, seed: int) -> dict[Picture, list[Picture]]:
    """Return random distinct pairs of unrelated images, as the queries of each reference."""
    pictures = pool.pictures
    generator = random.Random(f"{seed} collisions")
    total = math.comb(len(pictures), 2)
    # Extra pairs, because duplicates are left out below.
    drawn = generator.sample(range(total), min(total, count + len(pool.duplicates)))
    chosen: dict[Picture, list[Picture]] = {}
    for number in drawn:
        pair = [pictures[index] for index in _pair_of(number)]
        generator.shuffle(pair)
        reference, query = pair
        if pool.related(reference, query) or sum(map(len, chosen.values())) == count:
            continue
        chosen.setdefault(reference, []).append(query)
    return {picture: chosen[picture] for picture in pictures if picture in chosen}


def _pair_of(number: int) -> tuple[int, int]:
    """Return the pair ``a < b`` with a given number, in the order (0, 1), (0, 2), (1, 2), (0, 3), ..."""
    larger = (1 + math.isqrt(1 + 8 * number)) // 2
    return number - larger * (larger - 1) // 2, larger


def work(
    queries: Sequence[Picture], subject: ImageUnderTest, missing: tuple[str, ...]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield one record per query of this reference."""
    try:
        victim = subject.victim.with_noise(subject.noise(PART, "start")).for_known_queries()
    except NothingToAttackError:
        found = {"decision": Decision.NO_MATCH.value, "collided": False, **subject.refusal}
        yield from ((query, dict(found)) for query in missing)
        return
    for query in queries:
        if query.label in missing:
            pixels = to_8bit(query.load().pixels)
            decision = victim.with_noise(subject.noise(PART, query.label)).decide(pixels)
            yield query.label, {"decision": decision.value, "collided": decision == Decision.MATCH}
