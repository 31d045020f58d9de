"""Gradients by OpenVINO: those of torch, for every kind of layer, and only for whoever asks."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from dualshield._common.folders import cache_folder
from dualshield.engines import gradients as module
from dualshield.engines import openvino_gradients as openvino_gradient
from dualshield.engines.gradients import LARGE, accelerated
from dualshield.engines.openvino_gradients import OpenVinoGradient, _InstanceNorm
from dualshield.errors import InputError
from dualshield.hashes import get_hash
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images import FrontEnd

SIDE, BITS = 33, 24
LAYERS: dict[str, list[nn.Module]] = {
    "plain": [nn.Conv2d(3, 24, 3), nn.ReLU(), nn.Conv2d(24, 8, 1)],
    "padded": [nn.Conv2d(3, 24, (5, 3), padding=(1, 2)), nn.Hardswish(), nn.Conv2d(24, 8, 3, padding=1, bias=False)],
    "strided": [nn.Conv2d(3, 24, 3, 2), nn.ReLU6(), nn.Conv2d(24, 8, 5, 2, padding=2)],
    "strides that leave pixels over": [nn.Conv2d(3, 24, 4, 3), nn.SiLU(), nn.Conv2d(24, 8, 2, 4)],
    "grouped": [nn.Conv2d(3, 24, 1), nn.Conv2d(24, 24, 3, groups=24), nn.Conv2d(24, 8, 3, 2, groups=4)],
    "dilated": [nn.Conv2d(3, 24, 3, dilation=2), nn.GELU(), nn.Conv2d(24, 8, 3, dilation=3)],
    "instance norm": [nn.Conv2d(3, 24, 1), nn.InstanceNorm2d(24, affine=True), nn.ReLU(), nn.Conv2d(24, 8, 1),
                      nn.InstanceNorm2d(8), nn.Hardswish(), nn.Conv2d(8, 8, 3, 2, groups=8)],
    "averages": [nn.Conv2d(3, 24, 4), nn.AvgPool2d((3, 5)), nn.ReLU(), nn.Conv2d(24, 8, 3)],
    "batch norm": [nn.Conv2d(3, 24, 3), nn.BatchNorm2d(24), nn.Hardsigmoid(), nn.Conv2d(24, 8, 3)],
}  # fmt: skip


class Hinge(torch.autograd.Function):
    """A step that has no gradient by any table: its author wrote one that torch cannot write down as operations."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(gradient.numpy() * 2)


class Strange(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = Hinge.apply(x)  # type: ignore[no-untyped-call]
        return found


def hash_of(layers: list[nn.Module], seed: int = 1) -> PerceptualHash:
    """Synthetic, with random weights."""
    torch.manual_seed(seed)
    layers = copy.deepcopy(layers)
    network = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 400), nn.Linear(400, BITS))
    for tensor in (*network.parameters(), *network.buffers()):
        if tensor.is_floating_point():
            nn.init.uniform_(tensor, 0.05, 0.3) if tensor.dim() == 1 else nn.init.normal_(tensor, std=0.2)
    return PerceptualHash("synthetic", "1", BITS, FrontEnd.identity().resize(SIDE, SIDE), network)


