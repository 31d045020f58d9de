"""Profiles: what is deployed from them, and how they are kept on disk."""

from __future__ import annotations

import errno
import json
import logging
import math
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from dualshield._common.folders import profiles_folder
from dualshield.errors import InputError, MissingError
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.hashes.registry import BUILT_IN, get_hash
from dualshield.smoothing.config import MatcherConfig
from dualshield.smoothing.deploy import UNCALIBRATED_SIGMA, HashLike, deploy
from dualshield.smoothing.profile import (
    MAX_BYTES,
    GridPoint,
    Profile,
    Rates,
    find_profile,
)
from dualshield.smoothing.profile_folder import place_for, profile_file


def point(lowpass: int | None, sigma: float, collisions: float = 0.0) -> GridPoint:
    own = Rates(0.15, 2 * sigma, sigma, 0.9, collisions, 0.4)
    return GridPoint(lowpass, sigma, own, replace(own, threshold=0.12, collisions=0.5))


def at_once(profile: Profile, threshold: float) -> Profile:
    """The profile with another vote threshold, in all places that tell it."""
    grid = tuple(replace(p, consensus=replace(p.consensus, threshold=threshold)) for p in profile.grid)
    return replace(profile, threshold=threshold, grid=grid)


@pytest.fixture
def profile() -> Profile:
    return Profile(
        hash="toy",
        hash_version="3",
        threshold=0.15,
        lowpass=32,
        sigma=0.8,
        external_threshold=0.12,
        external_lowpass=None,
        external_sigma=0.2,
        unprotected=Rates(0.2, 0, 0, 0.9, 0.01, 1.0),
        grid=(
            point(None, 0.1),
            point(None, 0.2),
            point(None, 0.3, collisions=0.02),
            point(32, 0.4, collisions=0.01),
            point(32, 0.8),
            point(32, 1.6),
            point(32, 3.2, collisions=0.011),
            point(64, 0.4, collisions=0.02),
        ),
        measured={"photos": 7, "date": "2026-01-01"},
    )


# -- what is deployed ------------------------------------------------------------------------------


def deployed(hash_: HashLike, **parameters: Any) -> MatcherConfig:
    (member,) = deploy(hash_, **parameters).members
    return member.config


def test_rates_keep_what_the_plain_hash_has() -> None:
    plain = Rates(0.2, 0.0, 0.0, variants_matched=0.95, collisions=0.01, worst_unrelated=1.0)
    assert replace(plain, variants_matched=0.941).keeps(plain)
    assert not replace(plain, variants_matched=0.939).keeps(plain)
    assert not replace(plain, collisions=0.011).keeps(plain)


@pytest.fixture
def measured(toy_hash: PerceptualHash, profile: Profile) -> PerceptualHash:
    """The hash that the profile was measured for."""
    return replace(toy_hash, version=profile.hash_version)


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
        with pytest.raises(InputError, match=f"low-pass {lowpass} is not among those calibrated for toy"):
            profile.at_lowpass(lowpass)
    for lowpass in (0, 1, -3, 513):
        with pytest.raises(InputError, match=f"low-pass {lowpass} is not between 2 and 512"):
            profile.at_lowpass(lowpass)


# -- on disk ---------------------------------------------------------------------------------------


def test_round_trip(profile: Profile, tmp_path: Path) -> None:
    file = tmp_path / "toy.profile.json"
    profile.save(file)
    assert Profile.load(file) == profile
    assert list(tmp_path.iterdir()) == [file]
    at_once(profile, 0.1).save(file)
    assert Profile.load(file).threshold == 0.1


@pytest.mark.parametrize("step", ["write_bytes", "replace"])
def test_a_failed_save_leaves_the_old_profile(
    step: str, profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "toy.profile.json"
    profile.save(file)
    before = file.read_bytes()

    def fail(self: Path, *_: Any, **__: Any) -> None:
        if step == "write_bytes":
            self.write_text("{")  # as far as the disk allowed
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, step, fail)
        with pytest.raises(InputError, match=r"cannot write .*: No space left"):
            at_once(profile, 0.1).save(file)
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


