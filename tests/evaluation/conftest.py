"""Folders of photos, and a protocol small enough to run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dualshield.attacks import eot, nes, pgd
from dualshield.evaluation.parts import transformed
from dualshield.evaluation.plan.protocol import PROTOCOLS, Protocol
from dualshield.transforms import parse


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
        for module, name, value in ((pgd, "steps", 6), (pgd, "restarts", 1), (eot, "steps", 6), (nes, "steps", 1)):
            patch.setitem(module.attack.__kwdefaults__, name, value)
        patch.setattr(transformed, "ALL_TRANSFORMS", tuple(map(parse, ("jpeg-95", "noise-0.01", "flip-1"))))
        yield
