"""Profiles: what is deployed from them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dualshield.errors import InputError
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.smoothing.config import MatcherConfig
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.profile import Profile, Rates
from tests.helpers.profiles import deployed


def test_rates_keep_what_the_plain_hash_has() -> None:
    plain = Rates(0.2, 0.0, 0.0, variants_matched=0.95, collisions=0.01, worst_unrelated=1.0)
    assert replace(plain, variants_matched=0.941).keeps(plain)
    assert not replace(plain, variants_matched=0.939).keeps(plain)
    assert not replace(plain, collisions=0.011).keeps(plain)


def test_the_default_takes_sigmas_up_to_the_chosen_one(profile: Profile, measured: PerceptualHash) -> None:
    expected = MatcherConfig(sigma="auto", lowpass=32, threshold=0.15, sigma_grid=(0.4, 0.8))
    assert profile.config() == expected
    assert deployed(measured, profile=profile) == expected


def test_the_widest_takes_all_without_extra_collisions(profile: Profile, measured: PerceptualHash) -> None:
    expected = replace(profile.config(), sigma_grid=(0.4, 0.8, 1.6))
    assert profile.widest_config() == expected
    assert deployed(measured, profile=profile, sigma="auto") == expected


def test_bare_codes_have_a_fixed_sigma_of_their_own(profile: Profile, measured: PerceptualHash) -> None:
    config = profile.external_config()
    assert (config.sigma, config.lowpass, config.threshold) == (0.2, None, 0.12)
    assert config.reference_mode == "code"
    assert deployed(measured, profile=profile, for_codes=True) == config


def test_a_profile_of_another_hash_is_refused(profile: Profile, toy_hash: PerceptualHash) -> None:
    with pytest.raises(InputError, match="measured for hash toy 3, not for toy 1; calibrate this one"):
        deploy(toy_hash, profile=profile)
    with pytest.raises(InputError, match="measured for hash toy 3, not for pdq 1"):
        deploy("pdq", profile=profile)


def test_its_name_is_short(profile: Profile) -> None:
    assert repr(profile) == "<Profile of toy 3: sigma up to 0.8, low-pass 32>"
    assert repr(profile.at_lowpass(None)) == "<Profile of toy 3: sigma up to 0.2>"


def test_at_another_low_pass(profile: Profile) -> None:
    assert profile.at_lowpass(32) is profile
    other = profile.at_lowpass(None)
    assert (other.lowpass, other.sigma, other.grid) == (None, 0.2, profile.grid)
    assert other.config().sigma_grid == (0.1, 0.2)
    for lowpass in (64, 16):  # one with collisions only, one never measured
        with pytest.raises(InputError, match=f"low-pass {lowpass} has no calibrated sigma for toy"):
            profile.at_lowpass(lowpass)
    for lowpass in (0, 1, -3, 513):
        with pytest.raises(InputError, match=f"low-pass {lowpass} is not between 2 and 512"):
            profile.at_lowpass(lowpass)