def test_places_where_nothing_can_be_written(profile: Profile, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for file in (tmp_path / "gone" / "a.json", tmp_path / "file" / "a.json", tmp_path / ("a" * 300)):
        with pytest.raises(InputError, match="cannot write"):
            profile.save(file)
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.json: no such file; check the path"):
        Profile.load(tmp_path / "gone.json")


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/stdin"])
def test_a_device_is_no_profile(device: str) -> None:
    with pytest.raises(InputError, match=f"{device} "):
        Profile.load(Path(device))


def test_a_pipe_is_refused_without_waiting_for_it(tmp_path: Path, toy_hash: PerceptualHash) -> None:
    pipe = tmp_path / "toy.json"
    os.mkfifo(pipe)
    for load in (Profile.load, lambda file: deploy(toy_hash, profile=file)):
        with pytest.raises(InputError, match=r"toy\.json is not a regular file"):
            load(pipe)


def test_a_folder_is_no_profile(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a regular file"):
        Profile.load(tmp_path)


def test_files_of_any_other_size_are_not_read_to_their_end(profile: Profile, tmp_path: Path) -> None:
    file = tmp_path / "toy.json"
    profile.save(file)
    text = file.read_bytes()
    file.write_bytes(text + b" " * (MAX_BYTES - len(text)))
    assert Profile.load(file) == profile
    with file.open("r+b") as opened:
        opened.truncate(2**40)  # all holes: it takes no room, and reading it would
    with pytest.raises(InputError, match="more than the 16,777,216 bytes"):
        Profile.load(file)


def test_what_is_no_text_is_no_profile(tmp_path: Path) -> None:
    file = tmp_path / "toy.json"
    file.write_bytes(b"\xff\xfe{}")
    with pytest.raises(InputError, match=r"toy\.json is not a DualShield profile: it is not text"):
        Profile.load(file)


@pytest.mark.parametrize("name", list(Profile.__dataclass_fields__))
def test_every_field_is_needed(name: str, profile: Profile) -> None:
    data = asdict(profile)
    del data[name]
    with pytest.raises(InputError, match=r"given\.json is not a DualShield profile"):
        Profile.parse(json.dumps(data), "given.json")


@pytest.mark.parametrize(
    "change",
    [
        {"threshold": "0.2"},
        {"sigma": "0.8"},
        {"sigma": None},
        {"sigma": 0.01},  # below every sigma of the grid
        {"sigma": math.nan},
        {"external_sigma": -1},
        {"external_sigma": [0.1]},
        {"lowpass": "32"},
        {"external_lowpass": 32.5},
        {"unprotected": {}},
        {"unprotected": {"collisions": 0.0}},
        {"unprotected": {**asdict(Rates(0.2, 0, 0, 0.9, 0.01, 1.0)), "collisions": "few"}},
        {"grid": {}},
        {"grid": []},
        {"grid": [{"lowpass": None, "sigma": 0.1}]},
        {"grid": [asdict(point(32, 0.8)), {**asdict(point(None, 0.1)), "sigma": "0.1"}]},
        {"grid": [asdict(point(32, 0.8)), {**asdict(point(None, 0.1)), "lowpass": "none"}]},
    ],
    ids=lambda change: ", ".join(f"{name} {json.dumps(value)[:24]}" for name, value in change.items()),
)
def test_values_of_the_wrong_kind(change: dict[str, Any], profile: Profile) -> None:
    with pytest.raises(InputError, match=r"given\.json is not a DualShield profile"):
        Profile.parse(json.dumps({**asdict(profile), **change}), "given.json")


def parsed(profile: Profile, **changes: Any) -> Profile:
    return Profile.parse(json.dumps({**asdict(profile), **changes}), "given.json")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"threshold": 5}, "its threshold is 5, but 0.15 in its grid"),
        ({"threshold": -1}, "its threshold is -1, but 0.15"),
        ({"threshold": math.nan}, "its threshold is nan, but 0.15"),
        ({"threshold": 0.1}, "its threshold is 0.1, but 0.15"),
        ({"external_threshold": 0.15}, "its external_threshold is 0.15, but 0.12"),
        ({"sigma": 0.01}, "no point at low-pass 32, sigma 0.01"),
        ({"sigma": "0.8"}, "no point at low-pass 32, sigma '0.8'"),
        ({"lowpass": 16}, "no point at low-pass 16, sigma 0.8"),
        ({"external_sigma": 0.25}, "no point at low-pass none, sigma 0.25"),
        ({"external_lowpass": 32}, "no point at low-pass 32, sigma 0.2"),
        ({"sigma": 3.2}, "more collisions were measured at low-pass 32, sigma 3.2 than of the plain hash"),
        ({"grid": []}, "no point at low-pass"),
        ({"hash": 5}, "hash is of type int"),
        ({"measured": []}, "measured is of type list"),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
