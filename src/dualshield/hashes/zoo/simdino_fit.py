"""Fit of SimDINO's projection: mean and principal components of its features over images, and a random rotation.

As in Hashing-Baseline: ``torch.pca_lowrank`` with two iterations on the centred features, and an orthogonal matrix
drawn uniformly. Both depend on a random generator, so the seed is fixed here and stored with the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import nn

from dualshield.errors import InputError
from dualshield.hashes.import_weights import import_weights
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.hashes.zoo.simdino import Projection, build, find_backbone, front_end
from dualshield.weights.checkpoint import read_state
from dualshield.weights.store import StoredWeights

BITS = 64
SEED = 2026
PCA_ITERATIONS = 2
BATCH = 8


def fit(name: str, images: Iterable[torch.Tensor], bits: int = BITS, seed: int = SEED) -> StoredWeights:
    """Fit the projection of ``name`` (simdino or simdino-v2) to canonical images and import it as weights."""
    backbone = find_backbone(name)
    vit = build(read_state(backbone.path, name, inside="teacher"), name, backbone.weight.file)
    width = vit.cls_token.shape[-1]
    if not 1 <= bits <= width:
        raise InputError(f"{bits} bits: the features of {name} have {width} dimensions; give 1 to {width} bits")
    network = PerceptualHash(name=name, version="1", bits=width, front_end=front_end(), network=vit)
    features = torch.cat(list(_features(network, images)) or [torch.empty(0, width)])
    projection = project(features, bits, seed, backbone.sha256)
    with TemporaryDirectory() as folder:
        file = Path(folder) / f"{name}-projection.npz"
        write(projection, file)
        return import_weights(f"{name}-projection", file)


def project(features: torch.Tensor, bits: int, seed: int, backbone: str) -> Projection:
    """Return mean, components and rotation fitted to features ``(images, width)``."""
    if len(features) <= bits:
        raise InputError(f"{len(features)} images are too few for {bits} bits; give many more images than bits")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        _, _, components = torch.pca_lowrank(features, q=bits, center=True, niter=PCA_ITERATIONS)
        rotation = nn.init.orthogonal_(torch.empty(bits, bits))
    return Projection(backbone, bits, seed, len(features), features.mean(0), components, rotation)


def write(projection: Projection, file: Path) -> None:
    """Write the projection to an .npz file that can be read without pickle."""
    fields = {name: getattr(projection, name) for name in Projection.__dataclass_fields__}
    arrays: dict[str, Any] = {name: np.asarray(value) for name, value in fields.items()}
    np.savez(file, **arrays)


@torch.no_grad()
def _features(network: PerceptualHash, images: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
    left = iter(images)
    while batch := list(islice(left, BATCH)):
        yield network.margins(torch.stack(batch))
