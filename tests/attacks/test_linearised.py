"""Hashes with more bits than numbers to compute them from: their gradients depend on each other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import dualshield as ds
from dualshield.attacks import eot, linearised
from dualshield.attacks.result import AttackBudget
from dualshield.attacks.victim import Victim
from dualshield.hashes import PerceptualHash
from dualshield.images import CanonicalImage, FrontEnd
from dualshield.smoothing.deploy import deploy


class Differences(torch.nn.Module):
    """Is each pixel brighter than its neighbour to the left, and than the one above?"""

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        across = features[..., 1:] - features[..., :-1]
        down = features[..., 1:, :] - features[..., :-1, :]
        return torch.cat([across.flatten(1), down.flatten(1)], dim=1)


class Broken(Differences):
    """Margins that are fine, with gradients that are not numbers."""

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        nothing = torch.sqrt((features - features.detach()).sum((1, 2, 3)))
        return super().forward(features) + nothing[:, None]


@pytest.fixture(scope="module")
def differences() -> PerceptualHash:
    """144 bits of 81 numbers, as in docs/any-hash.md."""
    return thumbnail_hash(Differences())


def thumbnail_hash(network: torch.nn.Module) -> PerceptualHash:
    return PerceptualHash("differences", "1", 144, FrontEnd.identity().grey().resize(9, 9), network)


def test_every_photo_is_evaded_under_a_hash_with_more_bits_than_numbers(
    differences: PerceptualHash, photos: list[CanonicalImage]
) -> None:
    for photo in photos:
        result = eot.attack(Victim.plain(differences, photo), photo, AttackBudget(20.0), steps=20)
        assert result.success, photo.name
        assert result.l2 <= 20.0


@pytest.mark.parametrize("l2", [0.5, 5.0, 180.0])
def test_no_budget_is_too_small_or_too_large_to_try(
    l2: float, differences: PerceptualHash, photos: list[CanonicalImage]
) -> None:
    for photo in photos:
        victim = Victim.plain(differences, photo)
        delta = linearised.flip(victim, victim.start(photo), l2, rounds=2)
        assert float(delta.double().norm()) <= l2 * 1.001


def test_redteam_goes_through_a_folder_under_such_a_hash(differences: PerceptualHash, photo_files: list[Path]) -> None:
    deployment = deploy(differences, sigma=0.5)
    (rate,) = ds.redteam(deployment, photo_files, methods=["eot-pgd"], budgets=[20.0], variants=["original"])
    assert (rate.images, rate.success) == (len(photo_files), 1.0)


def test_gradients_that_are_not_numbers_leave_the_attack_where_it_ordinarily_starts(photo: CanonicalImage) -> None:
    victim = Victim.plain(thumbnail_hash(Broken()), photo)
    assert not linearised.flip(victim, victim.start(photo), 20.0, rounds=2).any()


@pytest.mark.parametrize("error", [np.linalg.LinAlgError, RuntimeError, ValueError])
def test_a_problem_that_cannot_be_solved_leaves_the_attack_where_it_ordinarily_starts(
    error: type[Exception], differences: PerceptualHash, photo: CanonicalImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linearised, "nnls", failing(error))
    victim = Victim.plain(differences, photo)
    assert not linearised.flip(victim, victim.start(photo), 20.0, rounds=2).any()


def failing(error: type[Exception]) -> Callable[..., None]:
    def nnls(*_: object, **__: object) -> None:
        raise error("no solution")

    return nnls


@pytest.fixture
def photo(photos: list[CanonicalImage]) -> CanonicalImage:
    return photos[1]
