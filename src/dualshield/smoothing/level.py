"""One level of a reference: its codes at one sigma, one code per view, and how near a query must come to match."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class Level:
    """What queries under noise of one sigma are compared with.

    A reference has one level, or a second one with a small sigma beside it. Codes are rows of a numpy array (exact
    references, which do not need torch) or of a torch tensor; the first is that of the image as it is.
    """

    sigma: float
    codes: Any  # (views, bits)
    threshold: float | None  # largest bit error rate that matches; None for the limit of a native rule

    @property
    def code(self) -> Any:
        """The code of the image as it is."""
        return self.codes[0]

    def most(self, bits: int) -> int:
        """Return the largest Hamming distance that matches."""
        assert self.threshold is not None
        return int(self.threshold * bits + 1e-9)
