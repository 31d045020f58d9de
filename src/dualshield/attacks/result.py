"""The budget and the result of an attack."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dualshield.errors import InputError
from dualshield.images.canonical import CanonicalImage
from dualshield.smoothing.names import Origin

MAX_BUDGET = 1000.0


@dataclass(frozen=True)
class AttackBudget:
    """The largest l2 change of the canonical query, pixels in [0, 1]."""

    l2: float

    def __post_init__(self) -> None:
        if not (isinstance(self.l2, int | float) and math.isfinite(self.l2) and 0 < self.l2 <= MAX_BUDGET):
            raise InputError(f"budget {self.l2} is not in (0, {MAX_BUDGET:g}]; it is an l2 norm over 512x512x3 pixels")


@dataclass(frozen=True, eq=False)
class AttackResult:
    """The result of one attack on one pair. ``success`` is judged by the deployed matcher on the saved image.

    A non-match or an abstention (which lets an upload pass) is a success; for a collision, a match is.
    """

    method: str
    budget: float
    success: bool  # after saving as 8-bit PNG and loading again
    success_float: bool  # before saving
    decision: str  # of the deployed matcher on the saved image
    l2: float
    linf: float
    ssim: float
    queries: int  # evaluations of the deployed matcher or its score; gradients are not queries
    steps: int
    seconds: float
    warnings: tuple[str, ...]
    adversarial: CanonicalImage  # as saved
    deployment: str | None = None  # digest of the attacked deployment; None for a plain hash
    reference_fingerprint: str | None = None
    noise_source: Origin | None = None  # of the defender
    reach: float | None = None  # pgd, nes: longest change before projection; a larger budget gives the same attack

    def __repr__(self) -> str:
        verdict = "succeeded" if self.success else "failed"
        return f"<AttackResult {self.method} {verdict} at l2 {self.l2:.4g} of {self.budget:g}, {self.decision}>"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON, without the image."""
        values = {name: value for name, value in vars(self).items() if name != "adversarial"}
        return {**values, "warnings": list(self.warnings)}
