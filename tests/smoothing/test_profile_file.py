"""Profiles on disk: how they are kept, and which files are none."""

from __future__ import annotations

import errno
import json
import math
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from dualshield.errors import InputError
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.profile import MAX_BYTES, OPTIONAL, Profile, Rates
from tests.helpers.profiles import point


def at_once(profile: Profile, threshold: float) -> Profile:
    """The profile with another vote threshold, in all places that tell it."""
    grid = tuple(replace(p, consensus=replace(p.consensus, threshold=threshold)) for p in profile.grid)
    return replace(profile, threshold=threshold, grid=grid)


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
    with pytest.raises(InputError, match="limit of 16,777,216 bytes"):
        Profile.load(file)


def test_what_is_no_text_is_no_profile(tmp_path: Path) -> None:
    file = tmp_path / "toy.json"
    file.write_bytes(b"\xff\xfe{}")
    with pytest.raises(InputError, match=r"toy\.json is not a DualShield profile: it is not text"):
        Profile.load(file)


@pytest.mark.parametrize("name", [name for name in Profile.__dataclass_fields__ if name not in OPTIONAL])
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
        ({"sigma": 3.2}, "more collisions were measured at low-pass 32, sigma 3.2 than with the plain hash"),
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
        ({}, "the same point occurs twice in its grid"),
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
