"""Estimate the time left of a run from the times of finished pieces, including those before an interruption."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from statistics import fmean

Kind = tuple[str, str, str]
"""Hash, variant and part: pieces of one kind take about the same time."""
Times = dict[Kind, list[float]]
"""Seconds of finished pieces, by kind."""


class Estimate:
    """Tracks the pieces left; with a ``file`` the times are kept for later sessions of the run."""

    def __init__(self, kinds: Iterable[Kind], jobs: int = 1, file: Path | None = None) -> None:
        self._left = Counter(kinds)
        self._jobs = jobs
        self._file = file
        self._before = _read(file) if file else {}
        self._now: Times = {}

    def done(self, kind: Kind, seconds: float) -> None:
        """Record that a piece is finished."""
        self._left[kind] -= 1
        self._now.setdefault(kind, []).append(seconds)
        if self._file:
            with suppress(OSError), self._file.open("a", encoding="ascii") as file:  # reported with the results
                file.write(json.dumps([*kind, seconds]) + "\n")

    def seconds(self) -> float | None:
        """Return the estimated seconds left; None if no piece is finished yet."""
        if not self._now and not self._before:
            return None
        return sum(count * self._mean(kind) for kind, count in self._left.items() if count) / self._jobs

    def _mean(self, kind: Kind) -> float:
        """Return the mean seconds of a kind: of this session, else of earlier ones, else of any kind of the same part.

        A part without any times is taken to be as fast as the fastest kind: it is usually collisions or FID.
        """
        met = (*self._now.items(), *self._before.items())
        alike = self._now.get(kind) or self._before.get(kind)
        alike = alike or [seconds for known, times in met if known[2] == kind[2] for seconds in times]
        return fmean(alike) if alike else min(fmean(times) for _, times in met)


def _read(file: Path) -> Times:
    """Return the times in a file; broken lines are skipped, because an interruption may leave half a line."""
    times: Times = {}
    with suppress(OSError):
        for line in file.read_text(encoding="ascii", errors="replace").splitlines():
            with suppress(ValueError, TypeError, OverflowError, RecursionError):
                hash_, variant, part, seconds = json.loads(line)
                if math.isfinite(seconds) and seconds >= 0:
                    times.setdefault((str(hash_), str(variant), str(part)), []).append(float(seconds))
    return times
