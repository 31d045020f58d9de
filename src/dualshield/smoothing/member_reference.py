"""The data that a matcher keeps of a reference, and the reference code that each vote compares with.

The guarantee holds for any distribution of the reference code that does not depend on the query (METHOD.md 2):

* ``paired``: hash of the reference under fresh noise, for every vote (the paper). Queries that were chosen beforehand
  may share the same noisy codes, one per vote: the votes of each pair are still i.i.d.;
* ``bank``: a uniformly drawn entry of K noisy codes computed once; the image is never hashed again;
* ``code``: one fixed code, the consensus of such a bank or a bare code from an external list. There may be several,
  one per view of the reference: a vote then matches if any of them does, which is still one yes or no per draw.

Codes are bits, or the values of a hash's native rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from dualshield._common.digest import difference_of
from dualshield.smoothing.level import Level
from dualshield.smoothing.names import ReferenceMode
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.sampler import Sampler


class DrawnCodes:
    """Noisy codes of a reference in the order of their draws; drawn when first needed, then kept."""

    def __init__(self, stream: Iterator[torch.Tensor], draws: int) -> None:
        self._stream = stream
        self._draws = draws
        # Allocated as one tensor: small tensors between the large ones of each draw would fragment memory, and a
        # certificate would take gigabytes.
        self._codes: torch.Tensor | None = None
        self._known = 0

    def part(self, first: int, count: int) -> torch.Tensor:
        """Return the codes ``first`` to ``first + count - 1``."""
        while self._known < first + count:
            batch = next(self._stream, None)
            if batch is None:
                raise ValueError(f"{first + count} votes, but only {self._known} codes were drawn")
            if self._codes is None:
                self._codes = batch.new_empty(self._draws, *batch.shape[1:])
            self._codes[self._known : self._known + len(batch)] = batch
            self._known += len(batch)
        assert self._codes is not None
        return self._codes[first : first + count]


@dataclass(frozen=True, eq=False)
class MemberReference:
    """A reference as one member of a deployment keeps it: its levels, and the codes or pixels its votes use."""

    terms: dict[str, Any]  # the hash and configuration it was enrolled under (`enrollment.enrollment_terms`)
    plain: torch.Tensor  # the unprotected hash: used for the reported distance, never in a vote
    levels: tuple[Level, ...]  # the codes of votes in mode `code`
    bank: torch.Tensor | None = None  # K codes
    pixels: torch.Tensor | None = None  # canonical, only in mode `paired`
    is_bare: bool = False  # a code from a list, not enrolled from an image
    drawn: DrawnCodes | None = None  # shared by several queries, see `SmoothedMatcher.for_known_queries`
    first: int = 0  # index of the first code to use in `drawn`

    @property
    def sigma(self) -> float:
        """The sigma of the first level, the largest."""
        return self.levels[0].sigma

    @property
    def code(self) -> torch.Tensor:
        """The code of the image as it is, at the first level."""
        code: torch.Tensor = self.levels[0].code
        return code

    @property
    def mode(self) -> ReferenceMode:
        """The distribution of the reference code: one of the three above."""
        if self.pixels is not None:
            return "paired"
        return "code" if self.bank is None else "bank"

    def pair(
        self,
        query_codes: Iterator[torch.Tensor],
        draws: int,
        sampler: Sampler,
        source: GaussianSource,
        *,
        batch: int | None = None,
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield each batch of query codes with the reference code of each vote, in the modes bank and paired."""
        if self.drawn is not None:
            first = self.first
            for codes in query_codes:
                yield codes, self.drawn.part(first, len(codes))
                first += len(codes)
            return
        if self.pixels is not None:
            noisy = sampler.codes(self.pixels, self.sigma, draws, source.fork("paired"), batch=batch)
            yield from zip(query_codes, noisy, strict=True)
            return
        entries = source.fork("bank entries")
        bank = self.code[None] if self.bank is None else self.bank
        for codes in query_codes:
            yield codes, bank[entries.integers(len(codes), len(bank))]

    def difference(self, terms: dict[str, Any], code_like: torch.Tensor) -> str:
        """Say what differs from a matcher's terms and code shape; empty if the matcher can use this reference."""
        found = difference_of(self.terms, terms)
        if found:
            return found
        # A file may have the right terms but codes of another shape.
        codes = [self.plain, *(level.code for level in self.levels), *([] if self.bank is None else [self.bank[0]])]
        if all(code.shape == code_like.shape and code.dtype == code_like.dtype for code in codes):
            return ""
        return f"its codes have {self.code.numel()} values, here {code_like.numel()}"

    def split(self, first: int) -> tuple[MemberReference, MemberReference]:
        """Return references for ``first`` selecting votes and for the certifying votes; they share no drawn code."""
        return self, self if self.drawn is None else replace(self, first=self.first + first)


def majority(bank: torch.Tensor) -> torch.Tensor:
    """Return the bitwise majority of a bank ``(K, bits)``, or the median of values; no ties if K is odd."""
    return bank.sum(0) * 2 > len(bank) if bank.dtype == torch.bool else bank.median(0).values
