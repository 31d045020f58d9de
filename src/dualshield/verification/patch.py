"""Rows of coefficients that are zero outside a window of their feature map.

A neuron of an early layer depends on a small part of the image, and so does its linear bound. Windows instead of whole
maps make the backward passes several times cheaper.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, eq=False)
class Patch:
    """Coefficients ``(rows, channels, height, width)`` of the window that starts at ``top``, ``left``."""

    values: torch.Tensor
    top: int
    left: int

    def with_values(self, values: torch.Tensor) -> Patch:
        """Return a patch with other coefficients on the same window."""
        return Patch(values, self.top, self.left)

    def mirrored(self) -> Patch:
        """Return these rows, followed by their negatives."""
        return self.with_values(torch.cat([self.values, -self.values]))

    def clipped(self, height: int, width: int) -> Patch:
        """Return the part of the patch inside a map of this size."""
        _, _, tall, wide = self.values.shape
        top, left = max(self.top, 0), max(self.left, 0)
        bottom, right = min(self.top + tall, height), min(self.left + wide, width)
        cut = self.values[:, :, top - self.top : bottom - self.top, left - self.left : right - self.left]
        return Patch(cut, top, left)

    def window(self, whole: torch.Tensor) -> torch.Tensor:
        """Return the window of a map ``(channels, height, width)``."""
        _, _, tall, wide = self.values.shape
        return whole[:, self.top : self.top + tall, self.left : self.left + wide]

    def dot(self, whole: torch.Tensor) -> torch.Tensor:
        """Return the inner product of each row with a map, summed in float64: ``(rows,)``."""
        return (self.values * self.window(whole)).sum((1, 2, 3), dtype=torch.float64)

    def size(self, whole: torch.Tensor) -> torch.Tensor:
        """Return the inner product of the rows' absolute values with a non-negative map: ``(rows,)``."""
        return (self.values.abs().flatten(1) @ self.window(whole).flatten().to(self.values.dtype)).double()

    def __add__(self, other: Patch) -> Patch:
        top, left = min(self.top, other.top), min(self.left, other.left)
        ends = [(p.top + p.values.shape[2], p.left + p.values.shape[3]) for p in (self, other)]
        bottom, right = max(end[0] for end in ends), max(end[1] for end in ends)
        total = self.values.new_zeros(*self.values.shape[:2], bottom - top, right - left)
        for patch, (low, far) in zip((self, other), ends, strict=True):
            total[:, :, patch.top - top : low - top, patch.left - left : far - left] += patch.values
        return Patch(total, top, left)
