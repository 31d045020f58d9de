"""Fitting efflite's projection in closed form: what tells photos apart, against what noise and handling do to them.

With B the covariance of the features between photos, and W the mean square of their change under benign variants and
under Gaussian noise, the generalised eigenvectors of (B, W) are the directions in which photos differ most for a given
amount of disturbance. The best of them are scaled to unit variance between photos, so that unrelated photos are spread
evenly, and mapped to more bits than there are directions by a random tight frame: each bit then looks at all of them,
and the number of differing bits follows the angle between two images closely.

Changes are measured from the clean photo, not from their own mean, so a direction in which noise shifts every image
alike is avoided too.
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
    """The choices of the fit: how many directions, and how far W is drawn towards a multiple of the identity."""

    bits: int = 256
    directions: int = 64
    shrinkage: float = 0.1
    seed: int = 2026


class Moments:
    """Features of the photos, and second moments of their changes, added photo by photo."""

    def __init__(self, width: int) -> None:
        self.clean: list[torch.Tensor] = []
        self._changes = {kind: torch.zeros(width, width, dtype=torch.float64) for kind in ("variants", "noise")}
        self._counts = dict.fromkeys(self._changes, 0)

    def add(self, clean: torch.Tensor, variants: torch.Tensor, noise: torch.Tensor) -> None:
        """One photo: its features ``(width,)``, and those of its variants and noisy draws ``(n, width)``."""
        self.clean.append(clean.float())
        for kind, features in (("variants", variants), ("noise", noise)):
            change = features.double() - clean.double()
            self._changes[kind] += change.T @ change
            self._counts[kind] += len(change)

    def within(self) -> torch.Tensor:
        """W: variants and noise count alike, however many there are of each."""
        parts = [total / max(self._counts[kind], 1) for kind, total in self._changes.items()]
        return torch.stack(parts).sum(0)


def solve(moments: Moments, plan: FitPlan) -> tuple[torch.Tensor, torch.Tensor]:
    """Matrix ``(bits, width)`` and offset ``(bits,)`` of the projection."""
    if not 1 <= plan.directions <= plan.bits:
        raise InputError(f"{plan.directions} directions: give between 1 and {plan.bits}, the number of bits")
    if not 0 < plan.shrinkage <= 1:
        raise InputError(f"shrinkage {plan.shrinkage} is not in (0, 1]")
    if len(moments.clean) <= 2 * plan.directions:
        raise InputError(f"{len(moments.clean)} photos are too few for {plan.directions} directions; give many more")
    clean = torch.stack(moments.clean).double()
    # Features of different stages have different units; those that never vary carry nothing.
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
    # Largest entry 1, and rounded to what is stored before the offset is taken.
    matrix = (matrix / matrix.abs().amax(1, keepdim=True)).half().double()
    # The median, not the mean: every bit is one for half of the photos.
    return matrix.float(), (clean @ matrix.T).median(0).values.float()


def tight_frame(bits: int, directions: int, seed: int) -> torch.Tensor:
    """Orthonormal columns, uniformly drawn: ``bits`` looks at ``directions`` axes that weigh all of these alike."""
    generator = torch.Generator().manual_seed(seed)
    square = torch.randn(bits, directions, generator=generator, dtype=torch.float64)
    orthonormal, triangle = torch.linalg.qr(square)
    frame: torch.Tensor = orthonormal * triangle.diagonal().sign()
    return frame


def write(projection: Projection, file: Path) -> None:
    """The projection as an .npz file, its matrix in 16 bits."""
    fields: dict[str, Any] = {name: getattr(projection, name) for name in Projection.__dataclass_fields__}
    fields["matrix"] = projection.matrix.half().numpy()
    arrays: dict[str, Any] = {name: np.asarray(value) for name, value in fields.items()}
    buffer = BytesIO()
    np.savez_compressed(buffer, **arrays)
    write_atomically(file, buffer.getvalue())
