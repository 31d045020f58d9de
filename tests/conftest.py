"""Fixtures shared by all tests: sample photos and hashes small enough to reason about."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from dualshield.hashes import registry
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images import CanonicalImage, FrontEnd, load_image
from dualshield.images.samples import sample_photos
from tests.helpers.linear import Linear


@pytest.fixture(scope="session", autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the tests and the user's folders and settings apart.

    Commands that name no hash are tested with the light one.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in ("DUALSHIELD_CACHE", "DUALSHIELD_WEIGHTS", "DUALSHIELD_PROFILES"):
            patch.setenv(name, str(tmp_path_factory.mktemp(name.lower())))
        patch.setenv("DUALSHIELD_HASH", "pdq")
        settings = tmp_path_factory.mktemp("settings") / "dualshield.toml"
        settings.touch()
        patch.setenv("DUALSHIELD_CONFIG", str(settings))
        yield


@pytest.fixture(autouse=True)
def own_log_level() -> Iterator[None]:
    """Undo what --quiet and --verbose of a command inside a test set for the whole process."""
    logger = logging.getLogger("dualshield")
    before = logger.level
    yield
    logger.setLevel(before)


@pytest.fixture(scope="session")
def photo_files() -> list[Path]:
    return sample_photos()


@pytest.fixture(scope="session")
def photos(photo_files: list[Path]) -> list[CanonicalImage]:
    return [replace(load_image(file), name=file.stem) for file in photo_files]


@pytest.fixture(scope="session")
def toy_hash() -> PerceptualHash:
    """64 bits: random projections of an 8 x 8 grey thumbnail, against its mean."""
    weight = torch.randn(64, 64, generator=torch.Generator().manual_seed(7))
    weight = weight - weight.mean(1, keepdim=True)
    return PerceptualHash(
        name="toy", version="1", bits=64, front_end=FrontEnd.identity().grey().resize(8, 8), network=Linear(weight)
    )


@pytest.fixture(scope="session")
def network_hash() -> PerceptualHash:
    """48 bits of a colour thumbnail behind a layer that saturates, with too many weights to count as light."""
    with torch.random.fork_rng():
        torch.manual_seed(11)
        layers = [torch.nn.Flatten(), torch.nn.Linear(768, 96), torch.nn.Tanh(), torch.nn.Linear(96, 48, bias=False)]
    front_end = FrontEnd.identity().resize(16, 16).normalise((0.5,) * 3, (0.5,) * 3)
    hash_ = PerceptualHash("network", "1", 48, front_end, torch.nn.Sequential(*layers))
    assert not hash_.has_small_network
    return hash_


@pytest.fixture
def network_name(network_hash: PerceptualHash, monkeypatch: pytest.MonkeyPatch) -> str:
    """A name for it that ``get_hash`` knows."""
    monkeypatch.setitem(sys.modules, "a_network", SimpleNamespace(load=lambda: network_hash))
    monkeypatch.setitem(registry.BUILT_IN, "network", "a_network")
    return "network"
