"""``dualshield match``: the smoothed decision on one pair, with its certificate."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from dualshield.cli.options import Sigma, engine_options, hash_option, json_option
from dualshield.cli.output import explain, explain_ensemble
from dualshield.errors import ExitCode, InputError
from dualshield.hashes import PerceptualHash, from_hex, get_hash
from dualshield.hashes.registry import split_names
from dualshield.images import load_image
from dualshield.smoothing.config import PAPER, MatcherConfig
from dualshield.smoothing.ensemble import EnsembleMatcher, EnsembleResult
from dualshield.smoothing.matcher import MatchResult, SmoothedMatcher
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.profile import UNCALIBRATED_SIGMA, Profile, find_profile
from dualshield.smoothing.statistics import Decision

logger = logging.getLogger(__name__)

CODE_PREFIX = "code:"


@click.command()
@click.argument("reference", metavar="REF")
@click.argument("query", metavar="QUERY")
@hash_option
@click.option("--rule", metavar="hamming|native", default="hamming", help="By bits, or as the hash's authors do.")
@click.option("--profile", type=click.Path(path_type=Path), help="A profile written by 'dualshield calibrate'.")
@click.option("--paper", is_flag=True, help="The paper's parameters: sigma 0.1, paired clipped noise, threshold 0.2.")
@click.option("--reference-mode", metavar="code|bank|paired", help="What each vote compares with.")
@click.option("--noise", metavar="linear|clipped", help="Gaussian noise as it is, or clipped to valid pixels.")
@click.option("--lowpass", metavar="M|none", help="Low-pass the canonical image to M x M first.")
@click.option("--sigma", type=Sigma(), metavar="S|auto", help="Noise level; auto: chosen for this reference.")
@click.option("--n0", type=int, help="Draws that select the class.")
@click.option("--n", type=int, help="Draws that certify it (the most, with --target-radius).")
@click.option("--alpha", type=float, help="Probability that the certificate is wrong.")
@click.option("--target-radius", type=float, metavar="R", help="Stop as soon as this radius is proven or hopeless.")
@click.option("--seed", type=int, help="Reproducible noise, for experiments only; by default it is secret.")
@engine_options
@click.option("--fail-on-match", is_flag=True, help="Exit with 1 on a match.")
@click.option("--fail-on-no-match", is_flag=True, help="Exit with 1 unless it is a match.")
@json_option
def match(reference: str, query: str, hash_name: str, as_json: bool, **options: Any) -> int:
    """Decide whether QUERY matches REF, and certify the decision.

    REF is an image, or a bare code of the plain hash written code:HEX. With --hash A+B a pair matches if any of the
    hashes matches: an attacker must evade all of them at once.
    """
    bare = reference.startswith(CODE_PREFIX)
    names = split_names(hash_name)
    hashes = [get_hash(name).with_rule(options["rule"]) for name in names]
    members = [(hash_, _config(hash_, name, options, bare)) for hash_, name in zip(hashes, names, strict=True)]
    settings = {name: options[name] for name in ("engine", "device", "batch_size")}
    source = GaussianSource.make(options["seed"])
    image = load_image(query)
    result: MatchResult | EnsembleResult
    if len(members) > 1:
        if bare or options["profile"]:
            raise InputError("several hashes at once take an image as REF, and each its own profile")
        ensemble = EnsembleMatcher(members, **settings, source=source)
        result = ensemble.match(ensemble.enroll(load_image(reference)), image)
        shown = explain_ensemble(result, _false_matches(names))
    else:
        matcher = SmoothedMatcher(*members[0], **settings, source=source)
        if bare:
            enrolled = matcher.enroll_code(from_hex(reference.removeprefix(CODE_PREFIX), hashes[0].bits), reference)
        else:
            enrolled = matcher.enroll(load_image(reference))
        result = matcher.match(enrolled, image)
        shown = explain(result)
    click.echo(json.dumps(result.to_dict(), indent=1) if as_json else shown)
    is_match = result.decision is Decision.MATCH
    failed = (options["fail_on_match"] and is_match) or (options["fail_on_no_match"] and not is_match)
    return ExitCode.CONDITION if failed else ExitCode.DONE


def _false_matches(names: list[str]) -> float | None:
    """The sum of the members' calibrated rates; None where one is not calibrated."""
    profiles = [find_profile(name) for name in names]
    rates = [profile.false_matches for profile in profiles if profile is not None]
    return sum(rates) if len(rates) == len(names) else None


def _config(hash_: PerceptualHash, hash_name: str, options: dict[str, Any], bare: bool) -> MatcherConfig:
    """The paper's parameters, or the profile's, with whatever was given explicitly on top."""
    profile = Profile.load(options["profile"]) if options["profile"] else find_profile(hash_name)
    if profile is not None and (profile.hash, profile.hash_version) != (hash_.name, hash_.version):
        raise InputError(
            f"the profile was measured for hash {profile.hash} {profile.hash_version}, not for {hash_.name} "
            f"{hash_.version}; run dualshield calibrate"
        )
    if options["paper"]:
        config = replace(PAPER, reference_mode="code") if bare else PAPER
    elif hash_.rule == "native":
        # What a profile was calibrated for is a threshold on bits, and the collisions there.
        config = MatcherConfig(sigma=UNCALIBRATED_SIGMA)
        if options["sigma"] is None:
            logger.warning("the native rule of %s is not calibrated: sigma %g", hash_name, UNCALIBRATED_SIGMA)
    elif profile is None:
        config = MatcherConfig(sigma=UNCALIBRATED_SIGMA)
        if options["sigma"] is None:
            logger.warning("hash %s has no profile: sigma %g; run dualshield calibrate", hash_name, UNCALIBRATED_SIGMA)
    elif bare:
        config = profile.external_config()
        if options["sigma"] is None and options["lowpass"] not in (None, str(config.lowpass or "none")):
            raise InputError("a bare code behind another low-pass than the profile's needs sigma as a number")
    else:
        if options["lowpass"] is not None and options["sigma"] in (None, "auto"):
            profile = profile.at_lowpass(_lowpass(options["lowpass"]))
        config = profile.widest_config() if options["sigma"] == "auto" else profile.config()
    names = ("reference_mode", "noise", "sigma", "n0", "n", "alpha", "target_radius")
    changes = {name: options[name] for name in names if options[name] is not None}
    if options["lowpass"] is not None:
        changes["lowpass"] = _lowpass(options["lowpass"])
    return replace(config, **changes)


def _lowpass(text: str) -> int | None:
    if text.lower() == "none":
        return None
    try:
        return int(text)
    except ValueError as error:
        raise InputError(f"low-pass {text!r} is neither a whole number nor none") from error
