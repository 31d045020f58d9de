"""The transformer hashes once more, in numpy and with loops: slow, in float64, to compare the real modules with.

Written from the descriptions of the networks; nothing of the package is used but the resampling factors of the front
ends, which are tested against Pillow.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import erf

from dualshield.images import axes

Array = NDArray[np.float64]
Arrays = dict[str, Array]


def arrays(state: dict[str, torch.Tensor]) -> Arrays:
    return {key: value.double().numpy() for key, value in state.items()}


def linear(state: Arrays, name: str, x: Array) -> Array:
    return x @ state[f"{name}.weight"].T + state.get(f"{name}.bias", np.zeros(1))


def norm(state: Arrays, name: str, x: Array) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6)
    result: Array = scaled * state[f"{name}.weight"] + state[f"{name}.bias"]
    return result


def mlp(state: Arrays, first: str, second: str, x: Array) -> Array:
    hidden = linear(state, first, x)
    return linear(state, second, 0.5 * hidden * (1 + erf(hidden / math.sqrt(2))))


def head(q: Array, k: Array, v: Array) -> Array:
    """One head of attention over tokens ``(n, width)``."""
    scores = q @ k.T / math.sqrt(q.shape[1])
    weights = np.exp(scores - scores.max(1, keepdims=True))
    result: Array = weights / weights.sum(1, keepdims=True) @ v
    return result


def resized_positions(positions: Array, grid: int) -> Array:
    """Bicubic with antialias along rows, then columns; the first entry belongs to the class token."""
    side = math.isqrt(len(positions) - 1)
    factor = axes.resize(side, grid, "bicubic")
    image = positions[1:].reshape(side, side, -1)
    resized = np.einsum("ai,bj,ijc->abc", factor, factor, image)
    return np.concatenate([positions[:1], resized.reshape(grid * grid, -1)])


def vit(state: Arrays, image: Array, positions: Array, patch: int) -> Array:
    """The class token of a ViT in DINO's names; registers and LayerScale if the state has them."""
    grid, width = image.shape[1] // patch, positions.shape[1]
    tokens = []
    for row in range(grid):
        for column in range(grid):
            piece = image[:, row * patch : (row + 1) * patch, column * patch : (column + 1) * patch]
            values = [(piece * kernel).sum() for kernel in state["patch_embed.proj.weight"]]
            tokens.append(np.array(values) + state["patch_embed.proj.bias"] + positions[1 + row * grid + column])
    start = [state["cls_token"][0, 0] + positions[0]]
    x = np.array([*start, *state.get("register_tokens", np.zeros((1, 0, width)))[0], *tokens])
    blocks = {int(key.split(".")[1]) for key in state if key.startswith("blocks.")}
    for i in sorted(blocks):
        block, one = f"blocks.{i}", np.ones(width)
        qkv = linear(state, f"{block}.attn.qkv", norm(state, f"{block}.norm1", x))
        q, k, v = qkv[:, :width], qkv[:, width : 2 * width], qkv[:, 2 * width :]
        places = [slice(start, start + 64) for start in range(0, width, 64)]
        mixed = np.concatenate([head(q[:, at], k[:, at], v[:, at]) for at in places], 1)
        x = x + state.get(f"{block}.ls1.gamma", one) * linear(state, f"{block}.attn.proj", mixed)
        added = mlp(state, f"{block}.mlp.fc1", f"{block}.mlp.fc2", norm(state, f"{block}.norm2", x))
        x = x + state.get(f"{block}.ls2.gamma", one) * added
    return np.asarray(norm(state, "norm", x)[0])


def channel_major(qkv: Array, heads: int) -> Array:
    """Attention whose channel c of head h ends up at ``c * heads + h``."""
    width = qkv.shape[1] // 3
    size = width // heads
    merged = np.zeros((len(qkv), width))
    for h in range(heads):
        q, k, v = (qkv[:, part * width + h * size : part * width + (h + 1) * size] for part in range(3))
        mixed = head(q, k, v)
        for c in range(size):
            merged[:, c * heads + h] = mixed[:, c]
    return merged


