"""The votes of one trial: one view of the query under noise of one sigma, against all views of the reference."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from dualshield.hashes.codes import distance_table
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images.views import View
from dualshield.smoothing.level import Level
from dualshield.smoothing.member_reference import MemberReference
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.sampler import Sampler


@dataclass(frozen=True, eq=False)
class Trial:
    """One way to compare a query with a reference."""

    view: View  # of the query
    level: Level

    def judge(self, hash_: PerceptualHash) -> PerceptualHash:
        """Return the hash with the threshold of this trial."""
        return hash_ if self.level.threshold is None else hash_.with_threshold(self.level.threshold)

    def distances(self, hash_: PerceptualHash, codes: torch.Tensor) -> torch.Tensor:
        """Return the distances of query codes ``(draws, bits)`` to each view of the reference ``(draws, views)``."""
        known: torch.Tensor = self.level.codes
        return distance_table(codes, known) if hash_.rule == "hamming" else hash_.distances(codes[:, None], known[None])


class DrawnBallot:
    """Fresh i.i.d. votes, one per query draw. It also counts which view of the reference was the nearest."""

    def __init__(
        self,
        hash_: PerceptualHash,
        sampler: Sampler,
        trial: Trial,
        reference: MemberReference,
        pixels: torch.Tensor,
        draws: int,
        noise: GaussianSource,
        batch: int | None,
        voted: Callable[[int], None],
    ) -> None:
        self._hash, self._trial, self._voted = trial.judge(hash_), trial, voted
        self.nearest = torch.zeros(len(trial.level.codes), dtype=torch.long)
        self._queries = queries = sampler.codes(
            pixels, trial.level.sigma, draws, noise.fork("query"), batch=batch, view=trial.view
        )
        self._votes: Iterator[torch.Tensor]
        if reference.mode == "code":
            self._votes = map(self._against_views, queries)
        else:
            pairs = reference.pair(queries, draws, sampler, noise, batch=batch)
            self._votes = (self._hash.matches(codes, theirs) for codes, theirs in pairs)
        self._waiting = torch.empty(0, dtype=torch.bool)

    def _against_views(self, codes: torch.Tensor) -> torch.Tensor:
        """Return the votes: does any view of the reference match this draw?"""
        distances = self._trial.distances(self._hash, codes)
        self.nearest += torch.bincount(distances.argmin(1), minlength=len(self.nearest))
        known = self._trial.level.codes
        if self._hash.rule == "native":
            return self._hash.matches(codes[:, None], known[None]).any(1)
        return distances.min(1).values <= self._hash.max_distance

    def close(self) -> None:
        """End the stream of noisy codes: what an engine computes ahead is not needed any more."""
        self._queries.close()

    def more(self, count: int) -> int:
        """Draw ``count`` more votes, and return how many match."""
        parts, missing = [self._waiting], count - len(self._waiting)
        while missing > 0:
            votes = next(self._votes)
            self._voted(len(votes))
            parts.append(votes)
            missing -= len(votes)
        found = torch.cat(parts)
        self._waiting = found[count:]
        return int(found[:count].sum())


def drawn_distances(
    hash_: PerceptualHash, sampler: Sampler, trial: Trial, pixels: torch.Tensor, draws: int, noise: GaussianSource
) -> Iterator[torch.Tensor]:
    """Yield the distances of ``draws`` votes to the nearest view of the reference."""
    for codes in sampler.codes(pixels, trial.level.sigma, draws, noise, view=trial.view):
        yield trial.distances(hash_, codes).min(1).values
