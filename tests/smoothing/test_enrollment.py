"""Enrollment lasts: the same image gives the same reference, for whoever may use it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from dualshield.errors import UnusableReferenceError
from dualshield.hashes import PerceptualHash, get_hash
from dualshield.images import CanonicalImage
from dualshield.smoothing.deploy import deploy
from tests.helpers.matchers import kept
from tests.helpers.profiles import deployed


@pytest.mark.parametrize("mode", ["code", "bank", "paired"])
def test_enrolling_twice_gives_the_same_reference(mode: str, photos: list[CanonicalImage]) -> None:
    # Finding 2: forty enrollments of one photo gave forty references, and radii from 0.41 to 1.54.
    first, second = deploy("pdq", reference_mode=mode), deploy("pdq", reference_mode=mode)  # type: ignore[arg-type]
    one, two = first.enroll(photos[0]), second.enroll(replace(photos[0], name="another name"))
    assert one.fingerprint == two.fingerprint
    assert one.sigma == two.sigma
    assert torch.equal(kept(one).code, kept(two).code)
    assert one.fingerprint != first.enroll(photos[1]).fingerprint


def test_a_reference_does_not_depend_on_how_it_is_computed(photos: list[CanonicalImage]) -> None:
    expected = deploy("pdq", method="votes").enroll(photos[0]).fingerprint
    same: list[dict[str, Any]] = [{"batch_size": 7}, {"n": 50}, {"alpha": 1e-6}, {"target_radius": 0.1}]
    for change in (*same, {"on_abstain": "match"}):
        assert deploy("pdq", **{"method": "votes", **change}).enroll(photos[0]).fingerprint == expected
    others: list[dict[str, Any]] = [{"sigma": 0.5}, {"threshold": 0.1}, {"lowpass": None, "sigma": 0.5}]
    for change in (*others, {"sigma": "auto"}):
        assert deploy("pdq", **{"method": "votes", **change}).enroll(photos[0]).fingerprint != expected


def test_networks_are_enrolled_the_same_in_any_batch(
    network_hash: PerceptualHash, photos: list[CanonicalImage]
) -> None:
    found = {
        deploy(network_hash, sigma=0.4, batch_size=size, engine="torch").enroll(photos[0]).fingerprint
        for size in (1, 3, 4, 8)
    }
    assert len(found) == 1


def test_a_reference_of_another_hash_or_configuration_is_refused_with_the_reason(
    toy_hash: PerceptualHash, photos: list[CanonicalImage]
) -> None:
    votes = deployed("pdq", method="votes")
    reference = deploy("pdq", method="votes").enroll(photos[0])
    for other, words in (
        (deploy("neuralhash"), "enrolled for hash pdq, not for neuralhash"),
        (deploy("pdq", method="votes", lowpass=None, sigma=0.4), "lowpass 64, here null"),
        (deploy("pdq", method="votes", sigma=0.4), "sigmas"),
        (deploy("pdq", method="votes", threshold=0.1), "boundary 51.5, here 25.5"),
        (deploy("pdq", reference_mode="paired"), 'mode "code", here "paired"'),
        (deploy("pdq", noise="clipped"), 'noise "linear", here "clipped"'),
        (deploy(replace(get_hash("pdq"), version="2"), config=votes), "version"),
        (deploy(replace(toy_hash, name="pdq"), config=votes), "bits"),
    ):
        with pytest.raises(UnusableReferenceError, match=words):
            other.match(reference, photos[0])
    deploy("pdq", n=20, alpha=0.01, target_radius=0.1).match(
        reference, photos[0]
    )  # what is asked of queries may differ
