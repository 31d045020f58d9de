"""The metrics that come as extras; without them their figures are null, never another number."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dualshield.evaluation.metrics import fid, lpips


@dataclass(frozen=True)
class Extras:
    """What is installed."""

    lpips: lpips.Lpips | None = None
    inception: fid.Inception | None = None

    @staticmethod
    def load() -> Extras:
        """All that is there."""
        return Extras(lpips.load(), fid.load())

    def distance(self, image: torch.Tensor, other: torch.Tensor) -> float | None:
        """LPIPS of two canonical images."""
        return None if self.lpips is None else float(self.lpips.distance(image.cpu(), other.cpu()))

    def features(self, image: torch.Tensor) -> torch.Tensor | None:
        """What FID compares, of one canonical image."""
        return None if self.inception is None else self.inception.features(image.cpu()[None])[0]

    def present(self) -> dict[str, bool]:
        """Which figures a run has."""
        return {"lpips": self.lpips is not None, "fid": self.inception is not None}

    def hints(self) -> list[str]:
        """How to get what is missing."""
        missing = [("LPIPS", self.lpips, lpips.HINT), ("FID", self.inception, fid.HINT)]
        return [f"{name} is not measured: {hint}" for name, found, hint in missing if found is None]
