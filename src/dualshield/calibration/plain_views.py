"""Codes of the plain hash for many views of an image."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from dualshield.engines.choose import make_engine
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images.viewed_core import viewed_core
from dualshield.images.views import View
from dualshield.smoothing.deployment import Deployment


class PlainViews:
    """The plain hash of a deployment, run by its engine."""

    def __init__(self, deployment: Deployment) -> None:
        (self.hash,) = deployment.hashes
        self._engine = make_engine(self.hash, deployment.engine, deployment.device, deployment.batch_size)

    def codes(self, pixels: torch.Tensor, views: Sequence[View]) -> torch.Tensor:
        """Return the codes ``(views, bits)`` of an image, seen in each view.

        Separable views are seen through the front end, which is much cheaper than the views themselves.
        """
        cores = torch.stack([_core(self.hash, pixels.to(self.hash.device), view) for view in views])
        margins = self._engine.run(torch.split(cores, self._engine.batch_size))
        return torch.cat([self.hash.encode(part).cpu() for part in margins])


@torch.inference_mode()
def _core(hash_: PerceptualHash, pixels: torch.Tensor, view: View) -> torch.Tensor:
    if view.is_separable:
        return viewed_core(hash_.front_end, view).core(pixels)
    return hash_.front_end.core(torch.from_numpy(view(pixels.cpu().numpy())).to(pixels.device))
