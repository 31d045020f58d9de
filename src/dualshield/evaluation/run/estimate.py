"""How long the rest of a run will take, from what pieces of the same kind took, also before it was interrupted."""

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
"""Seconds that pieces took."""


class Estimate:
    """Counts pieces down. With a ``file`` it knows what earlier sittings of the run took, and tells later ones."""

    def __init__(self, kinds: Iterable[Kind], jobs: int = 1, file: Path | None = None) -> None:
        self._left = Counter(kinds)
        self._jobs = jobs
        self._file = file
        self._before = _read(file) if file else {}
        self._now: Times = {}

    def done(self, kind: Kind, seconds: float) -> None:
        """One piece less."""
        self._left[kind] -= 1
        self._now.setdefault(kind, []).append(seconds)
        if self._file:
            with suppress(OSError), self._file.open("a", encoding="ascii") as file:  # a full disk is others' to report
                file.write(json.dumps([*kind, seconds]) + "\n")

    def seconds(self) -> float | None:
        """None as long as nothing was done."""
        if not self._now and not self._before:
            return None
        return sum(count * self._mean(kind) for kind, count in self._left.items() if count) / self._jobs

    def _mean(self, kind: Kind) -> float:
        """Of this sitting if it met the kind: others may have had more cores. Else of the kind's part in any.

        A part not met at all is taken to be like the quickest: it is collisions or FID, for most of a run.
        """
        met = (*self._now.items(), *self._before.items())
        alike = self._now.get(kind) or self._before.get(kind)
        alike = alike or [seconds for known, times in met if known[2] == kind[2] for seconds in times]
        return fmean(alike) if alike else min(fmean(times) for _, times in met)


def _read(file: Path) -> Times:
    """What can be read of it: a kill may leave half a line."""
    times: Times = {}
    with suppress(OSError):
        for line in file.read_text(encoding="ascii", errors="replace").splitlines():
            with suppress(ValueError, TypeError, OverflowError, RecursionError):
                hash_, variant, part, seconds = json.loads(line)
                if math.isfinite(seconds) and seconds >= 0:
                    times.setdefault((str(hash_), str(variant), str(part)), []).append(float(seconds))
    return times
