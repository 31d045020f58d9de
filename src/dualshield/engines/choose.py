"""Choice of an engine for a hash, and checks of engine and device names."""

from __future__ import annotations

import logging
from typing import Literal, get_args

import torch

from dualshield._common.checks import require
from dualshield.engines.engine import Engine, Reads, TorchEngine
from dualshield.engines.openvino import OpenVinoEngine
from dualshield.errors import InputError
from dualshield.hashes.perceptual_hash import PerceptualHash

logger = logging.getLogger(__name__)

EngineName = Literal["auto", "openvino", "torch"]


def make_engine(
    hash_: PerceptualHash,
    name: str = "auto",
    device: str = "cpu",
    batch_size: int | None = None,
    *,
    reads: Reads = "core",
) -> Engine:
    """Return an engine; ``auto`` picks OpenVINO for networks with weights on the CPU, else torch."""
    check_engine(name, batch_size)
    check_device(device)
    on_cpu = torch.device(device).type == "cpu"
    if name == "openvino":
        if not on_cpu:
            raise InputError(f"engine openvino runs on the CPU, not on {device}; use engine torch")
        if hash_.is_black_box:
            # Tracing would freeze the result of one call into the converted model.
            raise InputError(f"hash {hash_.name} is a black box, which OpenVINO cannot run; use engine torch")
        return OpenVinoEngine(hash_, batch_size or hash_.preferred_batch, reads=reads)
    if name == "torch" or not on_cpu or hash_.has_small_network or hash_.is_black_box:
        return TorchEngine(hash_, device, batch_size or hash_.preferred_batch, reads=reads)
    try:
        return OpenVinoEngine(hash_, batch_size or hash_.preferred_batch, reads=reads)
    except Exception as error:  # torch is slower, but always correct
        logger.warning("OpenVINO cannot run %s (%s); using torch, several times slower", hash_.name, error)
        return TorchEngine(hash_, device, batch_size or hash_.preferred_batch, reads=reads)


def check_engine(name: str, batch_size: int | None) -> None:
    """Raise InputError for an unknown engine or an invalid batch size; loads nothing."""
    require("engine", name, str)
    require("batch size", batch_size, int, or_none=True)
    if name not in get_args(EngineName):
        raise InputError(f"unknown engine {name!r}: use one of {', '.join(get_args(EngineName))}")
    if batch_size is not None and batch_size < 1:
        raise InputError(f"batch size {batch_size} is below 1; give at least 1")


def check_device(device: str) -> None:
    """Raise InputError for a device that torch cannot use here; loads nothing."""
    require("device", device, str)
    try:
        kind = torch.device(device).type
    except RuntimeError as error:
        raise InputError(f"unknown device {device!r}: use cpu or cuda") from error
    if kind == "cuda" and not torch.cuda.is_available():
        raise InputError(f"device {device}: this machine or this build of torch has no CUDA; use device cpu")
    if kind not in ("cpu", "cuda"):
        raise InputError(f"device {device!r} is not supported: use cpu or cuda")
