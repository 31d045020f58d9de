"""Presets of views: in profiles, in deployments, and refused where they are wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dualshield.errors import InputError
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images.views import IDENTITY, View
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.preset import Preset
from dualshield.smoothing.profile import Profile
from dualshield.smoothing.views import NO_VIEWS, Views
from tests.helpers.profiles import deployed

VIEWS = Views((IDENTITY, View(mirror=True)), (IDENTITY, View.trimmed(0.06)))
PRESET = Preset(VIEWS, 0.14, 0.2, 0.11, false_matches=0.001)
MORE = Preset(Views((*VIEWS.reference, View(turn=1)), VIEWS.query), 0.13, 0.2, 0.1, false_matches=0.0)


@pytest.fixture
def viewed(profile: Profile) -> Profile:
    return replace(profile, presets={"standard": PRESET, "thorough": MORE})


def test_a_profile_with_presets_survives_its_file(viewed: Profile, tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    viewed.save(file)
    assert Profile.load(file) == viewed


def test_profiles_from_before_have_no_presets(profile: Profile, tmp_path: Path) -> None:
    data = profile.to_json()
    del data["presets"]
    assert Profile.parse(json.dumps(data), "old").presets == {}


def test_standard_is_the_usual_preset(measured: PerceptualHash, viewed: Profile) -> None:
    config = deployed(measured, profile=viewed)
    assert config.views == VIEWS
    assert (config.threshold, config.second_sigma, config.second_threshold) == (0.14, 0.2, 0.11)
    assert config.probes
    assert deployed(measured, profile=viewed, views="thorough").views == MORE.views
    none = deployed(measured, profile=viewed, views="none")
    assert (none.views, none.second_sigma, none.probes, none.threshold) == (NO_VIEWS, None, False, 0.15)


def test_the_calibrated_rate_of_a_preset_is_known(measured: PerceptualHash, viewed: Profile) -> None:
    assert deploy(measured, profile=viewed).false_matches == 0.001
    assert deploy(measured, profile=viewed, n=77).false_matches == 0.001
    assert deploy(measured, profile=viewed, views="thorough").false_matches == 0.0
    assert deploy(measured, profile=viewed, views="none").false_matches == 0.0
    assert deploy(measured, profile=viewed, threshold=0.1).false_matches is None


@pytest.mark.parametrize(
    "parameters", [{"reference_mode": "bank"}, {"noise": "clipped"}, {"lowpass": None}, {"parameters": "paper"}]
)
def test_other_kinds_of_matchers_have_no_usual_views(
    measured: PerceptualHash, viewed: Profile, parameters: dict[str, Any]
) -> None:
    source = {} if "parameters" in parameters else {"profile": viewed}
    assert deployed(measured, **source, **parameters).views == NO_VIEWS


def test_bare_codes_have_no_views(measured: PerceptualHash, viewed: Profile) -> None:
    assert deployed(measured, profile=viewed, for_codes=True).views == NO_VIEWS
    with pytest.raises(InputError, match="reference image"):
        deploy(measured, profile=viewed, for_codes=True, views="standard")


def test_own_views_take_the_thresholds_of_the_strictest_preset(measured: PerceptualHash, viewed: Profile) -> None:
    own = Views((IDENTITY, View(turn=2)))
    config = deployed(measured, profile=viewed, views=own)
    assert (config.views, config.threshold, config.second_threshold) == (own, 0.13, 0.1)


def test_a_threshold_is_for_both_levels(measured: PerceptualHash, viewed: Profile) -> None:
    config = deployed(measured, profile=viewed, threshold=0.05)
    assert (config.threshold, config.second_threshold) == (0.05, 0.05)


def test_views_of_a_file(measured: PerceptualHash, viewed: Profile, tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(VIEWS.to_json()))
    assert deployed(measured, profile=viewed, views=file).views == VIEWS
    assert deployed(measured, profile=viewed, views=str(file)).views == VIEWS
    with pytest.raises(InputError, match="no such file"):
        deploy(measured, profile=viewed, views=tmp_path / "other.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"threshold": 0.6}, "threshold"),
        ({"threshold": "x"}, "threshold"),
        ({"second_sigma": -1}, "second_sigma"),
        ({"second_sigma": None}, "belong together"),
        ({"false_matches": 2}, "false_matches"),
        ({"exact_thresholds": 3}, "exact_thresholds"),
        ({"exact_thresholds": [0.1]}, "one threshold for each sigma"),
        ({"views": {"reference": [{}], "query": [{"turn": 1}]}}, "as it is"),
        ({"more": 1}, "fields"),
    ],
)
def test_hostile_presets(viewed: Profile, change: dict[str, Any], message: str) -> None:
    data = viewed.to_json()
    data["presets"]["standard"].update(change)
    with pytest.raises(InputError, match=message):
        Profile.parse(json.dumps(data), "bad")


def test_unknown_names_of_presets(viewed: Profile) -> None:
    data = viewed.to_json()
    data["presets"]["best"] = data["presets"]["standard"]
    with pytest.raises(InputError, match="standard and thorough"):
        Profile.parse(json.dumps(data), "bad")
