"""Engines run a hash forward, fast, from the core of its front end on or from its features (`accelerated` has
gradients).

An engine turns a stream of batches into a stream of margins. It asks for the next batch while the last
one is being computed, so noise generation overlaps with inference and memory does not grow with the stream.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, Protocol, get_args

import torch

from dualshield.checks import require
from dualshield.errors import DualShieldError, InputError
from dualshield.hashes.contract import PerceptualHash
from dualshield.images.frontend import CANONICAL_SIZE

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
    check_engine(name, batch_size)
    check_device(device)
    from dualshield.smoothing.openvino_engine import OpenVinoEngine

    on_cpu = torch.device(device).type == "cpu"
    if name == "openvino":
        if not on_cpu:
            raise InputError(f"engine openvino runs on the CPU, not on {device}; use engine torch")
        if hash_.is_black_box:
            # Tracing it would freeze the answer of one call into the converted model.
            raise InputError(f"hash {hash_.name} is a black box, which OpenVINO cannot run; use engine torch")
        return OpenVinoEngine(hash_, batch_size or hash_.preferred_batch, reads=reads)
    if name == "torch" or not on_cpu or hash_.is_light or hash_.is_black_box:
        return TorchEngine(hash_, device, batch_size or hash_.preferred_batch, reads=reads)
    try:
        return OpenVinoEngine(hash_, batch_size or hash_.preferred_batch, reads=reads)
    except Exception as error:  # any failure of the fast path has a correct slow answer
        logger.warning("OpenVINO cannot run %s (%s); using torch, several times slower", hash_.name, error)
        return TorchEngine(hash_, device, batch_size or hash_.preferred_batch, reads=reads)


def check_engine(name: str, batch_size: int | None) -> None:
    """Refuse what there is not, before anything is loaded."""
    require("engine", name, str)
    require("batch size", batch_size, int, or_none=True)
    if name not in get_args(EngineName):
        raise InputError(f"unknown engine {name!r}: use one of {', '.join(get_args(EngineName))}")
    if batch_size is not None and batch_size < 1:
        raise InputError(f"batch size {batch_size} is below 1")


def check_device(device: str) -> None:
    """Refuse what torch cannot compute on, before anything is loaded."""
    require("device", device, str)
    try:
        kind = torch.device(device).type
    except RuntimeError as error:
        raise InputError(f"unknown device {device!r}: use cpu or cuda") from error
    if kind == "cuda" and not torch.cuda.is_available():
        raise InputError(f"device {device}: this machine or this build of torch has no CUDA; use device cpu")
    if kind not in ("cpu", "cuda"):
        raise InputError(f"device {device!r} is not supported: use cpu or cuda")


class EnginePool:
    """Engines of this process, each made once.

    A forked process has none of its parent's threads: the engines it inherits would wait for them for ever. There
    torch is told to use one thread, and engines are made anew, without OpenVINO.
    """

    def __init__(self) -> None:
        self._process = os.getpid()
        self._engines: dict[object, Engine] = {}
        self._forked = False
        self._inherited: list[object] = []  # kept, because to destroy them would wait for their threads

    def process(self) -> int:
        """Where we are; in a process that was forked since, everything starts anew."""
        if self._process != os.getpid():
            self._process, self._forked = os.getpid(), True
            self._inherited.append(self._engines)
            self._engines = {}
            torch.set_num_threads(1)
        return self._process

    def get(self, key: object, name: str, start: Callable[[str], Engine]) -> Engine:
        """The engine under that key, which ``start`` makes where it is not running yet."""
        self.process()
        if self._forked and name == "openvino":
            raise InputError("OpenVINO cannot be used in a forked process: spawn it instead, or use engine torch")
        if key not in self._engines:
            self._engines[key] = start("torch" if self._forked else name)
        return self._engines[key]


PROBES = 8


def require_function(engine: Engine, hash_: PerceptualHash, *, clipped: bool = False) -> None:
    """Refuse a network whose margins of an input change from call to call, or with what else is in the batch.

    Votes are i.i.d. only where a hash is one fixed function of the image. Some inputs are computed twice, in other
    company, and alone. ``clipped``: noisy images stay within [0, 1], so these are what is tried. Black boxes are asked
    one image at a time, and twice when they are loaded.
    """
    if hash_.is_black_box:
        return
    probes = _probes(hash_, engine.reads, clipped)
    size = min(PROBES, engine.batch_size)

    def margins(start: int, end: int) -> torch.Tensor:
        try:
            found = torch.cat(list(engine.run([probes[start:end]]))).cpu()
        except DualShieldError:
            raise
        except Exception as error:  # a foreign network raises whatever it likes
            why = f"{type(error).__name__}: {error}"
            raise InputError(f"hash {hash_.name}: its network cannot be run ({why})") from error
        if not found.is_floating_point():
            raise InputError(f"hash {hash_.name}: its network gives {found.dtype} instead of margins")
        return found

    first = margins(0, size)
    if not bool(torch.isfinite(first).all()):
        raise InputError(f"hash {hash_.name}: its network gives numbers that are not finite; it cannot be certified")
    # What rounding may do: little beside each bit's own margins, and next to nothing beside the largest of all.
    tolerance = 1e-3 * first.abs().max(0).values + 1e-8 * first.abs().max()
    for what, expected, (start, end) in (
        ("call to call", first, (0, size)),
        ("batch to batch", first[size - 1 :], (size - 1, 2 * size - 1)),
        ("batch to batch", first[:1], (0, 1)),
    ):
        found = margins(start, end)[: len(expected)]
        if not bool(((expected - found).abs() <= tolerance).all()):
            raise InputError(
                f"hash {hash_.name}: its network answers the same input differently from {what}, so its votes would "
                "not be independent and no certificate would hold; take out what is random or depends on the batch"
            )


def _probes(hash_: PerceptualHash, reads: Reads, clipped: bool) -> torch.Tensor:
    """Some inputs of an engine, like those it will see: noisy cores, or what valid images give."""
    generator, front_end = torch.Generator().manual_seed(0), hash_.front_end
    if not clipped:
        cores = 0.5 + 0.25 * torch.randn(2 * PROBES - 1, *front_end.core_shape, generator=generator)
        return cores if reads == "core" else front_end.expansion()(cores)
    coarse = torch.rand(2 * PROBES - 1, 3, 16, 16, generator=generator)
    pixels = torch.nn.functional.interpolate(coarse, size=(CANONICAL_SIZE, CANONICAL_SIZE))
    see = front_end.core if reads == "core" else front_end
    return torch.stack([see(image) for image in pixels])
