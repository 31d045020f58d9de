"""Synthetic checkpoints of the convolutional hashes in their authors' key layout: random numbers, not trained models.

The last layer is scaled on generated images, so that codes of different images differ; nothing else is fitted.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from dualshield.hashes import PerceptualHash, get_hash
from dualshield.hashes.import_weights import import_weights
from dualshield.hashes.networks.resnet import ResNetShape
from dualshield.hashes.zoo import c_pdna, c_pdq, sscd
from dualshield.images import FrontEnd
from dualshield.images.frontend import IMAGENET_MEAN, IMAGENET_STD
from dualshield.images.synthetic import natural_image

TINY = ResNetShape((1, 2, 1, 1), groups=2, group_width=4, stem=8)


def tiny_variants() -> dict[str, sscd.Variant]:
    """SSCD's two models at a size that runs in no time."""
    return {
        "sscd": sscd.Variant(TINY, 96, sscd.VARIANTS["sscd"].files, "synthetic"),
        "sscd-large": sscd.Variant(
            ResNetShape((1, 1, 2, 1), groups=4, group_width=2, stem=8),
            128,
            sscd.VARIANTS["sscd-large"].files,
            "synthetic",
        ),
    }


def randomise(net: nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in net.state_dict().items():
            if name.endswith("running_var"):
                tensor.uniform_(0.5, 1.5, generator=generator)
            elif tensor.ndim == 1 and tensor.is_floating_point():
                tensor.normal_(0, 0.1, generator=generator)
                if "bn" in name and name.endswith("weight"):
                    tensor.add_(1)
            elif tensor.ndim > 1:
                tensor.normal_(0, (2 / tensor[0].numel()) ** 0.5, generator=generator)


@torch.no_grad()
def spread(net: nn.Module, last: nn.Linear, front_end: FrontEnd, middle: float, scale: float) -> None:
    """Give each output of the last layer this mean and deviation over a few generated images."""
    inputs: list[torch.Tensor] = []
    hook = last.register_forward_hook(lambda _, given, __: inputs.append(given[0]))
    net.eval()(front_end(torch.stack([natural_image(seed).pixels for seed in range(20, 28)])))
    hook.remove()
    outputs = inputs[0] @ last.weight.T
    factor = scale / outputs.std(0)
    last.weight.mul_(factor[:, None])
    last.bias.copy_(middle - outputs.mean(0) * factor)


def spread_bits(net: c_pdq.CPdqNet) -> c_pdq.CPdqNet:
    """The same network, with bits that are about as often 1 as 0."""
    last = net[21]
    assert isinstance(last, nn.Linear)
    spread(net, last, FrontEnd.identity().grey().resize(28, 28), 0.5, 0.5)
    return net


def calm(net: c_pdq.CPdqNet) -> c_pdq.CPdqNet:
    """The same network with weights so small that intervals do not grow, as certifiable training leaves them."""
    with torch.no_grad():
        for layer in net.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear):
                layer.weight.div_(layer.weight.abs().flatten(1).sum(1).view(-1, *[1] * (layer.weight.ndim - 1)))
    return spread_bits(net)


def c_pdq_net(seed: int = 0) -> c_pdq.CPdqNet:
    net = c_pdq.CPdqNet()
    randomise(net, seed)
    return spread_bits(net)


def c_pdna_net(seed: int = 0) -> c_pdna.CPdnaNet:
    net = c_pdna.CPdnaNet()
    randomise(net, seed)
    spread(net, net.linear2, FrontEnd.identity().resize(64, 64).normalise(IMAGENET_MEAN, IMAGENET_STD), 100, 60)
    return net


def sscd_net(variant: sscd.Variant, seed: int = 0) -> sscd.SscdNet:
    net = sscd.SscdNet(variant.shape, variant.dimensions)
    randomise(net, seed)
    front_end = FrontEnd.identity().resize(320, 320).normalise(IMAGENET_MEAN, IMAGENET_STD)
    spread(net, net.backbone.fc, front_end, 0.0, 1.0)
    return net


def imported(
    name: str,
    weights: str,
    folder: Path,
    save: Callable[[Path], None],
    variants: dict[str, sscd.Variant] | None = None,
    side: int | None = None,
) -> PerceptualHash:
    """The hash ``name`` by way of the store: a file is saved, imported as ``weights``, and loaded."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DUALSHIELD_WEIGHTS", str(folder / "weights"))
        if variants is not None:
            patch.setattr(sscd, "VARIANTS", variants)
        if side is not None:
            patch.setattr(sscd, "SIDE", side)
        save(folder / "synthetic.pt")
        import_weights(weights, folder / "synthetic.pt")
        return get_hash(name)
