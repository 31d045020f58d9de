"""SimDINO as a hash (by the recipe of Hashing-Baseline, 2025): signs of rotated principal components of its features.

    features = class token of SimDINO (v1 or v2, ViT-B/16 or ViT-L/16);    margins = R V^T (features - mean)

The authors publish the networks, but neither mean, V nor R: they fit mean and V to each dataset and draw a new R for
every run. Here all three are fitted once to a folder of images (simdino_fit) and stored in a projection file, which
names its network. The authors compare a query's real numbers with a database's bits; this hash compares bits with
bits (symmetric Hamming distance), like every hash here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from dualshield.errors import MissingWeightsError
from dualshield.hashes.networks.vit import ViT, ViTShape
from dualshield.hashes.networks.vit_checkpoints import MASK_TOKEN, backbone_of, build_vit
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images.frontend import IMAGENET_MEAN, IMAGENET_STD, FrontEnd
from dualshield.weights.catalogue import WeightFile
from dualshield.weights.checkpoint import read_state, weights_error
from dualshield.weights.numpy_files import read_npz
from dualshield.weights.store import StoredWeights, find

DEPTHS = {768: 12, 1024: 24}  # width of ViT-B and ViT-L
PATCH = 16
SIDE = 224
RESIZED = 256


@dataclass(frozen=True)
class Projection:
    """The fitted projection, with the network's sha256, the number of images and the seed."""

    backbone: str
    bits: int
    seed: int
    images: int
    mean: torch.Tensor
    components: torch.Tensor
    rotation: torch.Tensor

    @staticmethod
    def read(path: Path, hash_name: str) -> Projection:
        """Return the projection in an .npz file."""
        fields = read_npz(path, hash_name, tuple(Projection.__dataclass_fields__))
        kinds = {"backbone": str, "bits": int, "seed": int, "images": int}
        for name, value in fields.items():
            if not isinstance(value, kinds.get(name, torch.Tensor)):
                raise weights_error(hash_name, path, f"{name!r} holds {type(value).__name__}")
        projection = Projection(**fields)
        width, bits = projection.mean.numel(), projection.bits
        shapes = [tuple(t.shape) for t in (projection.mean, projection.components, projection.rotation)]
        if not 1 <= bits <= width or shapes != [(width,), (width, bits), (bits, bits)]:
            raise weights_error(hash_name, path, f"arrays of shapes {shapes} do not give {bits} bits")
        return projection


class Rotated(nn.Module):
    """Computes ``R V^T (features - mean)``."""

    def __init__(self, vit: ViT, projection: Projection) -> None:
        super().__init__()
        self.vit = vit
        self.mean: torch.Tensor
        self.components: torch.Tensor
        self.rotation: torch.Tensor
        self.register_buffer("mean", projection.mean)
        self.register_buffer("components", projection.components)
        self.register_buffer("rotation", projection.rotation)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        centred = self.vit(images) - self.mean
        return centred @ self.components @ self.rotation.T  # type: ignore[no-any-return]


def load(name: str = "simdino") -> PerceptualHash:
    """Return SimDINO with its fitted projection."""
    backbone, stored = find_backbone(name), find(f"{name}-projection")
    projection = Projection.read(stored.path, name)
    fit = stored.weight.how_to_get
    if projection.backbone != backbone.sha256:
        raise MissingWeightsError(
            f"hash {name}: its projection was fitted to another network (sha256 {projection.backbone[:12]}…) than "
            f"{backbone.weight.name}, which is imported (sha256 {backbone.sha256[:12]}…); {fit}"
        )
    vit = build(read_state(backbone.path, name, inside="teacher"), name, backbone.weight.file)
    if vit.cls_token.shape[-1] != projection.mean.numel():
        raise weights_error(name, stored.path, f"fitted to {projection.mean.numel()} features, not to this network's")
    return PerceptualHash(
        name=name,
        version="1",
        bits=projection.bits,
        front_end=front_end(),
        network=Rotated(vit, projection),
        about=f"{name}: signs of rotated principal components of its features, fitted to {projection.images} images",
        weights={part.weight.file: part.sha256 for part in (backbone, stored)},
    )


def load_v2() -> PerceptualHash:
    """Return SimDINOv2 with its fitted projection."""
    return load("simdino-v2")


def find_backbone(name: str) -> StoredWeights:
    """Return the imported network: ViT-B, else ViT-L."""
    return find(f"{name}-vitb", f"{name}-vitl")


def build(state: Mapping[str, torch.Tensor], name: str, file: str) -> ViT:
    """Return the network of a training checkpoint; size and registers are inferred from the shapes.

    v1 is the plain transformer of DINO; v2 is that of DINOv2, with LayerScale and with or without registers.
    """
    backbone = backbone_of(state)
    token = backbone.get("cls_token", torch.empty(0))
    if token.shape[-1] not in DEPTHS:
        expected = " or ".join(str(width) for width in DEPTHS)
        found = f"shape {tuple(token.shape)}" if token.numel() else "none"
        raise weights_error(
            name, file, f"expected backbone.cls_token of width {expected} in its entry teacher, found {found}"
        )
    second = name == "simdino-v2"
    registers = backbone["register_tokens"].shape[1] if second and _has_registers(backbone) else 0
    width = token.shape[-1]
    shape = ViTShape(width, DEPTHS[width], PATCH, SIDE, registers=registers, layer_scale=second)
    return build_vit(shape, backbone, name, file, ignore=[MASK_TOKEN] if second else [])


def _has_registers(backbone: Mapping[str, torch.Tensor]) -> bool:
    return "register_tokens" in backbone and backbone["register_tokens"].ndim == 3


def check(weight: WeightFile, path: Path) -> None:
    """Raise WeightsError if the file is not what ``weight`` says."""
    if weight.name.endswith("-projection"):
        Projection.read(path, weight.hash)
    else:
        build(read_state(path, weight.hash, inside="teacher"), weight.hash, path.name)


def front_end() -> FrontEnd:
    """Return the front end: a bicubic resize to 256, then a centre crop to 224."""
    resized = FrontEnd.identity().resize(RESIZED, RESIZED, "bicubic").centre_crop(SIDE, SIDE)
    return resized.normalise(IMAGENET_MEAN, IMAGENET_STD)
