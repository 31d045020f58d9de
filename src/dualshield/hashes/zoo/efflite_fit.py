"""Closed-form fit of efflite's projection: directions that separate photos and resist noise and benign changes.

B is the covariance of the features between photos, W the mean square of their change under benign variants and under
Gaussian noise. The generalised eigenvectors of (B, W) are the directions in which photos differ most for a given
amount of disturbance. The best ones are scaled to unit variance between photos, so that unrelated photos are spread
evenly. A random tight frame then maps them to more bits than directions: each bit depends on all directions, and the
number of differing bits closely follows the angle between two images.

Changes are measured from the clean photo, not from their own mean, so directions in which noise shifts all images
equally are avoided too.
"""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dualshield._common.files import write_atomically
from dualshield.errors import InputError
from dualshield.hashes.zoo.efflite import Projection


@dataclass(frozen=True)
class FitPlan:
    """Parameters of the fit: number of directions, and shrinkage of W towards a multiple of the identity."""

    bits: int = 256
    directions: int = 64
    shrinkage: float = 0.1
    seed: int = 2026


class Moments:
    """Accumulates features of photos, and second moments of their changes, photo by photo."""

    def __init__(self, width: int) -> None:
        self.clean: list[torch.Tensor] = []
        self._changes = {kind: torch.zeros(width, width, dtype=torch.float64) for kind in ("variants", "noise")}
        self._counts = dict.fromkeys(self._changes, 0)

    def add(self, clean: torch.Tensor, variants: torch.Tensor, noise: torch.Tensor) -> None:
        """Add one photo: its features ``(width,)``, and those of its variants and noisy draws ``(n, width)``."""
        self.clean.append(clean.float())
        for kind, features in (("variants", variants), ("noise", noise)):
            change = features.double() - clean.double()
            self._changes[kind] += change.T @ change
            self._counts[kind] += len(change)

    def within(self) -> torch.Tensor:
        """Return W, with equal weight for variants and noise, whatever their numbers."""
        parts = [total / max(self._counts[kind], 1) for kind, total in self._changes.items()]
        return torch.stack(parts).sum(0)


def solve(moments: Moments, plan: FitPlan) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the matrix ``(bits, width)`` and the offset ``(bits,)`` of the projection."""
    if not 1 <= plan.directions <= plan.bits:
        raise InputError(f"{plan.directions} directions is out of range; give 1 to {plan.bits}, the number of bits")
    if not 0 < plan.shrinkage <= 1:
        raise InputError(f"shrinkage {plan.shrinkage} is out of range; give a number in (0, 1]")
    if len(moments.clean) <= 2 * plan.directions:
        raise InputError(f"{len(moments.clean)} photos are too few for {plan.directions} directions; give many more")
    clean = torch.stack(moments.clean).double()
    # Features of different stages have different units; features that never vary get weight 0.
    scale = clean.std(0)
    scale = torch.where(scale > 1e-6 * scale.max(), scale, torch.inf)
    centred = (clean - clean.mean(0)) / scale
    within = moments.within() / scale[:, None] / scale
    identity = torch.eye(len(within), dtype=torch.float64) * within.diagonal().mean()
    within = (1 - plan.shrinkage) * within + plan.shrinkage * identity
    factor = torch.linalg.cholesky(within)
    whitened = torch.linalg.solve_triangular(factor, centred.T, upper=False)
    vectors, spread, _ = torch.linalg.svd(whitened, full_matrices=False)
    kept = vectors[:, : plan.directions] / spread[: plan.directions]
    directions = torch.linalg.solve_triangular(factor.T, kept, upper=True) / scale[:, None]
    matrix = tight_frame(plan.bits, plan.directions, plan.seed) @ directions.T
    # Scale to a largest entry of 1 and round to the stored precision before computing the offset.
    matrix = (matrix / matrix.abs().amax(1, keepdim=True)).half().double()
    # The median, so that every bit is 1 for half of the photos.
    return matrix.float(), (clean @ matrix.T).median(0).values.float()


def tight_frame(bits: int, directions: int, seed: int) -> torch.Tensor:
    """Return a random ``(bits, directions)`` matrix with orthonormal columns, uniformly distributed."""
    generator = torch.Generator().manual_seed(seed)
    square = torch.randn(bits, directions, generator=generator, dtype=torch.float64)
    orthonormal, triangle = torch.linalg.qr(square)
    frame: torch.Tensor = orthonormal * triangle.diagonal().sign()
    return frame


def write(projection: Projection, file: Path) -> None:
    """Write the projection to an .npz file, with a float16 matrix."""
    fields: dict[str, Any] = {name: getattr(projection, name) for name in Projection.__dataclass_fields__}
    fields["matrix"] = projection.matrix.half().numpy()
    arrays: dict[str, Any] = {name: np.asarray(value) for name, value in fields.items()}
    buffer = BytesIO()
    np.savez_compressed(buffer, **arrays)
    write_atomically(file, buffer.getvalue())