def gradient(network: nn.Module, features: torch.Tensor, cotangents: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    variable = features.clone().requires_grad_()
    margins = network(variable)
    return margins.detach(), torch.autograd.grad(margins, variable, cotangents)[0]


def check(hash_: PerceptualHash, count: int) -> None:
    fast = accelerated(hash_)
    assert fast.network is not hash_.network
    generator = torch.Generator().manual_seed(count)
    features = torch.randn(count, *hash_.front_end.shape, generator=generator)
    cotangents = torch.randn(count, hash_.bits, generator=generator)
    for found, expected in zip(
        gradient(fast.network, features, cotangents), gradient(hash_.network, features, cotangents), strict=True
    ):
        assert found.shape == expected.shape
        error = (found - expected).flatten(1).norm(dim=1) / expected.flatten(1).norm(dim=1)
        assert error.max() < 1e-2  # of each draw: none may get another's; kinks leave a little


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_are_those_of_torch(name: str) -> None:
    check(hash_of(LAYERS[name]), 3)


@pytest.mark.parametrize("count", [1, 2, 5, 7, 8])
def test_any_number_of_draws(count: int) -> None:
    check(hash_of(LAYERS["strided"]), count)


@pytest.mark.parametrize("name", ["neuralhash", "efflite"])
def test_real_networks(name: str) -> None:
    check(get_hash(name), LARGE)


def test_the_explicit_instance_norm_is_the_norm() -> None:
    norm = nn.InstanceNorm2d(5, eps=1e-3, affine=True)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    features, cotangents = torch.randn(2, 2, 5, 9, 7, generator=torch.Generator().manual_seed(4))
    for found, expected in zip(
        gradient(_InstanceNorm(norm), features, cotangents), gradient(norm, features, cotangents), strict=True
    ):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_draws_that_ask_for_nothing_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    hash_ = hash_of(LAYERS["plain"])
    fast, computed = accelerated(hash_), []
    check(hash_, 1)  # compiles what is needed
    inner = OpenVinoGradient.__call__

    def counted(self: OpenVinoGradient, features: torch.Tensor, cotangents: torch.Tensor) -> torch.Tensor:
        computed.append(len(features))
        return inner(self, features, cotangents)

    monkeypatch.setattr(OpenVinoGradient, "__call__", counted)
    features = torch.randn(6, *hash_.front_end.shape, generator=torch.Generator().manual_seed(6))
    cotangents = torch.zeros(6, BITS)
    assert not gradient(fast.network, features, cotangents)[1].any()
    assert not computed
    cotangents[[1, 4]] = 1.0
    found = gradient(fast.network, features, cotangents)[1]
    assert sum(computed) == 2
    assert found.flatten(1).any(dim=1).tolist() == [False, True, False, False, True, False]
    torch.testing.assert_close(found, gradient(hash_.network, features, cotangents)[1], rtol=1e-3, atol=1e-5)


def test_what_cannot_be_compiled_stays_with_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    strange = hash_of([Strange(), *LAYERS["plain"]])
    with pytest.raises(InputError, match="gradient"):
        OpenVinoGradient(strange, LARGE)
    # It is not tried again, by any process.
    monkeypatch.setattr(openvino_gradient, "_convert", lambda *_: pytest.fail("converted again"))
    assert accelerated(strange) is strange
    light = get_hash("pdq")
    assert accelerated(light) is light


def test_single_draws_take_the_large_batch_where_their_own_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    hash_ = hash_of(LAYERS["plain"], seed=5)
    accelerated(hash_)

    def failing(*_: object) -> None:
        raise InputError("no model for this size")

    monkeypatch.setattr(openvino_gradient, "_convert", failing)
    check(hash_, 1)


def test_a_network_is_compiled_once_for_all_thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    hash_ = hash_of(LAYERS["plain"], seed=2)
    first = accelerated(hash_)
    monkeypatch.setattr(module, "_compile", lambda hash_: pytest.fail("compiled again"))
    stricter = accelerated(hash_.with_threshold(0.1))
    assert stricter.network is first.network
    assert (stricter.threshold, first.threshold) == (0.1, hash_.threshold)


def test_a_damaged_or_foreign_cache_cannot_hurt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hash_ = hash_of(LAYERS["padded"], seed=3)
    features, cotangents = torch.ones(2, *hash_.front_end.shape), torch.ones(2, BITS)
    monkeypatch.setenv("DUALSHIELD_CACHE", str(tmp_path))
    expected = OpenVinoGradient(hash_, 2)(features, cotangents)
    (file,) = (cache_folder() / "engines").glob("*.xml")
    OpenVinoGradient(hash_of(LAYERS["padded"], seed=4), 2)
    (foreign,) = (path for path in (cache_folder() / "engines").glob("*.xml") if path != file)
    for suffix in (".xml", ".bin"):
        file.with_suffix(suffix).write_bytes(foreign.with_suffix(suffix).read_bytes())
    torch.testing.assert_close(OpenVinoGradient(hash_, 2)(features, cotangents), expected)
    file.write_text("no model")
    torch.testing.assert_close(OpenVinoGradient(hash_, 2)(features, cotangents), expected)
