"""One number for the parameters of a network that came without a file."""

from __future__ import annotations

import hashlib
import sys

import torch

# Buffers are compared to this many parts of their largest value, with cells whose edges are at no round number.
CELLS, CELL_EDGE = 1e6, 0.3819660113


def digest_of_parameters(network: torch.nn.Module) -> str | None:
    """The sha256 of names, types, shapes and values of all parameters and buffers; None where there are none.

    Buffers may be computed, and then differ in the last bit from one machine to another; so they count roughly.
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
    """The values in order, each in little endian; numpy does not know all types of torch."""
    plain = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    raw = plain.contiguous().view(-1).view(torch.uint8)
    if sys.byteorder == "big":
        raw = raw.view(-1, plain.element_size()).flip(1).reshape(-1)
    return raw.numpy().data
