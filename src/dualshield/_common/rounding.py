"""Numbers for people: what is proven is rounded so that it stays true."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal


def down(value: float, digits: int) -> str:
    """With so many digits behind the point, never more than the value: for radii and probabilities."""
    return _rounded(value, digits, ROUND_FLOOR)


def up(value: float, digits: int) -> str:
    """The same, never less than the value: for a PSNR, which falls as a change grows."""
    return _rounded(value, digits, ROUND_CEILING)


def _rounded(value: float, digits: int, direction: str) -> str:
    return f"{Decimal(value).quantize(Decimal(1).scaleb(-digits), direction):f}"
