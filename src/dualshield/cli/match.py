"""``dualshield match``: decide whether two images match, with a certificate."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from dualshield.cli.answers import echo_object
from dualshield.cli.explain import explain
from dualshield.cli.inputs import STDIN, ImageInput
from dualshield.cli.options import (
    deployment_options,
    deployment_parameters,
    engine_options,
    hash_option,
    json_option,
    matcher_option,
    outputs_of,
)
from dualshield.cli.paths import FilePath
from dualshield.errors import ExitCode, InputError, UnusableReferenceError
from dualshield.hashes.registry import get_linear, hash_names, split_names
from dualshield.hashes.threshold import DEFAULT_THRESHOLD
from dualshield.smoothing.choose import (
    KEEP,
    Wanted,
    as_views,
    exact_config,
    is_bare_code,
    is_exact,
    is_kept,
    kept_views,
    method_of,
)
from dualshield.smoothing.exact.config import VOTE_PARAMETERS
from dualshield.smoothing.exact.deployment import ExactDeployment
from dualshield.smoothing.profile import Profile, find_profile
from dualshield.smoothing.reference import Reference
from dualshield.smoothing.reference_file import SUFFIX
from dualshield.smoothing.result import MatchResult
from dualshield.smoothing.statistics import Decision


@click.command()
@click.argument("reference", metavar="REF")
@click.argument("query", metavar="QUERY")
@hash_option
@matcher_option("--method")
@deployment_options
@click.option("--paper", is_flag=True, help="The paper's parameters: sigma 0.1, paired clipped noise, threshold 0.2.")
@click.option(
    "--n0", type=int, help="Votes that choose the class to certify; they are never reused for the certificate."
)
@click.option("--alpha", type=float, help="Largest probability that the certificate is wrong.")
@click.option(
    "--target-radius",
    type=float,
    metavar="R",
    help="Stop as soon as this radius is proven. If it cannot be proven, the query is still decided.",
)
@click.option("--seed", type=int, help="Reproducible noise, for experiments only; by default it is secret.")
@engine_options
@click.option(
    "--on-abstain",
    type=click.Choice(["match", "no-match", "abstain"]),
    default="abstain",
    show_default=True,
    help="The decision for a query whose votes prove nothing.",
)
@click.option("--save-reference", type=FilePath(), help="Save the enrolled reference to this file.")
@click.option("--overwrite", is_flag=True, help="Replace the file of --save-reference.")
@click.option("--force", is_flag=True, help="Enroll REF even if it has too little structure to be told from others.")
@click.option("--fail-on-match", is_flag=True, help="Exit with code 1 on a match or an abstention.")
@click.option("--fail-on-no-match", is_flag=True, help="Exit with code 1 unless the decision is a match.")
@json_option
@click.pass_context
def match(ctx: click.Context, /, reference: str, query: str, hash_name: str, as_json: bool, **options: Any) -> int:
    """Decide whether QUERY matches REF, and certify the decision.

    REF is an image, a saved reference (a file ending in .dsref), or a bare code of the plain hash written code:HEX. A
    saved reference contains the name of its hash. With --hash A+B a pair matches if any of the hashes matches:
    an attacker must evade all of them at once. REF or QUERY may be - for an image on standard input.
    """
    if reference == query == STDIN:
        raise InputError("REF and QUERY cannot both be standard input; give a file for one")
    keep: Path | None = options["save_reference"]
    if keep is not None and not is_kept(keep):
        raise InputError(f"cannot save the reference to {keep}: the name must end in {SUFFIX}")
    outputs = outputs_of((reference, query, options["profile"], *split_names(hash_name)), options["overwrite"])
    outputs.check(keep)
    kept = Reference.load(reference) if is_kept(reference) else None
    if kept is not None and ctx.get_parameter_source("hash_name") is not ParameterSource.COMMANDLINE:
        hash_name = _hash_of(kept)
    options["matcher"] = method_of(kept, options["matcher"], hash_name)
    options["views"] = kept_views(kept, options["views"], hash_name)
    answer = _answer(hash_name, reference, kept, query, options)
    if keep is not None:
        outputs.check(keep)
        answer.enrolled.save(keep)
    result = answer.result
    if as_json:
        echo_object(result.to_dict())
    else:
        click.echo(explain(result, answer.false_matches))
    return _exit_code(result, options["fail_on_match"], options["fail_on_no_match"])


@dataclass(frozen=True)
class _Answer:
    result: MatchResult
    enrolled: Reference
    false_matches: float | None


def _answer(hash_name: str, reference: str, kept: Reference | None, query: str, options: dict[str, Any]) -> _Answer:
    """Decide with an exact matcher, without loading torch, or with a deployment of any kind."""
    is_bare = is_bare_code(reference) or (kept is not None and kept.is_bare)
    found = _exact(hash_name, is_bare, options)
    if found is None:
        return _deployed(hash_name, reference, kept, query, is_bare, options)
    image = ImageInput(Path(query)).load_array()
    if kept is not None:
        enrolled = kept
    elif is_bare:
        enrolled = found.enroll_code(reference)
    else:
        enrolled = found.enroll(ImageInput(Path(reference)).load_array())
    return _Answer(found.match(enrolled, image), enrolled, found.false_matches)


def _exact(hash_name: str, is_bare: bool, options: dict[str, Any]) -> ExactDeployment | None:
    """Return an exact deployment where these options ask for one; None where they ask for votes."""
    linear = get_linear(hash_name)
    # What the library checks in parameters that an exact matcher does not use, it checks with its own words.
    unusual = any(options[name] is not None for name in ("batch_size", "seed")) or options["device"] != "cpu"
    if linear is None or options["rule"] not in (None, "hamming") or unusual:
        return None
    given = deployment_parameters(options)
    profile = find_profile(hash_name) if given["profile"] is None else Profile.load(given["profile"])
    names = (*VOTE_PARAMETERS, "threshold")
    changes = {name: given.get(name, options.get(name)) for name in names}
    wanted = Wanted(
        profile,
        "paper" if options["paper"] else "profile",
        None,
        is_bare,
        options["matcher"],
        given["sigma"],
        given.get("lowpass", KEEP),
        as_views(given["views"]),
        {name: value for name, value in changes.items() if value is not None},
    )
    if not is_exact(linear.name, linear, profile, wanted):
        return None
    if profile is None or profile.exact is None:
        return None  # a deployment says that this is not calibrated
    if (profile.hash, profile.hash_version) != (linear.name, linear.version):
        return None  # and what is wrong here
    plain = int(DEFAULT_THRESHOLD * linear.bits + 1e-9) + 0.5
    config = exact_config(linear.name, DEFAULT_THRESHOLD, profile, wanted)
    on_abstain = Decision(options["on_abstain"].replace("-", "_"))
    return ExactDeployment(linear, config, plain, profile, options["engine"], on_abstain)


def _deployed(
    hash_name: str, reference: str, kept: Reference | None, query: str, is_bare: bool, options: dict[str, Any]
) -> _Answer:
    from dualshield.cli.waiting import waiting
    from dualshield.smoothing.deploy import as_reference, deploy
    from dualshield.smoothing.noise import GaussianSource

    deployment = deploy(
        hash_name,
        parameters="paper" if options["paper"] else "profile",
        for_codes=is_bare,
        **deployment_parameters(options),
        **{name: options[name] for name in ("n0", "alpha", "target_radius", "on_abstain")},
        **{name: options[name] for name in ("engine", "device", "batch_size")},
    )
    image = ImageInput(Path(query)).load()
    source = ImageInput(Path(reference)).load() if reference == STDIN else reference
    enrolled = as_reference(deployment, source, force=options["force"]) if kept is None else kept
    with waiting("votes") as progress:
        result = deployment.match(enrolled, image, noise=GaussianSource.make(options["seed"]), progress=progress)
    return _Answer(result, enrolled, deployment.false_matches)


def _hash_of(kept: Reference) -> str:
    """Return the names of a reference's hashes; paths are refused, because loading a card may run programs."""
    names = [str(member.terms["hash"]["name"]) for member in kept.members]
    for name in names:
        if name not in hash_names():
            raise UnusableReferenceError(
                f"reference {kept.name} was enrolled for the hash {name}, which is not known here; give its "
                "card or hash with --hash"
            )
    return "+".join(names)


def _exit_code(result: MatchResult, fail_on_match: bool, fail_on_no_match: bool) -> ExitCode:
    """Return the exit code; an abstention may be a match, so --fail-on-match fails on it too."""
    may_match = result.decision is not Decision.NO_MATCH
    failed = (fail_on_match and may_match) or (fail_on_no_match and result.decision is not Decision.MATCH)
    return ExitCode.CONDITION if failed else ExitCode.DONE