def whole_image(state: Arrays, name: str, image: Array) -> Array:
    """Averages of 14 x 14, attention with 8 heads between them, spread over the image again."""
    width, height = image.shape[0], image.shape[1] // 14
    averages = image.reshape(width, height, 14, height, 14).mean((2, 4))
    # As the authors have it: a token is the next `width` numbers in memory, whatever channel and place they are from.
    numbers = [averages[c, i, j] for c in range(width) for i in range(height) for j in range(height)]
    tokens = np.array([numbers[start : start + width] for start in range(0, len(numbers), width)])
    tokens = tokens + state[f"{name}.pos_embed_glo"][0]
    mixed = linear(state, f"{name}.proj", channel_major(linear(state, f"{name}.qkv", tokens), 8))
    factor = axes.resize(height, 14 * height, "bilinear")
    return np.asarray(np.einsum("ai,bj,ijc->cab", factor, factor, mixed.reshape(height, height, width)))


def conv(state: Arrays, name: str, image: Array, padding: tuple[int, int] = (0, 0)) -> Array:
    bias = state.get(f"{name}.bias")
    out = torch.nn.functional.conv2d(
        torch.from_numpy(image)[None],
        torch.from_numpy(state[f"{name}.weight"]),
        None if bias is None else torch.from_numpy(bias),
        padding=padding,
    )
    return np.asarray(out[0].numpy())


def half(image: Array) -> Array:
    """Max pooling of 3 x 3 at every other pixel, with a border on all four sides."""
    side = image.shape[1]
    framed = np.pad(image, ((0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    places = range(0, side, 2)
    rows = [[framed[:, i : i + 3, j : j + 3].max((1, 2)) for j in places] for i in places]
    return np.array(rows).transpose(2, 0, 1)


def hybridhash(state: Arrays, image: Array, heads: tuple[int, ...], depths: tuple[int, ...]) -> Array:
    """What HybridHash takes the tanh of."""
    weight = state["patch_embed.proj.weight"]
    pieces = image.reshape(3, 56, 4, 56, 4)
    x = np.einsum("ciajb,wcab->wij", pieces, weight) + state["patch_embed.proj.bias"][:, None, None]
    for level, depth in enumerate(depths):
        name = f"levels.{level}"
        if level:
            far = whole_image(state, f"{name}.pool.global_attention", conv(state, f"{name}.pool.conv_glo", x))
            mixed = conv(state, f"{name}.pool.conv", x, (1, 1)) + far
            x = half(norm(state, f"{name}.pool.norm", mixed.transpose(1, 2, 0)).transpose(2, 0, 1))
        side = x.shape[1] // 14
        out = np.zeros_like(x)
        for block in range(side * side):
            rows = slice(14 * (block // side), 14 * (block // side) + 14)
            columns = slice(14 * (block % side), 14 * (block % side) + 14)
            tokens = x[:, rows, columns].reshape(len(x), 196).T + state[f"{name}.pos_embed"][0, block]
            for i in range(depth):
                tokens = layer(state, f"{name}.transformer_encoder.{i}", tokens, heads[level])
            out[:, rows, columns] = tokens.T.reshape(-1, 14, 14)
        x = out
    x = norm(state, "norm", x.transpose(1, 2, 0)).transpose(2, 0, 1)
    last = "hashlayer_train"
    near = conv(state, f"{last}.convS2", conv(state, f"{last}.convS1", x, (0, 1)), (1, 0))
    pooled = half(near + whole_image(state, f"{last}.global_attention", x))
    return np.asarray(conv(state, f"{last}.conv2", pooled).mean((1, 2)))


def layer(state: Arrays, name: str, x: Array, heads: int) -> Array:
    qkv = linear(state, f"{name}.attn.qkv", norm(state, f"{name}.norm1", x))
    x = x + linear(state, f"{name}.attn.proj", channel_major(qkv, heads))
    added: Any = mlp(state, f"{name}.mlp.fc1", f"{name}.mlp.fc2", norm(state, f"{name}.norm2", x))
    return np.asarray(x + added)
