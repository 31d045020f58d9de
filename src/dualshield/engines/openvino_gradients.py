"""Gradients of margins with respect to features, computed by OpenVINO: faster than torch on a CPU.

Torch traces the backward pass with respect to the features, with constant weights; OpenVINO compiles the trace. Some
operations are rewritten for OpenVINO: the gradient of a convolution as a convolution, norms and average pooling as
elementary operations. A network that OpenVINO cannot convert is left to torch.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch import nn

from dualshield.engines.openvino import cache_file, keep, openvino_runtime, options, read_cached
from dualshield.errors import InputError
from dualshield.hashes.perceptual_hash import PerceptualHash

# Relative to the gradient's norm: rounding may carry a value across a kink of the network, where slopes differ.
TOLERANCE = 1e-2


class OpenVinoGradient:
    """Vector-Jacobian products for one batch size, compiled for the CPU and compared with torch on creation."""

    def __init__(self, hash_: PerceptualHash, batch_size: int) -> None:
        ov = openvino_runtime()
        self._shape = (batch_size, *hash_.front_end.shape)
        runtime = ov.Core()
        file = cache_file(hash_, ov.__version__, batch_size, kind="gradient")
        cached = read_cached(runtime, file)
        if cached is not None and self._compile(runtime, cached, hash_):
            return
        failed = file.with_suffix(".failed")
        if failed.exists():  # trying again would take as long as a conversion
            raise InputError(f"hash {hash_.name}: OpenVINO could not convert its gradient (cached as {failed.name})")
        try:
            model = _convert(ov, hash_, self._shape)
            if not self._compile(runtime, model, hash_):
                raise InputError(f"hash {hash_.name}: OpenVINO does not reproduce torch's gradient")
        except InputError:
            with suppress(OSError):
                failed.parent.mkdir(parents=True, exist_ok=True)
                failed.touch()
            raise
        keep(ov, model, file)

    def _compile(self, runtime: Any, model: Any, hash_: PerceptualHash) -> bool:
        """Compile the model; return whether its gradient agrees with torch's."""
        self._request = runtime.compile_model(model, "CPU", options(streams=1)).create_infer_request()
        # Random inputs: a regular pattern meets many kinks at once, where slopes depend on rounding.
        generator = torch.Generator().manual_seed(0)
        features = torch.randn(self._shape, generator=generator)
        cotangents = torch.randn(self._shape[0], hash_.bits, generator=generator)
        expected = _gradient(hash_.network.to("cpu"), features, cotangents)
        try:
            found = self(features, cotangents)
        except RuntimeError:  # a cached model with other inputs
            return False
        return found.shape == expected.shape and bool((found - expected).norm() <= TOLERANCE * expected.norm() + 1e-9)

    def __call__(self, features: torch.Tensor, cotangents: torch.Tensor) -> torch.Tensor:
        """Return ``J^T c`` for each of up to ``batch_size`` features ``(b, c, h, w)`` and cotangents ``(b, bits)``."""
        count, missing = len(features), self._shape[0] - len(features)
        given = [_padded(part, missing) for part in (features, cotangents)]
        (found,) = self._request.infer(given).values()
        return torch.from_numpy(found[:count].copy())


