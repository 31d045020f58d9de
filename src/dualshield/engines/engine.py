"""The Engine protocol, and the engine that runs on any torch device.

An engine turns a stream of batches into a stream of margins. It may fetch the next batch while the last one is being
computed, so noise generation overlaps with inference and memory does not grow with the stream. Attacks and hardening
use the engine in `gradients`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, Protocol

import torch

from dualshield.hashes.perceptual_hash import PerceptualHash

Reads = Literal["core", "features"]


class Engine(Protocol):
    """Maps batches ``(b, c, h, w)`` of cores or features (see ``reads``) to margins ``(b, bits)``."""

    name: str
    batch_size: int
    reads: Reads

    def run(self, batches: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
        """Yield the margins of each batch, in order."""
        ...


class TorchEngine:
    """Runs the network with torch, on any device."""

    def __init__(
        self, hash_: PerceptualHash, device: torch.device | str, batch_size: int, *, reads: Reads = "core"
    ) -> None:
        self.name = "torch" if torch.device(device).type == "cpu" else f"torch-{torch.device(device).type}"
        self._device = device
        self._network = network_after(reads, hash_).to(device)
        self.batch_size = batch_size
        self.reads = reads

    @torch.inference_mode()
    def _forward(self, batch: torch.Tensor) -> torch.Tensor:
        margins: torch.Tensor = self._network(batch.to(self._device))
        return margins

    def run(self, batches: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
        for batch in batches:
            yield self._forward(batch)


def network_after(reads: Reads, hash_: PerceptualHash) -> torch.nn.Sequential:
    """Return the part of the hash after ``reads``: from cores or features to margins."""
    return torch.nn.Sequential(*([hash_.front_end.expansion()] if reads == "core" else []), hash_.network)
