"""Which configuration is deployed, for which hashes and images, and what is not understood."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import dualshield as ds
from dualshield.errors import InputError
from dualshield.hashes import PerceptualHash, get_hash, to_hex
from dualshield.hashes.native_rule import NativeRule, l1
from dualshield.images import CanonicalImage
from dualshield.smoothing.deploy import deploy, match
from dualshield.smoothing.profile import find_profile, with_exact_preset
from dualshield.smoothing.statistics import Decision

# -- which configuration ---------------------------------------------------------------------------


def test_a_name_and_its_hash_give_the_same_deployment() -> None:
    by_name, by_object = deploy("pdq"), deploy(get_hash("pdq"))
    assert by_name.digest == by_object.digest
    profile = find_profile("pdq")
    assert profile is not None
    assert profile.exact is not None
    viewed = with_exact_preset(profile.exact.config(), profile.presets["standard"])
    assert by_name.members[0].config == deploy("pdq", sigma="auto").members[0].config == viewed
    assert by_name.false_matches == profile.presets["standard"].false_matches
    plain = deploy("pdq", views="none")
    assert plain.members[0].config == profile.exact.config()
    assert plain.false_matches == profile.exact.deployed.collisions
    assert deploy("pdq", for_codes=True).members[0].config == profile.exact.external_config()


def test_votes_have_parameters_of_their_own() -> None:
    by_name, by_object = deploy("pdq", method="votes"), deploy(get_hash("pdq"), method="votes")
    assert by_name.digest == by_object.digest
    profile = find_profile("pdq")
    assert profile is not None
    assert by_name.members[0].config == profile.config()
    assert deploy("pdq", method="votes", sigma="auto").members[0].config == profile.widest_config()
    assert deploy("pdq", method="votes", for_codes=True).members[0].config == profile.external_config()
    assert by_name.false_matches == profile.false_matches
    assert deploy(["pdq", "neuralhash"]).name == deploy("pdq+neuralhash").name == "pdq+neuralhash"


def test_false_matches_are_told_only_where_they_were_measured() -> None:
    profile = find_profile("pdq")
    assert profile is not None
    measured: list[dict[str, Any]] = [{}, {"n": 50, "alpha": 0.01, "target_radius": 0.1}, {"sigma": "auto"}]
    for same in (*measured, {"for_codes": True}):
        assert deploy("pdq", **same).false_matches is not None
    unknown: list[dict[str, Any]] = [{"sigma": 5.0}, {"threshold": 0.3}, {"config": profile.config()}]
    for other in (*unknown, {"parameters": "paper"}):
        assert deploy("pdq", **other).false_matches is None


def test_a_hash_keeps_its_own_rule_unless_another_is_asked_for(toy_hash: PerceptualHash) -> None:
    native = replace(toy_hash, native=NativeRule("margins", lambda margins: margins, l1, 5.0)).with_rule("native")
    assert deploy(native, sigma=0.1).hashes[0].rule == "native"
    assert deploy(native, sigma=0.1, rule="hamming").hashes[0].rule == "hamming"


def test_every_parameter_changes_the_digest() -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"sigma": 0.5},
        {"lowpass": None, "sigma": 0.5},
        {"threshold": 0.1},
        {"noise": "clipped"},
        {"reference_mode": "bank"},
        {"bank_size": 33},
        {"n0": 50},
        {"n": 100},
        {"alpha": 0.01},
        {"target_radius": 0.5},
        {"on_abstain": "match"},
        {"engine": "torch"},
        {"parameters": "paper"},
    ]
    digests = [deploy("pdq", **{"method": "votes", **change}).digest for change in changes]
    assert len(set(digests)) == len(digests)
    assert deploy("pdq", n=5000).digest == digests[0]  # the same value said aloud
    exact = [deploy("pdq", **change).digest for change in (*changes[:4], *changes[11:13])]
    assert len(set(exact) | set(digests)) == len(exact) + len(digests)


def test_the_papers_parameters_have_one_threshold(toy_hash: PerceptualHash) -> None:
    member = deploy(toy_hash.with_threshold(0.05), parameters="paper").members[0]
    assert member.hash.threshold == member.voting.threshold == 0.2


def test_a_vote_may_have_a_lower_threshold_than_the_plain_hash(toy_hash: PerceptualHash) -> None:
    deployment = deploy(toy_hash, sigma=0.1, threshold=0.1)
    assert (deployment.hashes[0].threshold, deployment.matchers[0].hash.threshold) == (0.2, 0.1)


def test_what_is_not_understood_is_refused_in_the_words_of_the_library(toy_hash: PerceptualHash) -> None:
    profile = find_profile("pdq")
    refused: list[tuple[dict[str, Any], str]] = [
        *(
            ({"hash": "pdq", name: 5}, f"{name} is of type int")
            for name in ("profile", "on_abstain", "engine", "device")
        ),
        *(({"hash": "pdq", name: b"x"}, "is of type bytes") for name in ("rule", "noise", "parameters", "sigma")),
        *(
            ({"hash": "pdq", name: torch.zeros(3)}, "Tensor")
            for name in ("sigma", "lowpass", "for_codes", "batch_size")
        ),
        ({"hash": "md5"}, "unknown hash 'md5'"),
        ({"hash": 42}, "not int"),
        ({"hash": ["pdq", 3.5]}, "not float"),
        ({"hash": "neuralhash", "profile": profile}, "measured for hash pdq"),
        ({"hash": "pdq+neuralhash", "profile": profile}, "its own profile"),
        ({"hash": "pdq", "config": {"sigma": 1}}, "config is of type dict; give a MatcherConfig"),
        ({"hash": "pdq", "sigma": "much"}, "sigma 'much' is not a number"),
        ({"hash": "pdq", "method": "votes", "sigma": "much"}, "sigma much"),
        ({"hash": "pdq", "method": "guess"}, "unknown method 'guess': use one of exact, votes"),
        ({"hash": "pdq", "n": 1.5}, "n 1.5 is not a whole number"),
        ({"hash": "pdq", "alpha": "0.1"}, "alpha 0.1"),
        ({"hash": "pdq", "lowpass": "64", "sigma": 1.0}, "lowpass is of type str"),
        *(
            ({"hash": "pdq", "method": method, "lowpass": 0, **other}, "low-pass 0 is not between 2 and 512")
            for method in ("votes", "exact")
            for other in ({}, {"sigma": "auto"}, {"for_codes": True})
        ),
        ({"hash": "pdq", "lowpass": 0, "sigma": 1.0}, "low-pass 0 is not between 2 and 512"),
        ({"hash": "pdq", "method": "votes", "lowpass": 0, "sigma": 1.0}, "between 2 and 512 samples, not 0"),
        *(
            ({"hash": "pdq", "parameters": paper, "sigma": "auto"}, "the paper's parameters have one sigma, 0.1")
            for paper in ("paper", "paper-limit")
        ),
        *(({"hash": "pdq", "method": method, "threshold": 2.0}, "threshold 2.0") for method in ("votes", "exact")),
        ({"hash": "pdq", "parameters": "both"}, "unknown parameters 'both'"),
        ({"hash": "pdq", "parameters": "both", "config": ds.MatcherConfig(sigma=0.5)}, "unknown parameters 'both'"),
        ({"hash": "pdq", "batch_size": 2.5}, "batch size is of type float"),
        ({"hash": "pdq", "engine": "abacus"}, "unknown engine 'abacus'"),
        ({"hash": "pdq", "device": "abacus"}, "unknown device 'abacus'"),
        ({"hash": "pdq", "on_abstain": "perhaps"}, "unknown on_abstain 'perhaps'"),
        ({"hash": "pdq", "noise": "pink"}, "unknown noise 'pink'"),
        ({"hash": "pdq", "rule": "native"}, "no native rule"),
    ]
    for arguments, words in refused:
        with pytest.raises(InputError, match=words) as caught:
            deploy(**arguments).enroll(torch.zeros(3, 512, 512))
        assert "--" not in str(caught.value)
    with pytest.raises(InputError, match="not from str"):
        deploy("pdq").match("photo.jpg", torch.zeros(3, 512, 512))  # type: ignore[arg-type]
    grey, pdq = torch.full((3, 512, 512), 0.5), deploy("pdq")
    calls: list[Callable[[], object]] = [
        lambda: match(grey, grey, hash=pdq, n=5),
        lambda: ds.harden(grey, hash=pdq, n=5),
        lambda: ds.attacks.attack(grey, hash=pdq, n=5),
    ]
    for call in calls:
        with pytest.raises(InputError, match="n cannot be given"):
            call()
    of_votes: list[dict[str, Any]] = [{"sigma_grid": None}, {"sigma_grid": [1.0]}, {"sigma": 1e-9}, {"alpha": 1e-40}]
    for change in of_votes:
        with pytest.raises(InputError):
            deploy("pdq", method="votes").with_config(**change)
    of_exact: list[dict[str, Any]] = [{"sigma_grid": (1.0,)}, {"sigma": 1e-9}, {"threshold": 0.7}]
    for change in of_exact:
        with pytest.raises(InputError):
            deploy("pdq").with_config(**change)
    pdq = deploy("pdq", method="votes")
    with pytest.raises(InputError, match="noise is a GaussianSource, not int"):
        pdq.match(pdq.enroll(grey), grey, noise=5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no bogus"):
        deploy("pdq").with_config(bogus=3)


# -- images as people have them --------------------------------------------------------------------


def test_one_line_and_whatever_holds_an_image(photo_files: list[Path]) -> None:
    with Image.open(photo_files[0]) as opened:
        picture = opened.convert("RGB")
    array = np.asarray(picture)
    tensor = torch.from_numpy(array.copy()).permute(2, 0, 1).float() / 255
    forms: list[Any] = [photo_files[0], str(photo_files[0]), photo_files[0].read_bytes(), picture, array, tensor]
    results = [match(form, photo_files[0], hash="pdq", n=40) for form in forms]
    assert {result.decision for result in results} == {Decision.MATCH}
    assert len({result.reference_fingerprint for result in results}) == 1
    assert ds.match(photo_files[0], array, hash="pdq", n=40).decision is Decision.MATCH


def test_a_bare_code_needs_no_image(photos: list[CanonicalImage]) -> None:
    code = to_hex(get_hash("pdq").code(photos[0].pixels))
    result = match(f"code:{code}", photos[0], hash="pdq", n=100)
    assert (result.decision, result.reference) == (Decision.MATCH, f"code:{code}")
    kept = deploy("pdq", method="votes", for_codes=True).enroll_code(code)
    assert match(kept, photos[0], hash="pdq", n=100).reference_fingerprint == result.reference_fingerprint
