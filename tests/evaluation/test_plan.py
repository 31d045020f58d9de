"""What can be planned, and what its results are called."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dualshield.errors import InputError
from dualshield.evaluation.plan.interface import label
from dualshield.evaluation.plan.plan import Plan
from dualshield.hashes import PerceptualHash
from dualshield.smoothing.deploy import deploy


def test_plans_are_checked(toy_hash: PerceptualHash) -> None:
    pdq = deploy("pdq")
    for options, message in (
        ({"deployments": ()}, "no hash"),
        ({"deployments": ("pdq",)}, r"takes deployments, as from deploy\('pdq'\), not str"),
        ({"deployments": (pdq, deploy("pdq", n=7))}, "two hashes are named 'pdq'"),
        ({"deployments": (pdq, deploy(toy_hash, sigma=1.0, device="cpu:0"))}, "on different devices"),
        ({"variants": ("both", "nope")}, "unknown variant 'nope'"),
        ({"variants": ()}, "no variant"),
        ({"variants": ("both", "both")}, "given twice"),
        ({"parts": ("magic",)}, "unknown part 'magic'"),
        ({"seed": -1}, "seed -1"),
    ):
        with pytest.raises(InputError, match=message):
            Plan(**{"deployments": (pdq,), **options})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("my hash", "my_hash"), ("../../evil/..", "_.._evil_.."), ("...", "_"), ("ünï-1.0", "ünï-1.0")],
)
def test_whatever_a_hash_is_called_its_results_have_a_file_name(
    name: str, expected: str, toy_hash: PerceptualHash
) -> None:
    assert label(deploy(replace(toy_hash, name=name), sigma=1.0)) == expected


def test_hashes_that_decide_together_are_called_together() -> None:
    assert label(deploy("pdq+neuralhash")) == "pdq+neuralhash"
