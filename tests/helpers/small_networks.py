"""Networks with the layers of C-PDQ and C-PDNA but few neurons, and what can be tried against bounds of them."""

from __future__ import annotations

import torch
from torch import nn

from dualshield.hashes.zoo.c_pdna import CPdnaNet, Thermometer
from dualshield.hashes.zoo.c_pdq import CPdqNet
from dualshield.images import FrontEnd
from dualshield.images.frontend import IMAGENET_MEAN, IMAGENET_STD
from dualshield.verification.region import Region
from tests.helpers.synthetic_cnn import randomise


def small_c_pdq(seed: int = 0) -> tuple[nn.Module, FrontEnd]:
    """Every kind of layer of C-PDQ: a block that keeps its width and one that doubles it."""
    net = CPdqNet(widths=((3, 3), (3, 6)), hidden=24, bits=16, side=8)
    randomise(net, seed)
    return net.eval(), FrontEnd.identity().grey().resize(8, 8)


def small_c_pdna(seed: int = 0) -> tuple[nn.Module, FrontEnd]:
    net = CPdnaNet(widths=(4, 6, 6), hidden=16, entries=12, side=16)
    randomise(net, seed)
    front_end = FrontEnd.identity().resize(16, 16).normalise(IMAGENET_MEAN, IMAGENET_STD)
    return nn.Sequential(net, Thermometer()).eval(), front_end


NETS = {"c-pdq": small_c_pdq, "c-pdna": small_c_pdna}


def outputs(network: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """What the program's last node is, by the network itself in float64."""
    network = network.double()
    with torch.no_grad():
        found: torch.Tensor = network(x) + 0.5 if isinstance(network, CPdqNet) else network[0](x)  # type: ignore[index]
        return found


def directions(region: Region, count: int, seed: int) -> torch.Tensor:
    """Random steps of radius 1 in the region: dense ones, sparse ones, and corners."""
    generator = torch.Generator().manual_seed(seed)
    shape = region.centre.shape
    if region.norm == "linf":
        signs = torch.randint(0, 2, (count, *shape), generator=generator).double() * 2 - 1
        return signs * region.reach
    if region.factors is None:
        steps = torch.randn(count, *shape, generator=generator, dtype=torch.float64)
        steps *= torch.rand(count, *shape, generator=generator) < torch.rand(count, 1, 1, 1, generator=generator)
        lengths: torch.Tensor = torch.linalg.vector_norm(steps, dim=(1, 2, 3), keepdim=True)
        return steps / lengths.clamp_min(1e-9)
    tall, wide, colour = region.factors
    core = torch.randn(count, colour.shape[1], tall.shape[1], wide.shape[1], generator=generator, dtype=torch.float64)
    core /= torch.linalg.vector_norm(core, dim=(1, 2, 3), keepdim=True)
    return spread_out(region, core)


def spread_out(region: Region, core: torch.Tensor) -> torch.Tensor:
    assert region.factors is not None
    tall, wide, colour = region.factors
    return tall @ torch.einsum("ck,rkhw->rchw", colour, core) @ wide.T


def worst_step(region: Region, gradient: torch.Tensor) -> torch.Tensor:
    """The step of radius 1 that gains most along a gradient on the input."""
    if region.norm == "linf":
        return gradient.sign() * region.reach
    if region.factors is not None:
        tall, wide, colour = region.factors
        gradient = tall.T @ torch.einsum("ck,rchw->rkhw", colour, gradient) @ wide
    step = gradient / torch.linalg.vector_norm(gradient, dim=(1, 2, 3), keepdim=True).clamp_min(1e-300)
    return step if region.factors is None else spread_out(region, step)


def climb(network: nn.Module, region: Region, goal: torch.Tensor, steps: int = 12) -> torch.Tensor:
    """Inputs inside the region, one per row of ``goal``, that make ``goal * outputs`` large (Frank-Wolfe)."""
    network = network.double()
    x = region.centre.expand(len(goal), *region.centre.shape).clone()
    for i in range(steps):
        x = x.detach().requires_grad_()
        found = network(x) if isinstance(network, CPdqNet) else network[0](x)  # type: ignore[index]
        (gradient,) = torch.autograd.grad((goal * found).sum(), x)
        target = region.centre + region.radius * worst_step(region, gradient)
        rate = 1.0 if i == 0 else 2 / (i + 2)
        x = x + rate * (target - x)
    return x.detach()
