"""Where the profile of a hash is found: beside its card, in the user's folder, or shipped."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from dualshield._common.folders import profiles_folder
from dualshield.errors import InputError, MissingError
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.hashes.registry import BUILT_IN, get_hash
from dualshield.smoothing.choose import UNCALIBRATED_SIGMA
from dualshield.smoothing.config import MatcherConfig
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.profile import Profile, find_profile
from dualshield.smoothing.profile_folder import place_for, profile_file
from tests.helpers.profiles import deployed


def test_a_card_has_its_profile_beside_it(profile: Profile, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    card = tmp_path / "own.yaml"
    beside = tmp_path / "own.profile.json"
    card.write_text(f'name: toy\nversion: "3"\nbits: 64\nside: 8\ncommand: [echo, {"0f" * 8}]\n')
    assert profile_file(str(card)) == beside
    assert find_profile(str(card)) is None
    with caplog.at_level(logging.WARNING):
        assert deployed(card) == MatcherConfig(sigma=UNCALIBRATED_SIGMA)
        assert not caplog.text  # nothing is smoothed yet
        assert deploy(card).matchers
    assert "hash toy is not calibrated, using sigma 0.1; run dualshield calibrate" in caplog.text
    profile.save(beside)
    assert find_profile(str(card)) == profile
    caplog.clear()
    assert deployed(card) == profile.config()
    assert caplog.text == ""


def test_an_unknown_name_has_no_profile() -> None:
    assert find_profile("md5") is None


@pytest.fixture
def own_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's profile folder; nobody has made it yet."""
    home = tmp_path / "profiles"
    monkeypatch.setenv("DUALSHIELD_PROFILES", str(home))
    return home


def test_a_calibrated_profile_is_found_by_its_name(
    own_profiles: Path, profile: Profile, measured: PerceptualHash
) -> None:
    assert find_profile("toy") is None
    file = place_for("toy")
    assert file == profile_file("toy") == own_profiles / "toy.profile.json"
    profile.save(file)
    assert find_profile("toy") == profile
    assert deployed(measured) == profile.config()
    assert deployed(replace(measured, version="4")) == MatcherConfig(sigma=UNCALIBRATED_SIGMA)


def test_the_users_profile_takes_the_place_of_a_shipped_one_of_the_same_version(
    own_profiles: Path, profile: Profile
) -> None:
    shipped = find_profile("pdq")
    assert shipped is not None
    own = replace(profile, hash="pdq", hash_version=shipped.hash_version)
    own.save(place_for("pdq"))
    assert find_profile("pdq") == own
    assert deployed("pdq") == own.config()
    replace(own, hash_version="0").save(own_profiles / "pdq.profile.json")
    assert find_profile("pdq") == shipped
    (own_profiles / "pdq.profile.json").write_text("{")
    with pytest.raises(InputError, match=r"pdq\.profile\.json is not a DualShield profile"):
        find_profile("pdq")


@pytest.mark.parametrize(
    "name", ["../toy", "a/../../toy", "..", ".toy", "/toy", "..\\toy", "c:toy", "a\0b", "", "a" * 999]
)
def test_a_name_does_not_lead_out_of_the_folder(
    name: str, own_profiles: Path, profile: Profile, tmp_path: Path
) -> None:
    profile.save(tmp_path / "toy.profile.json")
    own_profiles.mkdir()
    (own_profiles / "a").mkdir()
    assert find_profile(name) is None
    with pytest.raises(InputError, match="no default path for a profile of hash"):
        place_for(name)


def test_a_hash_whose_name_looks_like_a_card_has_no_profile_there(
    profile: Profile, measured: PerceptualHash, tmp_path: Path
) -> None:
    profile.save(tmp_path / "toy.profile.json")
    named = replace(measured, name=str(tmp_path / "toy.yaml"))
    assert deployed(named) == MatcherConfig(sigma=UNCALIBRATED_SIGMA)


def test_where_the_users_folder_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("DUALSHIELD_PROFILES", str(tmp_path / "given"))
    assert profiles_folder() == tmp_path / "given"
    monkeypatch.delenv("DUALSHIELD_PROFILES")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert profiles_folder() == tmp_path / "data" / "dualshield" / "profiles"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert profiles_folder() == tmp_path / ".local" / "share" / "dualshield" / "profiles"

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert profiles_folder() is None
    assert find_profile("toy") is None
    assert find_profile("pdq") is not None


def test_a_folder_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("DUALSHIELD_PROFILES", str(tmp_path / "file" / "profiles"))
    assert find_profile("toy") is None
    with pytest.raises(
        InputError, match=r"cannot create the profile folder .*; set DUALSHIELD_PROFILES to another folder"
    ):
        place_for("toy")


@pytest.mark.parametrize("name", BUILT_IN)
def test_shipped_profiles_fit_their_hash(name: str) -> None:
    shipped = find_profile(name)
    if shipped is None:
        pytest.skip(f"no profile of {name} is shipped")
    assert shipped.hash == name
    assert shipped.sigma in shipped.config().sigma_grid
    assert shipped.external_sigma in [p.sigma for p in shipped.grid if p.lowpass == shipped.external_lowpass]
    try:
        hash_ = get_hash(name)
    except MissingError as error:
        pytest.skip(str(error))
    assert shipped.hash_version == hash_.version
    assert hash_.with_threshold(shipped.threshold).with_lowpass(shipped.lowpass).lowpass == shipped.lowpass
