"""Folders of photos, a protocol small enough to run, and the extra metrics with and without their networks."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dualshield.attacks.eot import Eot
from dualshield.attacks.methods import METHODS
from dualshield.attacks.nes import Nes
from dualshield.attacks.pgd import Pgd
from dualshield.evaluation.metrics import fid, lpips
from dualshield.evaluation.parts import transformed
from dualshield.evaluation.plan.protocol import PROTOCOLS, Protocol
from dualshield.transforms import parse
from tests.helpers import redteam_run


@pytest.fixture(scope="session")
def small() -> Protocol:
    return replace(
        PROTOCOLS["default"],
        transform_images=1,
        collision_pairs=2,
        budgets=(40.0, 90.0),
        cost_budgets=(2.0, 20.0),
        gallery=1,
    )


@pytest.fixture
def data(tmp_path: Path, photo_files: list[Path]) -> Path:
    """Three unrelated photos."""
    return copied(photo_files[:3], tmp_path / "photos")


def copied(files: list[Path], folder: Path) -> Path:
    folder.mkdir()
    for file in files:
        shutil.copy(file, folder)
    return folder


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    """Attacks of a few steps, few transformations; for this folder only, so not for the whole session."""
    with pytest.MonkeyPatch.context() as patch:
        for name, attack in (("pgd", Pgd(steps=6, restarts=1)), ("eot-pgd", Eot(steps=6)), ("nes", Nes(steps=1))):
            patch.setitem(METHODS, name, attack)
        patch.setattr(transformed, "ALL_TRANSFORMS", tuple(map(parse, ("jpeg-95", "noise-0.01", "flip-1"))))
        yield


class Distance:
    """In place of LPIPS."""

    def distance(self, image: torch.Tensor, other: torch.Tensor) -> float:
        return float((image - other).abs().mean())


class Features:
    """In place of Inception."""

    def features(self, pixels: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.adaptive_avg_pool2d(pixels, 2).flatten(1)


@pytest.fixture
def extras(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lpips, "load", Distance)
    monkeypatch.setattr(fid, "load", Features)
    monkeypatch.setattr(fid, "distance", lambda a, b: float((a - b).abs().sum()))


@pytest.fixture
def no_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lpips, "load", lambda: None)
    monkeypatch.setattr(fid, "load", lambda: None)


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float]]:
    """Attacks of known cost, and a list of those that are tried."""
    return redteam_run.known_costs(monkeypatch, redteam_run.COSTS)


@pytest.fixture
def pictures(tmp_path: Path) -> list[Path]:
    """The images that these costs are of."""
    return redteam_run.noise_images(tmp_path / "photos", *redteam_run.COSTS)
