"""The whole evaluation in one call: from names and folders to the plan that is run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import dualshield as ds
from dualshield.errors import InputError
from dualshield.evaluation.evaluate import evaluate
from dualshield.evaluation.metrics import fid, lpips
from dualshield.evaluation.parts import certified
from dualshield.evaluation.plan.plan import Plan
from dualshield.evaluation.plan.protocol import PROTOCOLS
from dualshield.evaluation.run.records import CONFIG, Run
from dualshield.evaluation.run.run import run_plan
from dualshield.smoothing.config import PAPER
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.profile import find_profile
from dualshield.smoothing.statistics import certified_radius, clopper_pearson_lower
from tests.helpers.interrupted import results
from tests.helpers.linear import Linear

CHEAP: dict[str, Any] = {"variants": ("smoothing",), "parts": ("certified", "collisions"), "limit": 2, "jobs": 1}


@pytest.fixture(autouse=True)
def no_extras() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lpips, "load", lambda: None)
        patch.setattr(fid, "load", lambda: None)
        yield


def configuration(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / CONFIG).read_text())
    return found


def test_the_call_runs_the_plan_that_its_arguments_say(data: Path, tmp_path: Path) -> None:
    summary = evaluate(str(data), tmp_path / "call", hash="pdq", seed=7, **CHEAP)
    plan = Plan((deploy("pdq"),), ("smoothing",), ("certified", "collisions"), PROTOCOLS["default"], 2, seed=7)
    same = run_plan(plan, [data], tmp_path / "plan")
    assert (summary.images, summary.records) == (same.images, same.records) == (2, 5)
    assert results(tmp_path / "call") == results(tmp_path / "plan")
    configs = [configuration(tmp_path / name) for name in ("call", "plan")]
    assert configs[0] == configs[1]


def test_the_same_seed_gives_the_same_records(data: Path, tmp_path: Path) -> None:
    """So much noise that votes differ: no two runs would agree by chance."""
    deployment = deploy("pdq", sigma=3.5, n=500)
    for name, seed in (("first", 3), ("again", 3), ("other", 4)):
        evaluate([data], tmp_path / name, hash=deployment, seed=seed, **CHEAP)
    first, again, other = (results(tmp_path / name) for name in ("first", "again", "other"))
    assert first == again
    same_pairs = first.keys() & other.keys()
    assert any(first[key] != other[key] for key in same_pairs if key.part == "certified")


def test_names_get_the_parameters_of_the_protocol_and_deployments_keep_theirs(data: Path, tmp_path: Path) -> None:
    options = {**CHEAP, "parts": ("collisions",), "variants": ("original",)}
    evaluate(data, tmp_path / "names", hash=["pdq"], protocol="paper", **options)
    facts = configuration(tmp_path / "names")["defences"]["pdq"]["pdq"]
    assert (facts["matcher"]["sigma"], facts["matcher"]["noise"], facts["threshold"]) == (0.1, "clipped", 0.2)
    assert facts["deployment"] == deploy("pdq", parameters="paper").digest
    kept = deploy("pdq", n=123)
    evaluate(data, tmp_path / "deployed", hash=kept, protocol="paper", **options)
    facts = configuration(tmp_path / "deployed")["defences"]["pdq"]["pdq"]
    assert (facts["matcher"]["n"], facts["deployment"]) == (123, kept.digest)


def test_a_profile_takes_the_place_of_the_hashs_own(data: Path, tmp_path: Path) -> None:
    shipped = find_profile("pdq")
    assert shipped is not None
    assert shipped.exact is not None
    exact = replace(shipped.exact, sigmas=shipped.exact.sigmas[:3], thresholds=shipped.exact.thresholds[:3])
    options = {**CHEAP, "parts": ("collisions",)}
    for method, given in (
        ("votes", replace(shipped.at_lowpass(None), exact=None)),  # there is only one method in it
        ("exact", replace(shipped, exact=exact, presets={})),  # whose thresholds are those of all sigmas
    ):
        file = tmp_path / f"{method}.json"
        given.save(file)
        expected = deploy("pdq", profile=given)
        assert expected.members[0].config.method == method
        assert expected.digest not in (deploy("pdq").digest, deploy("pdq", method="votes").digest)
        for name, profile in ((f"{method} object", given), (f"{method} path", file)):
            evaluate(data, tmp_path / name, hash="pdq", profile=profile, **options)
            facts = configuration(tmp_path / name)["defences"]["pdq"]["pdq"]
            assert facts["deployment"] == expected.digest


def test_several_hashes_are_measured_one_by_one(data: Path, tmp_path: Path, network_name: str) -> None:
    options = {**CHEAP, "parts": ("collisions",), "variants": ("original",)}
    evaluate(data, tmp_path / "run", hash=["pdq", network_name, f"pdq+{network_name}"], **options)
    found = Run.open(tmp_path / "run")
    assert {record.key.hash for record in found.records} == {"pdq", "network", "pdq+network"}


def test_what_cannot_be_evaluated(data: Path, tmp_path: Path) -> None:
    for arguments, message in (
        ({"protocol": "theirs"}, "unknown protocol 'theirs': use one of default, paper, paper-limit"),
        ({"hash": "nope"}, "unknown hash 'nope'"),
        ({"hash": 3}, "not int"),
        ({"hash": None}, "not NoneType"),
        ({"hash": []}, "no hash given"),
        ({"hash": ["pdq", "pdq"]}, "two hashes are named 'pdq'"),
        ({"variants": ("theirs",)}, "unknown variant"),
        ({"jobs": 0}, "jobs is 0"),
        ({"limit": 0}, "limit 0"),
        ({"profile": 5}, "profile is of type int"),
        ({"profile": find_profile("pdq"), "hash": ["pdq", "neuralhash"]}, "a profile belongs to one hash"),
        ({"profile": find_profile("pdq"), "hash": deploy("pdq")}, "or with a deployment"),
        ({"profile": find_profile("pdq"), "hash": "neuralhash"}, "measured for hash pdq"),
        ({"profile": find_profile("pdq"), "protocol": "paper"}, "leave out the profile"),
        ({"data": []}, "no data"),
    ):
        with pytest.raises(InputError, match=message):
            evaluate(**{"data": data, "out": tmp_path / "run", "hash": "pdq", **CHEAP, **arguments})
    assert not (tmp_path / "run").exists()


# -- what a certificate becomes in a record --------------------------------------------------------------


def test_the_record_is_what_the_deployment_says_of_the_published_image(data: Path, tmp_path: Path) -> None:
    deployment = deploy("pdq", n=300)
    evaluate(data, tmp_path / "run", hash=deployment, **{**CHEAP, "limit": 1})
    found = {key.detail: result for key, result in results(tmp_path / "run").items()}
    photo = ds.load_image(data / "astronaut.png")
    reference = deployment.enroll(photo)
    result = deployment.match(reference, photo, noise=GaussianSource.from_seed(1))
    record = found["identity"]
    assert record["reference_fingerprint"] == reference.fingerprint
    assert record["deployment"] == deployment.digest
    assert record["sigma"] == reference.sigma
    # All votes agree, whatever the noise.
    assert (record["n"], record["matching_votes"]) == (result.member.draws, result.member.votes) == (300, 300)
    assert (record["radius"], record["radius_detected"]) == (result.radius, result.radius_detected)


def test_the_record_of_an_exact_decision(data: Path, tmp_path: Path) -> None:
    """It has no votes, and every change inside the radius is detected."""
    deployment = deploy("pdq")
    evaluate(data, tmp_path / "run", hash="pdq", **{**CHEAP, "limit": 1})
    found = {key.detail: result for key, result in results(tmp_path / "run").items()}
    photo = ds.load_image(data / "astronaut.png")
    reference = deployment.enroll(photo)
    result = deployment.match(reference, photo)
    record = found["identity"]
    assert (record["method"], record["decision"]) == ("exact", "match")
    assert (record["deployment"], record["reference_fingerprint"]) == (deployment.digest, reference.fingerprint)
    assert record["radius"] == record["radius_detected"] == result.radius > 0
    member = result.member
    assert (record["soft_distance"], record["threshold"]) == (member.soft_distance, member.threshold)
    assert record["sigma"] == reference.sigma
    assert [record[name] for name in ("n", "matching_votes", "p_lower")] == [None] * 3
    facts = configuration(tmp_path / "run")["defences"]["pdq"]["pdq"]
    assert facts["deployment"] == deployment.digest
    assert reference.sigma in facts["matcher"]["sigmas"]


def test_votes_under_a_limit_law_are_recorded_as_an_estimate(data: Path, tmp_path: Path) -> None:
    """The deployment certifies nothing by them; the record has what the paper's noise would certify, and says so."""
    deployment = deploy("pdq", parameters="paper-limit", n=400)
    evaluate(data, tmp_path / "run", hash=deployment, protocol="paper-limit", **{**CHEAP, "parts": ("certified",)})
    found = [result for key, result in results(tmp_path / "run").items() if key.detail == "identity"]
    assert len(found) == 2
    for record in found:
        assert (record["method"], record["decision"]) == ("smoothing-limit", "match")
        assert (record["p_lower"], record["radius_detected"]) == (0, 0)
        votes = record["matching_votes"]
        assert record["radius"] == certified_radius(clopper_pearson_lower(votes, 400, PAPER.alpha), 0.1) > 0
    photo = ds.load_image(data / "astronaut.png")
    assert deployment.match(deployment.enroll(photo), photo).radius == 0


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("on_abstain", ["abstain", "match", "no-match"])
def test_an_abstention_is_recorded_as_the_deployment_tells_it(
    on_abstain: str, together: bool, toy_hash: ds.PerceptualHash, photos: list[ds.CanonicalImage]
) -> None:
    """A bit that a flat image leaves to the noise, alone and beside a hash that never matches one."""
    coin = replace(toy_hash, name="coin", bits=1, network=Linear(torch.linspace(-1, 1, 64)[None]), threshold=0.0)
    deployment = deploy([coin, toy_hash][: 1 + together], config=ds.MatcherConfig(sigma=1.0), on_abstain=on_abstain)
    flat = ds.CanonicalImage(torch.full((3, 512, 512), 0.5), "flat")
    result = deployment.match(deployment.enroll(photos[1]), flat, noise=GaussianSource.from_seed(1))
    record = certified._record(result)
    assert result.abstained
    assert record["decision"] == on_abstain.replace("-", "_")
    assert (record["radius"], record["radius_detected"], record["matching_votes"]) == (0, 0, None)
