"""A hash with weights, as small as one can be: what the store and its commands are tested with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch import nn

from dualshield.hashes import registry
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images import FrontEnd
from dualshield.weights import CATALOGUE, WeightFile, find, load_strict, read_state

WEIGHT = WeightFile(
    name="toy-file",
    hash="toy",
    file="toy.pt",
    address="https://example.invalid/toy.pt",
    licence="MIT",
    note="the small one",
    megabytes=1,
)


def toy_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of weights, a catalogue with one file more, and the hash that it is for."""
    monkeypatch.setenv("DUALSHIELD_WEIGHTS", str(folder / "weights"))
    monkeypatch.setitem(CATALOGUE, "toy-file", WEIGHT)
    monkeypatch.setitem(registry.BUILT_IN, "toy", "tests.helpers.toy_weights")
    return folder / "weights"


def synthetic_state(seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {"1.weight": torch.randn(16, 64, generator=generator), "1.bias": torch.zeros(16)}


def build(state: Mapping[str, torch.Tensor], file: str = "checkpoint") -> nn.Module:
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 16))
    load_strict(net, state, "toy", "toy.pt")
    return net


def load() -> PerceptualHash:
    stored = find("toy-file")
    return PerceptualHash(
        name="toy",
        version="1",
        bits=16,
        front_end=FrontEnd.identity().grey().resize(8, 8),
        network=build(read_state(stored.path, "toy")),
        weights={stored.weight.file: stored.sha256},
    )
