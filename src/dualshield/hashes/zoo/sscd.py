"""SSCD (Meta, CVPR 2022): a descriptor for copy detection, 512 numbers (ResNet-50) or 1024 (ResNeXt-101 32x4d).

    320 x 320 image -> ResNet -> generalised mean (p = 3) -> linear layer -> unit length

SSCD itself has no bits. The bits here are the signs of the descriptor: this needs no data (centring would, and two
installations could then disagree). Training spreads descriptors evenly over the sphere, so two at an angle t differ in
about t / pi of the signs. A bit error rate of 0.2 thus corresponds to a cosine of about 0.81, a little stricter than
the 0.75 that the authors recommend, which is available as the native rule.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from dualshield.hashes.native_rule import NativeRule, cosine_distance
from dualshield.hashes.networks.resnet import RESNET50, RESNEXT101_32X4D, ResNet, ResNetShape
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images.frontend import IMAGENET_MEAN, IMAGENET_STD, FrontEnd
from dualshield.weights import WeightFile, find, load_strict, read_state
from dualshield.weights.torchscript import read_script_state

SIDE = 320
POWER, FLOOR = 3.0, 1e-6
NATIVE_COSINE = 0.75


@dataclass(frozen=True)
class Variant:
    """One of the two models, and its possible weight files in order of preference."""

    shape: ResNetShape
    dimensions: int
    files: tuple[str, ...]
    about: str


VARIANTS = {
    "sscd": Variant(
        RESNET50,
        512,
        ("sscd", "sscd-torchscript", "sscd-classy"),
        "Meta's SSCD disc_mixup, ResNet-50: signs of its copy-detection descriptor",
    ),
    "sscd-large": Variant(
        RESNEXT101_32X4D,
        1024,
        ("sscd-large", "sscd-large-classy"),
        "Meta's SSCD disc_large, ResNeXt-101 32x4d: signs of its copy-detection descriptor",
    ),
}


class SscdNet(nn.Module):
    """Maps normalised images ``(batch, 3, h, w)`` to descriptors of unit length, which are the margins."""

    def __init__(self, shape: ResNetShape, dimensions: int) -> None:
        super().__init__()
        self.backbone = ResNet(shape, dimensions)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        maps: torch.Tensor = self.backbone(images)
        pooled = maps.flatten(2).clamp_min(FLOOR).pow(POWER).mean(2).pow(1 / POWER)
        return F.normalize(self.backbone.fc(pooled))


def _descriptor(margins: torch.Tensor) -> torch.Tensor:
    return margins


NATIVE = NativeRule("a cosine similarity above 0.75", _descriptor, cosine_distance, 1 - NATIVE_COSINE)


def build(state: Mapping[str, torch.Tensor], name: str = "sscd", file: str = "checkpoint") -> SscdNet:
    """Return the network ``name`` with weights named as in torchvision or Classy Vision."""
    variant = VARIANTS[name]
    net = SscdNet(variant.shape, variant.dimensions)
    load_strict(net, {_own_key(key): value for key, value in state.items()}, name, file)
    return net


def check(weight: WeightFile, path: Path) -> None:
    """Raise WeightsError if the file at ``path`` is not what ``weight`` says."""
    build(_read(weight, path), weight.hash, path.name)


def load(name: str = "sscd") -> PerceptualHash:
    """Return SSCD; the resize ignores the aspect ratio, as the authors recommend for batches."""
    variant = VARIANTS[name]
    stored = find(*variant.files)
    return PerceptualHash(
        name=name,
        version="1",
        bits=variant.dimensions,
        front_end=FrontEnd.identity().resize(SIDE, SIDE).normalise(IMAGENET_MEAN, IMAGENET_STD),
        network=build(_read(stored.weight, stored.path), name, stored.weight.file),
        about=variant.about,
        weights={stored.weight.file: stored.sha256},
        native=NATIVE,
    )


def load_large() -> PerceptualHash:
    """Return SSCD with the larger model."""
    return load("sscd-large")


def _read(weight: WeightFile, path: Path) -> dict[str, torch.Tensor]:
    # Only the tensors of TorchScript files are read; the code in the file is not run.
    read = read_script_state if ".torchscript." in weight.file else read_state
    return read(path, weight.hash)


# Classy Vision's layer names -> torchvision's; a block is blocks.STAGE.blockSTAGE-NUMBER.
CLASSY = (
    (r"^embeddings\.1\.", "backbone.fc."),
    (r"^backbone\.initial_block\._module\.0\.", "backbone.conv1."),
    (r"^backbone\.initial_block\._module\.1\.", "backbone.bn1."),
    (r"^(backbone\.blocks\..*)\.convolutional_block\.0\.", r"\1.conv1."),
    (r"^(backbone\.blocks\..*)\.convolutional_block\.1\.", r"\1.bn1."),
    (r"^(backbone\.blocks\..*)\.convolutional_block\.3\.", r"\1.conv2."),
    (r"^(backbone\.blocks\..*)\.convolutional_block\.4\.", r"\1.bn2."),
    (r"^(backbone\.blocks\..*)\.convolutional_block\.6\.", r"\1.conv3."),
    (r"^(backbone\.blocks\.\d+\.[^.]+)\.bn\.", r"\1.bn3."),
)


def _own_key(key: str) -> str:
    for pattern, name in CLASSY:
        key = re.sub(pattern, name, key)
    block = re.match(r"backbone\.blocks\.(\d)\.(?:block\d-)?(\d+)\.", key)
    return f"backbone.layer{int(block[1]) + 1}.{block[2]}.{key[block.end() :]}" if block else key
