"""Full-size networks with random weights, for hashes whose weights a benchmark machine may not have.

Speed and memory of a network do not depend on its weights, but its codes do. So only speed and memory may be measured
with these networks.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from dualshield.errors import MissingWeightsError
from dualshield.hashes import PerceptualHash, get_hash
from dualshield.hashes.networks.vit import ViT, ViTShape
from dualshield.hashes.zoo import c_pdna, c_pdq, dinohash, hybridhash, simdino, sscd, vit2hash
from dualshield.images import FrontEnd
from dualshield.images.frontend import IMAGENET_MEAN, IMAGENET_STD

BITS = 64


def load(name: str) -> tuple[PerceptualHash, bool]:
    """Return a hash, and whether its weights are real."""
    try:
        return get_hash(name), True
    except MissingWeightsError:
        front_end, network = NETWORKS[name]()
        with torch.inference_mode():
            bits = network.eval()(torch.zeros(1, *front_end.shape)).shape[-1]
        return PerceptualHash(name=name, version="synthetic", bits=bits, front_end=front_end, network=network), False


def _dinohash(variant: dinohash.Variant) -> tuple[FrontEnd, nn.Module]:
    shape = variant.shape
    components = torch.randn(variant.bits, shape.width)
    return dinohash.front_end(shape.side), dinohash.Components(_vit(shape), components, torch.zeros(shape.width))


def _simdino(shape: ViTShape) -> tuple[FrontEnd, nn.Module]:
    mean, components, rotation = torch.zeros(shape.width), torch.randn(shape.width, BITS), torch.eye(BITS)
    projection = simdino.Projection("", BITS, 0, 0, mean, components, rotation)
    return simdino.front_end(), simdino.Rotated(_vit(shape), projection)


def _vit2hash() -> tuple[FrontEnd, nn.Module]:
    half = (0.5,) * 3
    front_end = FrontEnd.identity().resize(vit2hash.SHAPE.side, vit2hash.SHAPE.side).normalise(half, half)
    return front_end, _filled(vit2hash.ViT2Hash(vit2hash.SHAPE, BITS))


def _hybridhash() -> tuple[FrontEnd, nn.Module]:
    side = hybridhash.SHAPE.side
    resized = FrontEnd.identity().resize(hybridhash.RESIZED, hybridhash.RESIZED).centre_crop(side, side)
    return resized.normalise(IMAGENET_MEAN, IMAGENET_STD), _filled(hybridhash.HybridHash(hybridhash.SHAPE, BITS))


def _sscd(name: str) -> tuple[FrontEnd, nn.Module]:
    variant = sscd.VARIANTS[name]
    front_end = FrontEnd.identity().resize(sscd.SIDE, sscd.SIDE).normalise(IMAGENET_MEAN, IMAGENET_STD)
    return front_end, sscd.SscdNet(variant.shape, variant.dimensions)


def _vit(shape: ViTShape) -> ViT:
    vit = ViT(shape)
    _filled(vit)
    return vit


def _filled(network: nn.Module) -> nn.Module:
    """Fill parameters (tokens and positions start empty) with small random numbers; return the network."""
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.ndim != 1:
                parameter.normal_(0, 0.02)
    return network


NETWORKS: dict[str, Callable[[], tuple[FrontEnd, nn.Module]]] = {
    "dinohash": lambda: _dinohash(dinohash.SMALL),
    "dinohash-512": lambda: _dinohash(dinohash.BASE),
    "simdino": lambda: _simdino(ViTShape(768, 12, 16)),
    "simdino-v2": lambda: _simdino(ViTShape(768, 12, 16, layer_scale=True, registers=4)),
    "vit2hash": _vit2hash,
    "hybridhash": _hybridhash,
    "sscd": lambda: _sscd("sscd"),
    "sscd-large": lambda: _sscd("sscd-large"),
    "c-pdq": lambda: (FrontEnd.identity().grey().resize(28, 28), c_pdq.CPdqNet()),
    "c-pdna": lambda: (
        FrontEnd.identity().resize(64, 64).normalise(IMAGENET_MEAN, IMAGENET_STD),
        nn.Sequential(c_pdna.CPdnaNet(), c_pdna.Thermometer()),
    ),
}
