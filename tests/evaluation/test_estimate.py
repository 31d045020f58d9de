"""The time left."""

from __future__ import annotations

from pathlib import Path

import pytest

from dualshield.evaluation.run.estimate import Estimate, Kind

SLOW: Kind = ("pdq", "both", "blackbox")
QUICK: Kind = ("pdq", "both", "certified")
ALIKE: Kind = ("pdq", "original", "blackbox")
UNLIKE: Kind = ("pdq", "both", "collisions")


def test_it_is_that_of_pieces_of_the_same_kind() -> None:
    estimate = Estimate([SLOW] * 3 + [QUICK] * 5 + [ALIKE] * 2 + [UNLIKE] * 100)
    assert estimate.seconds() is None
    estimate.done(SLOW, 10.0)
    estimate.done(QUICK, 1.0)
    assert estimate.seconds() == pytest.approx(2 * 10 + 4 * 1 + 2 * 10 + 100 * 1)


def test_it_is_shared_by_those_who_work() -> None:
    estimate = Estimate([SLOW] * 5, jobs=2)
    estimate.done(SLOW, 10.0)
    assert estimate.seconds() == pytest.approx(4 * 10 / 2)


def test_a_resumed_run_knows_what_pieces_took_before(tmp_path: Path) -> None:
    """Or its first piece, a slow one, would stand for hundreds of quick ones."""
    file = tmp_path / "times.jsonl"
    first = Estimate([SLOW] * 2 + [UNLIKE] * 100, file=file)
    first.done(SLOW, 10.0)
    first.done(UNLIKE, 0.5)
    second = Estimate([SLOW] + [UNLIKE] * 99, file=file)
    assert second.seconds() == pytest.approx(10 + 99 * 0.5)
    second.done(UNLIKE, 0.1)  # a quicker machine
    assert second.seconds() == pytest.approx(10 + 98 * 0.1)


def test_a_damaged_file_costs_nothing_but_what_it_said(tmp_path: Path) -> None:
    file = tmp_path / "times.jsonl"
    Estimate([SLOW], file=file).done(SLOW, 10.0)
    values = ('"d"', "NaN", "-1", "1e999", "9" * 400, "[" * 100_000)
    lines = ("\0", "7", "{}", "[1]", *(f'["a", "b", "c", {value}]' for value in values), '["pdq"')
    with file.open("a", encoding="utf-8") as out:
        out.write("\n".join(lines) + "\n")
    assert Estimate([SLOW, UNLIKE], file=file).seconds() == pytest.approx(10 + 10)


def test_where_nothing_can_be_written_the_run_goes_on(tmp_path: Path) -> None:
    estimate = Estimate([SLOW] * 2, file=tmp_path / "missing" / "times.jsonl")
    estimate.done(SLOW, 10.0)
    assert estimate.seconds() == pytest.approx(10)
