"""Rounding of proven numbers for display, in the direction that keeps the statement true."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal


def down(value: float, digits: int) -> str:
    """Round to ``digits`` decimals, never above the value: for radii and probabilities."""
    return _rounded(value, digits, ROUND_FLOOR)


def up(value: float, digits: int) -> str:
    """Round to ``digits`` decimals, never below the value: for a PSNR, which falls as a change grows."""
    return _rounded(value, digits, ROUND_CEILING)


def _rounded(value: float, digits: int, direction: str) -> str:
    return f"{Decimal(value).quantize(Decimal(1).scaleb(-digits), direction):f}"