def _padded(rows: torch.Tensor, missing: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    rows = rows.detach()
    if missing:
        rows = torch.cat([rows, rows.new_zeros(missing, *rows.shape[1:])])
    return np.ascontiguousarray(rows.numpy(), dtype=np.float32)


def _gradient(network: nn.Module, features: torch.Tensor, cotangents: torch.Tensor) -> torch.Tensor:
    with torch.enable_grad():
        variable = features.detach().requires_grad_()
        return torch.autograd.grad(network(variable), variable, cotangents)[0]


def _convert(ov: Any, hash_: PerceptualHash, shape: tuple[int, ...]) -> Any:
    from torch._decomp import core_aten_decompositions
    from torch.fx.experimental.proxy_tensor import make_fx

    network = _with_explicit_norms(copy.deepcopy(hash_.network.to("cpu")))
    table = {
        **core_aten_decompositions(),
        torch.ops.aten.convolution_backward.default: _convolution_backward,
        torch.ops.aten.avg_pool2d_backward.default: _average_backward,
    }
    examples = torch.zeros(shape), torch.zeros(shape[0], hash_.bits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tracing warns about shapes, which are constant here
        try:
            graph = make_fx(lambda features, c: _gradient(network, features, c), decomposition_table=table)(*examples)
            with torch.no_grad():
                model = ov.convert_model(graph, example_input=examples)
            model.reshape({given: list(example.shape) for given, example in zip(model.inputs, examples, strict=True)})
        except Exception as error:  # tracing and conversion may raise anything
            reason = (str(error).strip().splitlines() or [type(error).__name__])[-1].strip(" -")[:200]
            raise InputError(f"hash {hash_.name}: OpenVINO cannot convert its gradient ({reason})") from error
    return model


def _convolution_backward(
    gradient: torch.Tensor,
    features: torch.Tensor,
    weight: torch.Tensor,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    mask: Sequence[bool],
) -> tuple[torch.Tensor, None, None]:
    """Return the gradient with respect to the features; with stride 1 a convolution with the mirrored kernel.

    (OpenVINO fuses a transposed convolution with the wrong constants when constants are adjacent to it.)
    """
    if transposed or mask[1] or mask[2]:
        raise InputError("only plain convolutions with constant weights are supported")
    size = weight.shape[2:]
    if all(step == 1 for step in stride):
        outside, inside = weight.shape[0] // groups, weight.shape[1]
        kernel = weight.view(groups, outside, inside, *size).transpose(1, 2).reshape(groups * inside, outside, *size)
        kernel = kernel.flip(tuple(range(2, kernel.dim())))
        padded = [d * (n - 1) - p for d, n, p in zip(dilation, size, padding, strict=True)]
        none = [0] * len(size)
        found = torch.ops.aten.convolution(gradient, kernel, None, stride, padded, dilation, False, none, groups)
    else:
        reached = [
            (g - 1) * s - 2 * p + d * (n - 1) + 1
            for g, s, p, d, n in zip(gradient.shape[2:], stride, padding, dilation, size, strict=True)
        ]
        left = [whole - part for whole, part in zip(features.shape[2:], reached, strict=True)]
        found = torch.ops.aten.convolution(gradient, weight, None, stride, padding, dilation, True, left, groups)
    return found, None, None


def _average_backward(
    gradient: torch.Tensor,
    features: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
) -> torch.Tensor:
    """Return the gradient of average pooling over adjacent squares, without overlap or padding."""
    tall, wide = kernel
    batch, channels, height, width = gradient.shape
    side_by_side = list(stride or kernel) == list(kernel) and not any(padding) and divisor is None
    if not side_by_side or tuple(features.shape[2:]) != (height * tall, width * wide):
        raise InputError("only average pooling without overlap or padding is supported")
    spread = (gradient / (tall * wide))[:, :, :, None, :, None].expand(batch, channels, height, tall, width, wide)
    return spread.reshape(features.shape)


def _with_explicit_norms(module: nn.Module) -> nn.Module:
    """Replace instance norms by 4-D ones (torch's own flattens images and channels), batch norms by affine maps."""
    for name, child in module.named_children():
        if isinstance(child, nn.InstanceNorm2d) and not child.track_running_stats:
            setattr(module, name, _InstanceNorm(child))
        elif isinstance(child, nn.BatchNorm2d) and child.track_running_stats:
            setattr(module, name, _BatchNorm(child))
        else:
            _with_explicit_norms(child)
    return module


def _affine(norm: nn.InstanceNorm2d | nn.BatchNorm2d) -> tuple[torch.Tensor, torch.Tensor]:
    """Return scale and shift of each channel, broadcastable to images of any size."""
    scale = torch.ones(norm.num_features) if norm.weight is None else norm.weight.detach()
    shift = torch.zeros(norm.num_features) if norm.bias is None else norm.bias.detach()
    return scale[:, None, None].clone(), shift[:, None, None].clone()


class _BatchNorm(nn.Module):
    """A batch norm in evaluation mode, as one affine map."""

    def __init__(self, norm: nn.BatchNorm2d) -> None:
        super().__init__()
        assert norm.running_mean is not None
        assert norm.running_var is not None
        scale, shift = _affine(norm)
        self.scale = scale * (norm.running_var + norm.eps).rsqrt()[:, None, None]
        self.shift = shift - self.scale * norm.running_mean[:, None, None]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale + self.shift


class _InstanceNorm(nn.Module):
    def __init__(self, norm: nn.InstanceNorm2d) -> None:
        super().__init__()
        self.scale, self.shift = _affine(norm)
        self.eps = norm.eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = _Normalised.apply(x, self.scale, self.eps)  # type: ignore[no-untyped-call]
        return found + self.shift


class _Normalised(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, scale: torch.Tensor, eps: float) -> torch.Tensor:
        centred = x - x.mean((2, 3), keepdim=True)
        inverse = (centred.square().mean((2, 3), keepdim=True) + eps).rsqrt()
        unit = centred * inverse
        ctx.save_for_backward(unit, inverse * scale)
        return unit * scale

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        unit, factor = ctx.saved_tensors
        along = (gradient * unit).mean((2, 3), keepdim=True)
        return (gradient - gradient.mean((2, 3), keepdim=True) - unit * along) * factor, None, None
