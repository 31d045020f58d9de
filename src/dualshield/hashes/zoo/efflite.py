"""efflite: a deep hash that works out of the box. A frozen EfficientNet-Lite0 and a projection fitted for DualShield.

    margins = P f - offset;    f = the input and the network's stages, averaged over coarse grids

The front end reduces the image to 32 x 32 colour pixels and enlarges them to 128 x 128 for the network. That is part of
the hash, not a setting: finer detail does not survive the noise that a large certificate needs, and this way the plain
hash and the smoothed hash use the same detail.

P is fitted in closed form (efflite_fit) to photos, their benign variants and Gaussian noise, with a frozen backbone,
and ships with the package. Its file records the network, the layout of f, the number of photos and the date.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from dualshield.hashes.networks import efficientnet_lite
from dualshield.hashes.networks.efficientnet_lite import EfficientNetLite0
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images.frontend import FrontEnd
from dualshield.weights.checkpoint import weights_error
from dualshield.weights.numpy_files import read_npz

NAME = "efflite"
BITS = 256
RESOLUTION = 32
SIDE = 128
# Cells per side of the averaging grid of the input, and of each stage; later stages are not used.
INPUT_GRID = 8
STAGE_GRIDS = (4, 4, 4)
LAYOUT = f"{SIDE}px of {RESOLUTION}: input {INPUT_GRID}, stages {' '.join(map(str, STAGE_GRIDS))}"
PROJECTION = Path(__file__).with_name("efflite.npz")


@dataclass(frozen=True)
class Projection:
    """The fitted projection and how it was fitted."""

    backbone: str  # sha256
    layout: str
    images: int
    sigma: float
    seed: int
    date: str
    matrix: torch.Tensor  # (bits, features)
    offset: torch.Tensor  # (bits,)

    @staticmethod
    def read(path: Path) -> Projection:
        """Return the projection in an .npz file; raises WeightsError unless it fits this network and layout."""
        fields = read_npz(path, NAME, tuple(Projection.__dataclass_fields__))
        kinds = {"backbone": str, "layout": str, "images": int, "sigma": float, "seed": int, "date": str}
        for name, value in fields.items():
            if not isinstance(value, kinds.get(name, torch.Tensor)):
                raise weights_error(NAME, path, f"{name!r} holds {type(value).__name__}")
        found = Projection(**fields)
        if found.backbone != efficientnet_lite.SHA256:
            raise weights_error(NAME, path, f"fitted to another network (sha256 {found.backbone[:12]}…)")
        if found.layout != LAYOUT:
            raise weights_error(NAME, path, f"fitted to features {found.layout!r}, expected {LAYOUT!r}")
        shapes = tuple(found.matrix.shape), tuple(found.offset.shape)
        expected = (BITS, feature_count()), (BITS,)
        if shapes != expected:
            raise weights_error(NAME, path, f"matrix and offset have shapes {shapes}, expected {expected}")
        return found


def feature_count() -> int:
    """Return the number of features of ``PooledStages``."""
    stages = zip(efficientnet_lite.STAGES, STAGE_GRIDS, strict=False)
    return 3 * INPUT_GRID**2 + sum(efficientnet_lite.BLOCKS[block][2] * grid**2 for block, grid in stages)


class PooledStages(nn.Module):
    """Maps pixels ``(batch, 3, 128, 128)`` in [-1, 1] to grid averages of the input and of the first stages."""

    def __init__(self, backbone: EfficientNetLite0) -> None:
        super().__init__()
        self.backbone = backbone

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        stages = zip(self.backbone.stages(x), STAGE_GRIDS, strict=False)
        maps = [(x, INPUT_GRID), *stages]
        return torch.cat([F.avg_pool2d(values, values.shape[-1] // grid).flatten(1) for values, grid in maps], 1)


class EffLiteNet(nn.Module):
    """Maps pixels to margins."""

    def __init__(self, pooled: PooledStages, projection: Projection) -> None:
        super().__init__()
        self.pooled = pooled
        self.matrix: torch.Tensor
        self.offset: torch.Tensor
        self.register_buffer("matrix", projection.matrix)
        self.register_buffer("offset", projection.offset)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pooled(x) @ self.matrix.T - self.offset  # type: ignore[no-any-return]


def front_end() -> FrontEnd:
    """Return the front end: a resize to 32 x 32 pixels, enlarged to the network's input size."""
    small = FrontEnd.identity().resize(RESOLUTION, RESOLUTION).resize(SIDE, SIDE)
    return small.normalise((0.5,) * 3, (0.5,) * 3)


def backbone() -> PooledStages:
    """Return the frozen backbone with the weights of the installed package."""
    return PooledStages(efficientnet_lite.build(efficientnet_lite.weights_file()))


def load() -> PerceptualHash:
    """Return the hash with the projection that ships with DualShield."""
    projection = Projection.read(PROJECTION)
    return PerceptualHash(
        name=NAME,
        version="1",
        bits=BITS,
        front_end=front_end(),
        network=EffLiteNet(backbone(), projection),
        about="frozen EfficientNet-Lite0 (Google, Apache-2.0), projected to 256 noise-tolerant bits; works offline",
        weights={
            efficientnet_lite.FILE: efficientnet_lite.SHA256,
            PROJECTION.name: hashlib.sha256(PROJECTION.read_bytes()).hexdigest(),
        },
    )
