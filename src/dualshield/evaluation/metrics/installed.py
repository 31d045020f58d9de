"""The optional metrics LPIPS and FID; a metric that is not installed gives null, never another number."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dualshield.evaluation.metrics import fid, lpips


@dataclass(frozen=True)
class Extras:
    """The optional metrics; None for a metric that is not installed."""

    lpips: lpips.Lpips | None = None
    inception: fid.Inception | None = None

    @staticmethod
    def load() -> Extras:
        """Return the installed metrics."""
        return Extras(lpips.load(), fid.load())

    def distance(self, image: torch.Tensor, other: torch.Tensor) -> float | None:
        """Return the LPIPS distance of two canonical images; None if LPIPS is not installed."""
        return None if self.lpips is None else float(self.lpips.distance(image.cpu(), other.cpu()))

    def features(self, image: torch.Tensor) -> torch.Tensor | None:
        """Return the FID features of one canonical image; None if FID is not installed."""
        return None if self.inception is None else self.inception.features(image.cpu()[None])[0]

    def present(self) -> dict[str, bool]:
        """Return which metrics are installed, by name."""
        return {"lpips": self.lpips is not None, "fid": self.inception is not None}

    def hints(self) -> list[str]:
        """Return one line for each missing metric that says how to install it."""
        missing = [("LPIPS", self.lpips, lpips.HINT), ("FID", self.inception, fid.HINT)]
        return [f"{name} is not measured: {hint}" for name, found, hint in missing if found is None]
