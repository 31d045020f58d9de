"""What is deployed: resolved once, lasting, one hash or several."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import dualshield as ds
from dualshield.errors import InputError, UnusableReferenceError
from dualshield.hashes import PerceptualHash, get_hash, to_hex
from dualshield.hashes.native_rule import NativeRule, l1
from dualshield.images import CanonicalImage
from dualshield.smoothing.config import MatcherConfig
from dualshield.smoothing.deploy import deploy, match
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.joint_decision import joint
from dualshield.smoothing.member import Member
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.profile import find_profile
from dualshield.smoothing.result import MatchResult, MemberResult
from dualshield.smoothing.statistics import Decision

CONFIG = MatcherConfig(sigma=0.5, n=300)


def several(hash_: PerceptualHash, *thresholds: float, **changes: Any) -> Deployment:
    """The same hash under several names and thresholds."""
    config = replace(CONFIG, **changes)
    return Deployment(
        tuple(Member(replace(hash_, name=f"m{i}", threshold=t), config) for i, t in enumerate(thresholds))
    )


def seeded(deployment: Deployment, reference: CanonicalImage, query: CanonicalImage) -> MatchResult:
    return deployment.match(deployment.enroll(reference), query, noise=GaussianSource.from_seed(3))


# -- several hashes --------------------------------------------------------------------------------


def test_the_joint_decision_and_whose_certificate_stands_for_it(
    toy_hash: PerceptualHash, photos: list[CanonicalImage]
) -> None:
    said = seeded(several(toy_hash, 0.2), photos[0], photos[0]).member

    def result(decision: Decision, radius: float) -> MemberResult:
        return replace(said, decision=decision, radius=radius, radius_detected=radius / 2)

    yes, no, maybe = Decision.MATCH, Decision.NO_MATCH, Decision.ABSTAIN
    for members, decision, radius in (
        ([(yes, 1.0), (yes, 3.0)], yes, 3.0),
        ([(no, 9.0), (yes, 1.0)], yes, 1.0),  # never the radius of a member that says otherwise
        ([(maybe, 0.0), (yes, 1.0)], yes, 1.0),
        ([(no, 2.0), (no, 5.0)], no, 2.0),
        ([(no, 2.0), (maybe, 0.0)], maybe, 0.0),
        ([(maybe, 0.0), (maybe, 0.0)], maybe, 0.0),
    ):
        assert joint([result(*member) for member in members]) == (decision, radius, radius / 2)


def test_members_share_alpha_and_nothing_else(toy_hash: PerceptualHash, photos: list[CanonicalImage]) -> None:
    deployment = several(toy_hash, 0.2, 0.2)
    result = seeded(deployment, photos[0], photos[0])
    assert (result.decision, result.alpha, result.hash) == (Decision.MATCH, CONFIG.alpha, "m0+m1")
    assert [matcher.config.alpha for matcher in deployment.matchers] == [CONFIG.alpha / 2] * 2
    assert [matcher.missed for matcher in deployment.matchers] == [5e-4] * 2
    assert result.radius == max(member.radius for member in result.members)
    # Quoting the better of two certificates is paid for: less than one of them alone at the whole alpha.
    alone = seeded(several(toy_hash, 0.2), photos[0], photos[0])
    assert result.radius < alone.radius
    assert len(result.to_dict()["members"]) == 2
    with pytest.raises(InputError, match="2 members"):
        _ = result.member


def test_any_members_match_is_one_and_a_non_match_needs_all(
    toy_hash: PerceptualHash, photos: list[CanonicalImage]
) -> None:
    query = CanonicalImage(photos[0].pixels.roll(40, 2), "rolled")
    alone = {t: seeded(several(toy_hash, t), photos[0], query).decision for t in (0.0, 0.49)}
    assert alone == {0.0: Decision.NO_MATCH, 0.49: Decision.MATCH}
    result = seeded(several(toy_hash, 0.0, 0.49), photos[0], query)
    assert result.decision is Decision.MATCH
    other = seeded(several(toy_hash, 0.0, 0.1), photos[0], photos[1])
    assert other.decision is Decision.NO_MATCH
    assert other.radius == min(member.radius for member in other.members)


def test_members_draw_noise_of_their_own(toy_hash: PerceptualHash, photos: list[CanonicalImage]) -> None:
    deployment = several(toy_hash, 0.2, 0.2, sigma=40.0)
    result = seeded(deployment, photos[0], photos[0])
    assert result.members[0].votes != result.members[1].votes


def test_what_cannot_decide_together_is_refused(toy_hash: PerceptualHash) -> None:
    member = Member(toy_hash, CONFIG)
    with pytest.raises(InputError, match="different ones"):
        Deployment((member, member))
    with pytest.raises(InputError, match="none"):
        Deployment(())
    other = replace(toy_hash, name="other")
    with pytest.raises(InputError, match="alphas differ"):
        Deployment((member, Member(other, replace(CONFIG, alpha=0.01))))
    with pytest.raises(InputError, match="target radii differ"):
        Deployment((member, Member(other, replace(CONFIG, target_radius=0.0))))
    with pytest.raises(InputError, match="belongs to one hash"):
        several(toy_hash, 0.2, 0.2).enroll_code("00" * 8)


# -- which configuration ---------------------------------------------------------------------------


def test_a_name_and_its_hash_give_the_same_deployment() -> None:
    by_name, by_object = deploy("pdq"), deploy(get_hash("pdq"))
    assert by_name.digest == by_object.digest
    profile = find_profile("pdq")
    assert profile is not None
    assert by_name.members[0].config == profile.config()
    assert deploy("pdq", sigma="auto").members[0].config == profile.widest_config()
    assert deploy("pdq", for_codes=True).members[0].config == profile.external_config()
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
    digests = [deploy("pdq", **change).digest for change in changes]
    assert len(set(digests)) == len(digests)
    assert deploy("pdq", n=5000).digest == digests[0]  # the same value said aloud


def test_the_papers_parameters_have_one_threshold(toy_hash: PerceptualHash) -> None:
    member = deploy(toy_hash.with_threshold(0.05), parameters="paper").members[0]
    assert member.hash.threshold == member.voting.threshold == 0.2


def test_a_vote_may_have_a_lower_threshold_than_the_plain_hash(toy_hash: PerceptualHash) -> None:
    deployment = deploy(toy_hash, sigma=0.1, threshold=0.1)
    assert (deployment.hashes[0].threshold, deployment.matchers[0].hash.threshold) == (0.2, 0.1)


def test_a_deployment_from_names_travels_to_other_processes() -> None:
    for deployment in (
        deploy("pdq", n=77, lowpass=None, sigma=0.3),
        deploy("pdq").with_config(target_radius=0.25).with_config(n=88),
        deploy("pdq+neuralhash", parameters="paper"),
    ):
        again = pickle.loads(pickle.dumps(deployment))
        assert again.digest == deployment.digest
        assert again.name == deployment.name


def test_a_deployment_that_was_changed_by_hand_travels_as_it_is_or_not_at_all() -> None:
    changed = replace(deploy("pdq"), on_abstain=Decision.MATCH, batch_size=7)
    again = pickle.loads(pickle.dumps(changed))
    assert (again.on_abstain, again.batch_size, again.digest) == (Decision.MATCH, 7, changed.digest)
    other = replace(deploy("pdq"), members=deploy("pdq", n=77).members)
    with pytest.raises(InputError, match="another deployment"):
        pickle.loads(pickle.dumps(other))


def test_deployments_of_different_functions_never_share_an_engine() -> None:
    pdq = get_hash("pdq")
    first = deploy(pdq, sigma=0.1, lowpass=None)
    blurred = replace(pdq, front_end=pdq.front_end.low_pass(32))
    second = replace(first, members=(Member(blurred, first.members[0].config),))
    assert first.matchers[0].engine is not second.matchers[0].engine
    assert first.matchers[0].engine is first.with_config(n=50).matchers[0].engine


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
        ({"hash": "pdq+neuralhash", "profile": profile}, "their own profile"),
        ({"hash": "pdq", "config": {"sigma": 1}}, "MatcherConfig, not dict"),
        ({"hash": "pdq", "sigma": "much"}, "sigma much"),
        ({"hash": "pdq", "n": 1.5}, "n 1.5 is not a whole number"),
        ({"hash": "pdq", "alpha": "0.1"}, "alpha 0.1"),
        ({"hash": "pdq", "lowpass": "64", "sigma": 1.0}, "lowpass is of type str"),
        *(
            ({"hash": "pdq", "lowpass": 0, **other}, "low-pass 0 is not between 2 and 512")
            for other in ({}, {"sigma": "auto"}, {"for_codes": True})
        ),
        ({"hash": "pdq", "lowpass": 0, "sigma": 1.0}, "between 2 and 512 samples, not 0"),
        *(
            ({"hash": "pdq", "parameters": paper, "sigma": "auto"}, "the paper's parameters have one sigma, 0.1")
            for paper in ("paper", "paper-limit")
        ),
        ({"hash": "pdq", "threshold": 2.0}, "threshold 2.0"),
        ({"hash": "pdq", "parameters": "both"}, "unknown parameters 'both'"),
        ({"hash": "pdq", "parameters": "both", "config": CONFIG}, "unknown parameters 'both'"),
        ({"hash": "pdq", "batch_size": 2.5}, "batch size is of type float"),
        ({"hash": "pdq", "engine": "abacus"}, "unknown engine 'abacus'"),
        ({"hash": "pdq", "device": "abacus"}, "unknown device 'abacus'"),
        ({"hash": "pdq", "on_abstain": "perhaps"}, "on abstain 'perhaps'"),
        ({"hash": "pdq", "noise": "pink"}, "unknown noise 'pink'"),
        ({"hash": "pdq", "rule": "native"}, "no rule of its own"),
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
    for change in ({"sigma_grid": None}, {"sigma_grid": [1.0]}, {"sigma": 1e-9}, {"alpha": 1e-40}):
        with pytest.raises(InputError):
            deploy("pdq").with_config(**change)
    with pytest.raises(InputError, match="noise is a GaussianSource, not int"):
        pdq.match(pdq.enroll(grey), grey, noise=5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no bogus"):
        deploy("pdq").with_config(bogus=3)


def test_reprs_are_short(toy_hash: PerceptualHash, photos: list[CanonicalImage]) -> None:
    deployment = deploy("pdq", n=50)
    reference = deployment.enroll(photos[0])
    profile = find_profile("pdq")
    result = deployment.match(reference, photos[0])
    for thing in (
        deployment,
        reference,
        result,
        profile,
        toy_hash,
        toy_hash.front_end,
        photos[0],
        GaussianSource.secret(),
    ):
        assert len(repr(thing)) < 200
        assert "\n" not in repr(thing)
    assert "pdq" in repr(deployment)
    assert "match" in repr(result)


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
    kept = deploy("pdq", for_codes=True).enroll_code(code)
    assert match(kept, photos[0], hash="pdq", n=100).reference_fingerprint == result.reference_fingerprint


# -- enrollment lasts -------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["code", "bank", "paired"])
def test_enrolling_twice_gives_the_same_reference(mode: str, photos: list[CanonicalImage]) -> None:
    # Finding 2: forty enrollments of one photo gave forty references, and radii from 0.41 to 1.54.
    first, second = deploy("pdq", reference_mode=mode), deploy("pdq", reference_mode=mode)  # type: ignore[arg-type]
    one, two = first.enroll(photos[0]), second.enroll(replace(photos[0], name="another name"))
    assert one.fingerprint == two.fingerprint
    assert one.sigma == two.sigma
    assert torch.equal(one.members[0].code, two.members[0].code)
    assert one.fingerprint != first.enroll(photos[1]).fingerprint


def test_a_reference_does_not_depend_on_how_it_is_computed(photos: list[CanonicalImage]) -> None:
    expected = deploy("pdq").enroll(photos[0]).fingerprint
    same: list[dict[str, Any]] = [{"batch_size": 7}, {"n": 50}, {"alpha": 1e-6}, {"target_radius": 0.1}]
    for change in (*same, {"on_abstain": "match"}):
        assert deploy("pdq", **change).enroll(photos[0]).fingerprint == expected
    others: list[dict[str, Any]] = [{"sigma": 0.5}, {"threshold": 0.1}, {"lowpass": None, "sigma": 0.5}]
    for change in (*others, {"sigma": "auto"}):
        assert deploy("pdq", **change).enroll(photos[0]).fingerprint != expected


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
    reference = deploy("pdq").enroll(photos[0])
    for other, words in (
        (deploy("neuralhash"), "enrolled for hash pdq, not for neuralhash"),
        (deploy("pdq", lowpass=None, sigma=0.4), "lowpass 64, here null"),
        (deploy("pdq", sigma=0.4), "sigmas"),
        (deploy("pdq", threshold=0.1), "boundary 51.5, here 25.5"),
        (deploy("pdq", reference_mode="paired"), 'mode "code", here "paired"'),
        (deploy("pdq", noise="clipped"), 'noise "linear", here "clipped"'),
        (deploy(replace(get_hash("pdq"), version="2"), config=deploy("pdq").members[0].config), "version"),
        (deploy(replace(toy_hash, name="pdq"), config=deploy("pdq").members[0].config), "bits"),
    ):
        with pytest.raises(UnusableReferenceError, match=words):
            other.match(reference, photos[0])
    deploy("pdq", n=20, alpha=0.01, target_radius=0.1).match(
        reference, photos[0]
    )  # what is asked of queries may differ


# -- fresh noise -----------------------------------------------------------------------------------


FORKS = """
import os, torch
torch.set_num_threads(1)
import dualshield as ds
deployment = ds.deploy("pdq", sigma=3.0, n=3000)
photo = torch.rand(3, 32, 32, generator=torch.Generator().manual_seed(1))
reference = deployment.enroll(photo)
source = ds.GaussianSource.secret()
deployment.match(reference, photo, noise=source)  # all is set up, and the stream has begun
for noise in (None, source):
    for _ in range(4):
        if os.fork() == 0:
            print(deployment.match(reference, photo, noise=noise).member.votes, flush=True)
            os._exit(0)
        os.wait()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_forked_processes_draw_different_noise() -> None:
    # Finding 4: a matcher built before the fork gave the same votes in every child.
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, check=True, timeout=120)
    votes = done.stdout.split()
    assert len(votes) == 8
    for children in (votes[:4], votes[4:]):
        assert len(set(children)) > 1, votes
