"""A hash whose margins come from a forward engine, and from torch only where somebody asks for their gradient.

An objective of hinges asks most draws for nothing: they are met. Computing them by an engine costs a third of torch's
forward pass alone; those few that are not met are then computed again, by torch, with their gradient.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from dualshield.hashes.contract import PerceptualHash
from dualshield.smoothing.engines import Engine, make_engine


def forward_first(hash_: PerceptualHash, device: str = "cpu") -> PerceptualHash:
    """The same hash, for objectives that are often met; unchanged where no engine is faster than torch."""
    engine = make_engine(hash_, device=device, reads="features")
    return replace(hash_, network=_Network(hash_.network, engine)) if engine.name == "openvino" else hash_


class _Network(torch.nn.Module):
    def __init__(self, network: torch.nn.Module, engine: Engine) -> None:
        super().__init__()
        self.network = network
        self.engine = engine

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        margins: torch.Tensor = _Margins.apply(features, self.network, self.engine)  # type: ignore[no-untyped-call]
        return margins


class _Margins(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, features: torch.Tensor, network: torch.nn.Module, engine: Engine) -> torch.Tensor:
        ctx.network = network
        ctx.save_for_backward(features)
        return torch.cat(list(engine.run(torch.split(features.detach(), engine.batch_size))))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (features,) = ctx.saved_tensors
        found = torch.zeros_like(features)
        asked = gradient.any(dim=1)
        if asked.any():
            chosen = features[asked].detach().requires_grad_()
            with torch.enable_grad():
                margins = ctx.network(chosen)
            (found[asked],) = torch.autograd.grad(margins, chosen, gradient[asked])
        return found, None, None
