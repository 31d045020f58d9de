"""A plain hash of an image seen in a view: its code, and the same hash with the view as its first linear step."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import torch

from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images.frontend import FrontEnd
from dualshield.images.views import View


def shown(pixels: torch.Tensor, view: View) -> torch.Tensor:
    """Return the view of canonical pixels; no gradient passes."""
    if view.is_identity:
        return pixels
    return torch.from_numpy(view(pixels.detach().cpu().numpy())).to(pixels.device)


def behind(hash_: PerceptualHash, view: View) -> PerceptualHash:
    """Return the hash of the view of an image, with gradients in the canonical pixels. Its code is ``margins > 0``."""
    if view.is_identity:
        return hash_
    return replace(hash_, front_end=_front_end(hash_.front_end, view), linear=None)


@lru_cache(maxsize=64)
def _front_end(front_end: FrontEnd, view: View) -> FrontEnd:
    rows, cols = view.factors(front_end.rows.shape[1])
    return replace(
        front_end, rows=front_end.rows @ rows, cols=front_end.cols @ cols, colour=front_end.colour @ view.colour
    )
