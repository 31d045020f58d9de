"""A deployment: how it is shown, that it travels to other processes, and that its noise is fresh in each."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from dataclasses import replace

import pytest

from dualshield.errors import InputError
from dualshield.hashes import PerceptualHash, get_hash
from dualshield.images import CanonicalImage
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.member import Member
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.profile import find_profile
from dualshield.smoothing.statistics import Decision
from tests.helpers.matchers import voting


def test_a_deployment_from_names_travels_to_other_processes() -> None:
    for deployment in (
        deploy("pdq", n=77, lowpass=None, sigma=0.3),
        deploy("pdq", method="votes").with_config(target_radius=0.25).with_config(n=88),
        deploy("pdq"),
        deploy("pdq").with_config(sigma=3.0).with_config(threshold=0.1),
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
    first = deploy(pdq, method="votes", sigma=0.1, lowpass=None)
    blurred = replace(pdq, front_end=pdq.front_end.low_pass(32))
    second = replace(first, members=(Member(blurred, first.members[0].config),))
    assert voting(first).engine is not voting(second).engine
    assert voting(first).engine is voting(first.with_config(n=50)).engine


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
