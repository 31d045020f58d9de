"""A hash computed by engines with its gradients, for attacks and hardening on the CPU.

Margins come from the forward engine, and cost a third of what torch takes; gradients from a compiled backward pass
(`openvino_gradient`), and only for those draws that are asked for one: hinges that are met ask for nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from dualshield.engines.choose import make_engine
from dualshield.engines.engine import Engine
from dualshield.engines.openvino_gradients import OpenVinoGradient
from dualshield.errors import DualShieldError
from dualshield.hashes.perceptual_hash import PerceptualHash

logger = logging.getLogger(__name__)

# Compiled for batches of these sizes: large ones are the cheapest, even if one of four is empty.
LARGE, SINGLE = 4, 1
# Networks that are kept compiled.
KEPT = 4


def accelerated(hash_: PerceptualHash) -> PerceptualHash:
    """The same hash; unchanged where torch is as fast, or all there is."""
    network = _compiled(hash_)
    return hash_ if network is None else replace(hash_, network=network)


_kept: list[tuple[torch.nn.Module, tuple[int, ...], _Network | None]] = []


def _compiled(hash_: PerceptualHash) -> _Network | None:
    """Once for all hashes that differ in their threshold or low-pass only."""
    for network, shape, known in _kept:
        if network is hash_.network and shape == hash_.front_end.shape:
            return known
    found = _compile(hash_)
    _kept.append((hash_.network, hash_.front_end.shape, found))
    del _kept[:-KEPT]
    return found


def _compile(hash_: PerceptualHash) -> _Network | None:
    if hash_.has_small_network or hash_.is_black_box or hash_.device.type != "cpu":
        return None
    try:
        network = _Network(hash_)
        network.engine(LARGE)
        network.gradient(LARGE)
    except DualShieldError as error:
        logger.info("gradients by torch: %s", error)
        return None
    return network


class _Network(torch.nn.Module):
    def __init__(self, hash_: PerceptualHash) -> None:
        super().__init__()
        self.network = hash_.network
        self._hash = hash_
        self._engines: dict[int, Engine] = {}
        self._gradients: dict[int, OpenVinoGradient] = {}

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        margins: torch.Tensor = _Margins.apply(features, self)  # type: ignore[no-untyped-call]
        return margins

    def engine(self, size: int) -> Engine:
        """The forward pass for batches of this size."""
        if size not in self._engines:
            self._engines[size] = make_engine(self._hash, "openvino", batch_size=size, reads="features")
        return self._engines[size]

    def gradient(self, size: int) -> OpenVinoGradient:
        """The backward pass for batches of this size."""
        if size not in self._gradients:
            try:
                self._gradients[size] = OpenVinoGradient(self._hash, size)
            except DualShieldError:
                if size == LARGE:
                    raise
                self._gradients[size] = self.gradient(LARGE)  # mostly empty, but in the middle of an attack
        return self._gradients[size]


class _Margins(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, features: torch.Tensor, network: _Network) -> torch.Tensor:
        ctx.network = network
        ctx.save_for_backward(features)
        found = [
            margins
            for part, size in _batches(features.detach())
            for margins in network.engine(size).run(torch.split(part, size))
        ]
        return torch.cat(found)

    @staticmethod
    def backward(ctx: Any, cotangents: torch.Tensor) -> tuple[torch.Tensor, None]:
        (features,) = ctx.saved_tensors
        found = torch.zeros_like(features)
        asked = cotangents.any(dim=1)
        if asked.any():
            wanted = cotangents[asked]
            first, rows = 0, []
            for part, size in _batches(features[asked]):
                for batch in torch.split(part, size):
                    rows.append(ctx.network.gradient(size)(batch, wanted[first : first + len(batch)]))
                    first += len(batch)
            found[asked] = torch.cat(rows)
        return found, None


def _batches(rows: torch.Tensor) -> Iterator[tuple[torch.Tensor, int]]:
    """Rows for large batches, then the rest one by one, unless another large batch is cheaper."""
    rest = len(rows) % LARGE
    large = len(rows) if rest == LARGE - 1 else len(rows) - rest
    if large:
        yield rows[:large], LARGE
    if large < len(rows):
        yield rows[large:], SINGLE