def test_a_value_has_one_place_the_grid(change: dict[str, Any], words: str, profile: Profile) -> None:
    with pytest.raises(InputError) as caught:
        parsed(profile, **change)
    assert words in str(caught.value)
    assert "StopIteration" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("threshold", [-0.1, 0.5, math.nan, math.inf, True, None, 10**400]),
        ("radius_identity", [-1, math.nan, math.inf, "1", 10**400]),
        ("radius_variants", [-1, math.nan]),
        ("variants_matched", [-0.1, 1.1, math.nan]),
        ("collisions", [-0.1, 1.1, math.nan]),
        ("worst_unrelated", [-0.1, 1.1, math.nan, []]),
    ],
)
def test_rates_that_nobody_can_measure(name: str, values: list[Any], profile: Profile) -> None:
    point_ = asdict(profile.grid[2])
    for value in values:
        points = [{**point_, "sigma": 0.9, kind: {**point_[kind], name: value}} for kind in ("consensus", "external")]
        changes: list[dict[str, Any]] = [{"grid": [*(asdict(p) for p in profile.grid), wrong]} for wrong in points]
        for change in (*changes, {"unprotected": {**asdict(profile.unprotected), name: value}}):
            with pytest.raises(InputError, match=rf"given\.json is not a DualShield profile: {name} "):
                parsed(profile, **change)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        *(({"sigma": sigma}, f"sigma {sigma} is not") for sigma in (0, -1, 1001, math.nan, True)),
        *(({"lowpass": lowpass}, f"low-pass {lowpass} is not between") for lowpass in (0, 1, -3, 513)),
        *(({"lowpass": lowpass}, f"low-pass {lowpass!r} is not a whole number") for lowpass in (32.5, "32", True)),
        ({}, "its grid has a point twice"),
    ],
)
def test_points_of_a_grid_that_cannot_be(change: dict[str, Any], words: str, profile: Profile) -> None:
    points = [asdict(p) for p in profile.grid]
    with pytest.raises(InputError, match=words):
        parsed(profile, grid=[*points, {**points[0], **change}])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ("[]", "it is not an object"),
        ("{}", "it has no hash"),
    ],
    ids=lambda text: text[:9],
)
def test_what_is_no_profile_at_all(text: str, words: str) -> None:
    with pytest.raises(InputError, match=rf"given\.json is not a DualShield profile: {words}"):
        Profile.parse(text, "given.json")


# -- finding it ------------------------------------------------------------------------------------


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
    assert "hash toy is not calibrated: sigma 0.1; run dualshield calibrate" in caplog.text
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
    with pytest.raises(InputError, match="no place for a profile of hash"):
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
        InputError, match=r"cannot make the folder of profiles .*; set DUALSHIELD_PROFILES to another one"
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
