"""Hashes with margins and gradients computed by OpenVINO, for attacks and hardening on the CPU.

Margins come from the forward engine, in a third of torch's time. Gradients come from a compiled backward pass
(`openvino_gradients`), and only for draws with a non-zero cotangent: a satisfied hinge loss needs no gradient.
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

# Batch sizes to compile for: a batch of four is the cheapest per draw, even with one empty place.
LARGE, SINGLE = 4, 1
# Number of compiled networks that are kept.
KEPT = 4


def accelerated(hash_: PerceptualHash) -> PerceptualHash:
    """Return the hash with a compiled network, or unchanged if torch is as fast or OpenVINO cannot run it."""
    network = _compiled(hash_)
    return hash_ if network is None else replace(hash_, network=network)


_kept: list[tuple[torch.nn.Module, tuple[int, ...], _Network | None]] = []


def _compiled(hash_: PerceptualHash) -> _Network | None:
    """Return the compiled network (cached); hashes that differ only in threshold or low-pass share it."""
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
        logger.info("using torch for gradients: %s", error)
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
        """Return the forward engine for batches of this size."""
        if size not in self._engines:
            self._engines[size] = make_engine(self._hash, "openvino", batch_size=size, reads="features")
        return self._engines[size]

    def gradient(self, size: int) -> OpenVinoGradient:
        """Return the compiled backward pass for batches of this size."""
        if size not in self._gradients:
            try:
                self._gradients[size] = OpenVinoGradient(self._hash, size)
            except DualShieldError:
                if size == LARGE:
                    raise
                self._gradients[size] = self.gradient(LARGE)  # wasteful, but better than failing mid-attack
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
    """Yield rows for large batches, then the rest one by one, unless another large batch is cheaper."""
    rest = len(rows) % LARGE
    large = len(rows) if rest == LARGE - 1 else len(rows) - rest
    if large:
        yield rows[:large], LARGE
    if large < len(rows):
        yield rows[large:], SINGLE
