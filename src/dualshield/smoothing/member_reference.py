"""What the matcher keeps of a reference, and which code each vote compares with.

The guarantee holds for any distribution of the reference code that does not depend on the query (METHOD.md 2):

* ``paired``: hash of the reference under fresh noise, for every vote (the paper). Queries that were chosen before may
  meet the same noisy codes, one each for every vote: each pair's votes are i.i.d. all the same;
* ``bank``: a uniformly drawn entry of K noisy codes computed once; the image is never hashed again;
* ``code``: one fixed code, the consensus of such a bank or a bare code from an external list.

Codes are bits, or the values of a hash's native rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch

from dualshield._common.digest import canonical_json
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.sampler import Sampler

ReferenceMode = Literal["code", "bank", "paired"]
# Of one value, in a message.
MOST_TOLD = 300


class DrawnCodes:
    """Noisy codes of a reference in the order they are drawn, which happens when somebody first asks for them."""

    def __init__(self, stream: Iterator[torch.Tensor], draws: int) -> None:
        self._stream = stream
        self._draws = draws
        # In one piece: small ones, made between the large tensors of every draw, would keep the memory of these from
        # being used again, and a certificate would take gigabytes.
        self._codes: torch.Tensor | None = None
        self._known = 0

    def part(self, first: int, count: int) -> torch.Tensor:
        """``count`` codes from ``first`` on."""
        while self._known < first + count:
            batch = next(self._stream, None)
            if batch is None:
                raise ValueError(f"{first + count} votes, but only {self._known} codes were to be drawn for them")
            if self._codes is None:
                self._codes = batch.new_empty(self._draws, *batch.shape[1:])
            self._codes[self._known : self._known + len(batch)] = batch
            self._known += len(batch)
        assert self._codes is not None
        return self._codes[first : first + count]


@dataclass(frozen=True, eq=False)
class MemberReference:
    """What one member of a deployment keeps of a reference: its sigma, and what its votes are drawn from."""

    terms: dict[str, Any]  # the hash and configuration it was enrolled under (`enrollment.enrollment_terms`)
    sigma: float
    plain: torch.Tensor  # the unprotected hash, shown as the distance, never voted with
    code: torch.Tensor  # what mode `code` votes with
    bank: torch.Tensor | None = None  # K codes
    pixels: torch.Tensor | None = None  # canonical, only where votes need the image itself
    is_bare: bool = False  # a code from a list, not enrolled from an image
    drawn: DrawnCodes | None = None  # for coming votes, where several queries shall meet the same
    first: int = 0  # of these

    @property
    def mode(self) -> ReferenceMode:
        """Which of the three distributions this is."""
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
        """Each batch of query codes with the reference codes its votes compare with, one per query draw."""
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
        for codes in query_codes:
            if self.bank is None:
                yield codes, self.code
            else:
                yield codes, self.bank[entries.integers(len(codes), len(self.bank))]

    def difference(self, terms: dict[str, Any], code_like: torch.Tensor) -> str:
        """What keeps a matcher with these terms, and codes like this one, from using it; empty where nothing does."""
        if self.terms is not terms:
            parts = [
                f"{name} {_short(self.terms.get(name))}, here {_short(value)}"
                for name, value in terms.items()
                if canonical_json(self.terms.get(name)) != canonical_json(value)
            ]
            if parts:
                return "; ".join(parts)
        # A file may say that its codes belong here, and hold others.
        codes = [self.plain, self.code, *([] if self.bank is None else [self.bank[0]])]
        if all(code.shape == code_like.shape and code.dtype == code_like.dtype for code in codes):
            return ""
        return f"its codes have {self.code.numel()} values, here {code_like.numel()}"

    def split(self, first: int) -> tuple[MemberReference, MemberReference]:
        """For the votes that choose, ``first`` of them, and those that certify: they share no code drawn before."""
        return self, self if self.drawn is None else replace(self, first=self.first + first)


def _short(value: Any) -> str:
    text = canonical_json(value)
    return text if len(text) <= MOST_TOLD else f"{text[:MOST_TOLD]}..."


def majority(bank: torch.Tensor) -> torch.Tensor:
    """The bitwise majority of a bank ``(K, bits)``, or the median of values; K is odd, so there are no ties."""
    return bank.sum(0) * 2 > len(bank) if bank.dtype == torch.bool else bank.median(0).values
