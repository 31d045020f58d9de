"""What hardening one image did: its quality, and its certified radii before and after."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from dualshield._common.rounding import down


@dataclass(frozen=True)
class Radii:
    """Certified radii of an image matched with itself, for one hash."""

    before: float
    after: float
    ceiling: float | None = None  # the largest radius that the matcher can prove for any image
    distance_before: float | None = None  # mean distance of votes to the reference; smaller is safer
    distance_after: float | None = None
    threshold: float | None = None  # votes at smaller distances match

    @property
    def is_capped(self) -> bool:
        """Whether the radius is at its ceiling; only more draws or a larger sigma could prove more."""
        return self.ceiling is not None and self.after >= self.ceiling * (1 - 1e-6)


@dataclass(frozen=True)
class HardeningReport:
    """Report of one published image. Qualities compare canonical images; all is measured on the encoded file."""

    file: str
    output: str | None
    hash: str
    preset: str
    strength: float
    ssim: float
    psnr: float
    linf: float
    l2: float
    radius_before: float  # of the original, enrolled without hardening
    radius_after: float  # of the published file and its reference; with several hashes the joint (largest) radius
    radius_detected: float  # of the same reference: the radius within which the matcher still answers match
    radii: dict[str, Radii]  # by hash name
    deployment: str
    noise_source: str | None  # None if no noise was drawn
    reference: str | None  # where the reference of the published file was written
    reference_fingerprint: str | None
    steps: int
    seconds: float  # optimising and encoding
    seconds_certifying: float

    @property
    def radius_change(self) -> str:
        """The radius before and after hardening, as text."""
        change = f"{down(self.radius_before, 3)} -> {down(self.radius_after, 3)}"
        if not self.radii or not all(radii.is_capped for radii in self.radii.values()):
            return change
        gains = "; ".join(
            f"mean distance of votes {radii.distance_before:.3f} -> {radii.distance_after:.3f}, "
            f"threshold {radii.threshold:.3f}"
            for radii in self.radii.values()
            if radii.distance_before is not None and radii.distance_after is not None and radii.threshold is not None
        )
        return f"{change}, the most that these draws can prove" + (f" ({gains})" if gains else "")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; the PSNR of an unchanged image is None."""
        return {**asdict(self), "psnr": self.psnr if math.isfinite(self.psnr) else None}
