"""DINOHash (Proteus, 2025): the signs of principal components of an adversarially fine-tuned DINOv2.

    features = class token of DINOv2 with registers;    margins = (features - means) PCA^T;    bit = margin >= 0

96 bits from ViT-S/14 (``dinohash``), 512 from ViT-B/14 (``dinohash-512``). Each can be loaded from the authors' ONNX
file, which includes the projection, or from a DINOv2 state_dict with the authors' two arrays. The arrays were fitted
again for every version of the network, so each pair fits only one checkpoint; this cannot be verified, only shapes
can. Some bits differ between the two ways, because the ONNX files were exported with positions resized without
antialias.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from dualshield.hashes.external.onnx import OnnxModule
from dualshield.hashes.networks.vit import ViT, ViTShape
from dualshield.hashes.networks.vit_checkpoints import MASK_TOKEN, build_vit
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images.frontend import IMAGENET_MEAN, IMAGENET_STD, FrontEnd
from dualshield.weights.catalogue import WeightFile
from dualshield.weights.checkpoint import read_state, weights_error
from dualshield.weights.numpy_files import read_npy
from dualshield.weights.store import find

# Added to margins, so that a margin of exactly 0 gives bit 1; too small to change any other margin.
ZERO_IS_ONE = 1e-30


@dataclass(frozen=True)
class Variant:
    """One of the two sizes of DINOHash."""

    name: str
    bits: int
    shape: ViTShape

    def load(self) -> PerceptualHash:
        """Return the hash from the imported files."""
        model = find(f"{self.name}-onnx", f"{self.name}-state")
        weights = {model.weight.file: model.sha256}
        network: nn.Module
        if model.weight.name.endswith("-onnx"):
            network, origin = Exported(OnnxModule(model.path)), "the authors' ONNX file"
        else:
            pca, means = find(f"{self.name}-pca"), find(f"{self.name}-means")
            weights |= {part.weight.file: part.sha256 for part in (pca, means)}
            vit = self.vit(read_state(model.path, self.name), model.path.name)
            network = Components(vit, self.components(pca.path), self.means(means.path))
            origin = "a DINOv2 state_dict and the authors' projection"
        return PerceptualHash(
            name=self.name,
            version="1",
            bits=self.bits,
            front_end=front_end(self.shape.side),
            network=network,
            about=f"DINOHash: principal components of DINOv2 features; from {origin}",
            weights=weights,
        )

    def check(self, kind: str, path: Path) -> None:
        """Load a file as the given kind of weights; raises if it is not that."""
        if kind == "onnx":
            self.check_onnx(path)
        elif kind == "state":
            self.vit(read_state(path, self.name), path.name)
        elif kind == "pca":
            self.components(path)
        else:
            self.means(path)

    def vit(self, state: Mapping[str, torch.Tensor], file: str) -> ViT:
        """Return the backbone with the weights in ``state``."""
        return build_vit(self.shape, state, self.name, file, ignore=[MASK_TOKEN])

    def components(self, path: Path) -> torch.Tensor:
        """Return the first components ``(bits, width)``; later versions of the file hold more."""
        matrix = read_npy(path, self.name)
        if matrix.ndim != 2 or matrix.shape[0] < self.bits or matrix.shape[1] != self.shape.width:
            expected = f"at least {self.bits} components of {self.shape.width} features"
            raise weights_error(self.name, path, f"expected {expected}, got shape {tuple(matrix.shape)}")
        return matrix[: self.bits].contiguous()

    def means(self, path: Path) -> torch.Tensor:
        """Return the mean features ``(width,)``."""
        means = read_npy(path, self.name)
        if means.numel() != self.shape.width or means.ndim not in (1, 2):
            expected = f"{self.shape.width} means"
            raise weights_error(self.name, path, f"expected {expected}, got shape {tuple(means.shape)}")
        return means.reshape(-1)

    def check_onnx(self, path: Path) -> None:
        """Raise WeightsError unless the ONNX file maps a normalised image to ``bits`` margins."""
        model = OnnxModule(path)
        sides = (3, self.shape.side, self.shape.side)
        if model.input_shape[1:] != sides:
            raise weights_error(self.name, path, f"takes images of shape {model.input_shape[1:]}, expected {sides}")
        with torch.inference_mode():
            found = tuple(model(torch.zeros(1, *sides)).shape)
        if found != (1, self.bits):
            raise weights_error(self.name, path, f"returns {found} for one image, expected {(1, self.bits)}")


class Components(nn.Module):
    """Computes ``(features - means) components^T``."""

    def __init__(self, vit: ViT, components: torch.Tensor, means: torch.Tensor) -> None:
        super().__init__()
        self.vit = vit
        self.components: torch.Tensor
        self.means: torch.Tensor
        self.register_buffer("components", components)
        self.register_buffer("means", means)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return (self.vit(images) - self.means) @ self.components.T + ZERO_IS_ONE  # type: ignore[no-any-return]


class Exported(nn.Module):
    """An exported ONNX model whose outputs are the margins."""

    def __init__(self, model: OnnxModule) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.model(images) + ZERO_IS_ONE  # type: ignore[no-any-return]


def _dinov2(width: int) -> ViTShape:
    return ViTShape(width, depth=12, patch=14, registers=4, layer_scale=True, stored_grid=37)


SMALL = Variant("dinohash", 96, _dinov2(384))
BASE = Variant("dinohash-512", 512, _dinov2(768))


def front_end(side: int) -> FrontEnd:
    """Return a bilinear resize to ``side`` x ``side`` (aspect ratio ignored), with ImageNet normalisation."""
    return FrontEnd.identity().resize(side, side).normalise(IMAGENET_MEAN, IMAGENET_STD)


def load() -> PerceptualHash:
    """Return DINOHash with 96 bits."""
    return SMALL.load()


def load_512() -> PerceptualHash:
    """Return DINOHash with 512 bits."""
    return BASE.load()


def check(weight: WeightFile, path: Path) -> None:
    """Raise WeightsError if the file is not what ``weight`` says."""
    variant = SMALL if weight.hash == SMALL.name else BASE
    variant.check(weight.name.removeprefix(f"{variant.name}-"), path)
