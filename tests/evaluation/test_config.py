"""What a run says of itself: how many records it will have, so that a report need not guess."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dualshield.evaluation.plan.protocol import Protocol
from dualshield.evaluation.report import method
from dualshield.evaluation.report.figures import Results
from dualshield.evaluation.run.config import expected
from dualshield.evaluation.run.records import CONFIG, RESULTS, Run
from tests.helpers.cheap_run import cheap


def coverage(folder: Path) -> dict[tuple[str, str], tuple[int, int | None]]:
    run = Run.open(folder)
    return {(c.part, c.variant): (c.done, c.expected) for c in method.describe(run, Results(run)).coverage}


def test_a_run_counts_its_records_before_it_begins(
    data: Path, tmp_path: Path, small: Protocol, no_extras: None
) -> None:
    """PDQ cannot be verified: the plain hash has no certificates, and none are missing."""
    cheap(data, tmp_path / "run", small)
    config = json.loads((tmp_path / "run" / CONFIG).read_text())
    assert config["plan"] == "evaluate"
    assert config["expected"] == {
        "certified": {"pdq": {"smoothing": 6}},
        "collisions": {"pdq": {"original": 2, "smoothing": 2}},
    }
    counts = {
        ("certified", "smoothing"): (6, 6),
        ("collisions", "original"): (2, 2),
        ("collisions", "smoothing"): (2, 2),
    }
    assert coverage(tmp_path / "run") == counts
    lines = (tmp_path / "run" / RESULTS).read_text().splitlines(keepends=True)
    (tmp_path / "run" / RESULTS).write_text("".join(line for line in lines if "certified" not in line))
    assert coverage(tmp_path / "run")["certified", "smoothing"] == (0, 6)
    cheap(data, tmp_path / "run", small, resume=True)
    assert coverage(tmp_path / "run") == counts


def test_a_run_that_grows_counts_again(data: Path, tmp_path: Path, small: Protocol, no_extras: None) -> None:
    cheap(data, tmp_path / "run", small, plan={"limit": 2})
    assert coverage(tmp_path / "run")["certified", "smoothing"] == (4, 4)
    cheap(data, tmp_path / "run", small, resume=True)
    assert coverage(tmp_path / "run")["certified", "smoothing"] == (6, 6)


def test_older_runs_do_not_say_it_and_go_on(data: Path, tmp_path: Path, small: Protocol, no_extras: None) -> None:
    first = cheap(data, tmp_path / "run", small)
    file = tmp_path / "run" / CONFIG
    config = json.loads(file.read_text())
    del config["expected"], config["plan"]
    file.write_text(json.dumps(config))
    assert set(coverage(tmp_path / "run").values()) == {(6, None), (2, None)}
    assert cheap(data, tmp_path / "run", small, resume=True) == first


@pytest.mark.parametrize(
    "counts",
    [None, 3, [], {"certified": 3}, {"certified": {"pdq": []}}]
    + [{"certified": {"pdq": {"both": odd}}} for odd in (None, "3", 2.5, True, -1, 10**400, float("nan"))],
    ids=lambda counts: str(counts)[:40],
)
def test_what_is_no_count_is_not_known(counts: Any) -> None:
    assert expected({"expected": counts}, "certified", "pdq", "both") is None
    assert expected({"expected": {"quality": counts}}, "certified", "pdq", "both") == 0
