"""Engines run a hash forward, fast, from the core of its front end on or from its features (`accelerated` has
gradients).

An engine turns a stream of batches into a stream of margins. It asks for the next batch while the last
one is being computed, so noise generation overlaps with inference and memory does not grow with the stream.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Literal, Protocol, get_args

import torch

from dualshield.errors import InputError
from dualshield.hashes.contract import PerceptualHash

logger = logging.getLogger(__name__)

EngineName = Literal["auto", "openvino", "torch"]
Reads = Literal["core", "features"]


class Engine(Protocol):
    """Anything that maps batches ``(b, c, h, w)`` of what it reads, cores or features, to margins ``(b, bits)``."""

    name: str
    batch_size: int
    reads: Reads

    def run(self, batches: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
        """Margins of each batch, in order."""
        ...


class TorchEngine:
    """The network itself, on any torch device."""

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
    """What computes the margins from there."""
    return torch.nn.Sequential(*([hash_.front_end.expansion()] if reads == "core" else []), hash_.network)


def make_engine(
    hash_: PerceptualHash,
    name: str = "auto",
    device: str = "cpu",
    batch_size: int | None = None,
    *,
    reads: Reads = "core",
) -> Engine:
    """The engine asked for; ``auto`` takes OpenVINO for networks with weights on the CPU, else torch."""
    if name not in get_args(EngineName):
        raise InputError(f"unknown engine {name!r}: use one of {', '.join(get_args(EngineName))}")
    if batch_size is not None and batch_size < 1:
        raise InputError(f"batch size {batch_size} is below 1")
    check_device(device)
    from dualshield.smoothing.openvino_engine import OpenVinoEngine

    on_cpu = torch.device(device).type == "cpu"
    if name == "openvino":
        if not on_cpu:
            raise InputError(f"engine openvino runs on the CPU, not on {device}; use --engine torch")
        if hash_.is_black_box:
            # Tracing it would freeze the answer of one call into the converted model.
            raise InputError(f"hash {hash_.name} is a black box, which OpenVINO cannot run; use --engine torch")
        return OpenVinoEngine(hash_, batch_size or hash_.preferred_batch, reads=reads)
    if name == "torch" or not on_cpu or hash_.is_light or hash_.is_black_box:
        return TorchEngine(hash_, device, batch_size or hash_.preferred_batch, reads=reads)
    try:
        return OpenVinoEngine(hash_, batch_size or hash_.preferred_batch, reads=reads)
    except Exception as error:  # any failure of the fast path has a correct slow answer
        logger.warning("OpenVINO cannot run %s (%s); using torch, several times slower", hash_.name, error)
        return TorchEngine(hash_, device, batch_size or hash_.preferred_batch, reads=reads)


def check_device(device: str) -> None:
    """Refuse what torch cannot compute on, before anything is loaded."""
    try:
        kind = torch.device(device).type
    except RuntimeError as error:
        raise InputError(f"unknown device {device!r}: use cpu or cuda") from error
    if kind == "cuda" and not torch.cuda.is_available():
        raise InputError(f"device {device}: this machine or this build of torch has no CUDA; use --device cpu")
    if kind not in ("cpu", "cuda"):
        raise InputError(f"device {device!r} is not supported: use cpu or cuda")
