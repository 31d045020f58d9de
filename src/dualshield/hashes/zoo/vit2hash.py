"""ViT2Hash (Gong et al., 2022): Google's ViT-B/16 and one linear layer, trained without labels to preserve features.

    features = class token of ViT-B/16 at 224 x 224;    margins = encoder(features)

The authors' checkpoint also holds the teacher network, a batch norm and the original classifier, which the hash does
not use. The encoder in the checkpoint determines the number of bits.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from dualshield.hashes.networks.vit import ViT, ViTShape
from dualshield.hashes.networks.vit_checkpoints import Named, google_names, unfilled
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images.frontend import FrontEnd
from dualshield.weights.checkpoint import load_strict, read_state, weights_error
from dualshield.weights.store import find

NAME = "vit2hash"
SHAPE = ViTShape(width=768, depth=12, patch=16)
UNUSED = ("teacher.", "hash_norm.", "vit.head.")


class ViT2Hash(nn.Module):
    """Maps images to margins."""

    def __init__(self, shape: ViTShape, bits: int) -> None:
        super().__init__()
        self.vit = ViT(shape)
        self.encoder = nn.Linear(shape.width, bits)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.encoder(self.vit(images))  # type: ignore[no-any-return]


def build(state: Mapping[str, torch.Tensor], file: str = "the checkpoint") -> ViT2Hash:
    """Return the network with the weights of the authors' full state_dict."""
    weight = state.get("encoder.weight", torch.empty(0))
    if weight.ndim != 2 or not weight.shape[0]:
        raise weights_error(NAME, file, "not the weights of this model; wrong or missing key: encoder.weight")
    net = unfilled(ViT2Hash, SHAPE, weight.shape[0])
    encoder = {f"encoder.{key}": value for key, value in net.encoder.state_dict().items()}
    names = Named({**google_names(net.vit, "vit.transformer."), **encoder})
    load_strict(names, state, NAME, file, ignore=UNUSED)
    return net


def load() -> PerceptualHash:
    """Return ViT2Hash with the imported checkpoint."""
    stored = find(NAME)
    net = build(read_state(stored.path, NAME), stored.weight.file)
    half = (0.5,) * 3
    return PerceptualHash(
        name=NAME,
        version="1",
        bits=net.encoder.out_features,
        front_end=FrontEnd.identity().resize(SHAPE.side, SHAPE.side).normalise(half, half),
        network=net,
        about=f"ViT2Hash: ViT-B/16 with a linear layer, {net.encoder.out_features} bits; a semantic hash",
        weights={stored.weight.file: stored.sha256},
    )
