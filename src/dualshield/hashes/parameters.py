"""A digest of the parameters of a network, for hashes without a weight file."""

from __future__ import annotations

import hashlib
import sys

import torch

# Buffers are rounded to this many cells per largest value; the offset keeps cell edges away from round numbers.
CELLS, CELL_EDGE = 1e6, 0.3819660113


def digest_of_parameters(network: torch.nn.Module) -> str | None:
    """Return the sha256 of names, types, shapes and values of all parameters and buffers; None if there are none.

    Buffers are rounded first, because computed ones may differ in the last bit between machines.
    """
    tensors = {**{name: _rough(buffer) for name, buffer in network.named_buffers()}, **dict(network.named_parameters())}
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu()
        digest.update(f"{name!r} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(_bytes(tensor))
    return digest.hexdigest() if tensors else None


def _rough(buffer: torch.Tensor) -> torch.Tensor:
    if not buffer.is_floating_point() or not buffer.numel():
        return buffer
    values = buffer.detach().cpu().double()
    largest = float(values.abs().max())
    return torch.floor(values * (CELLS / largest) + CELL_EDGE) if largest > 0 else values


def _bytes(tensor: torch.Tensor) -> memoryview:
    """Return the values in order as little-endian bytes, without NumPy, which lacks some of torch's types."""
    plain = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    raw = plain.contiguous().view(-1).view(torch.uint8)
    if sys.byteorder == "big":
        raw = raw.view(-1, plain.element_size()).flip(1).reshape(-1)
    return raw.numpy().data
