"""Say a match result in words; every sentence must be exactly true. ``--json`` output is printed by `answers`."""

from __future__ import annotations

import click

from dualshield._common.rounding import down, up
from dualshield.smoothing.detection import MISSED
from dualshield.smoothing.result import AS_IT_IS, MatchResult, MemberResult, psnr_of
from dualshield.smoothing.statistics import Decision

# Votes under a limit law decide, and prove nothing.
LIMIT = "clipped-limit"


def explain(result: MatchResult, false_matches: float | None = None) -> str:
    """Return a match result as text; every sentence must be exactly true."""
    query, reference = (printable(name) for name in (result.query, result.reference))
    lines = [f"{_word(result.decision)}   {query}  against  {reference}"]
    if len(result.members) == 1:
        lines += _votes(result.member) + _views(result.member)
    else:
        lines += [_says(member) for member in result.members]
    lines += _certificate(result)
    flat = [member.hash for member in result.members if member.is_flat]
    if result.decision is Decision.NO_MATCH and flat:
        lines.append(_line("why", f"{flat[0]} sees no structure in the query, as in a flat colour"))
    near = [m for m in result.members if m.soft_distance is None and m.is_near_without_noise and not m.is_flat]
    if result.decision is Decision.NO_MATCH and not result.abstained and near:
        lines += [
            _line(
                "why", f"without noise the codes of {near[0].hash} are within the threshold, but most votes are not:"
            ),
            _line(
                "", "an image with little detail, such as a flat colour, is lost in this noise; try a smaller --sigma"
            ),
        ]
    if len(result.members) == 1:
        lines.append(_line("matcher", _matcher(result.member)))
    else:
        lines.append(_line("false matches", _rate(false_matches)))
    lines.append(_line("reference", f"{result.reference_fingerprint[:16]}, deployment {result.deployment[:16]}"))
    if result.noise_source == "seeded":
        lines.append(
            _line(
                "noise",
                "SEEDED, for experiments: anyone who knows the seed knows the noise, and may evade within any radius",
            )
        )
    return "\n".join(lines)


def printable(name: str) -> str:
    """Return an untrusted name on one line, with control characters escaped."""
    try:
        text = click.format_filename(name)
    except UnicodeEncodeError:  # half characters (surrogates), which only text from a file can hold
        text = name
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _word(decision: Decision) -> str:
    return decision.value.replace("_", " ").upper()


def _line(label: str, text: str) -> str:
    return f"  {label:<20} {text}"


def _votes(member: MemberResult) -> list[str]:
    if member.soft_distance is not None:
        comparison = "at most" if member.decision is Decision.MATCH else "above"
        return [
            _line(f"plain {member.hash} distance", f"{member.distance:.3f}"),
            _line("soft distance", f"{member.soft_distance:.4f}, {comparison} the threshold {member.threshold:.4f}"),
        ]
    sides = {Decision.MATCH: " for a match", Decision.NO_MATCH: " against a match"}
    side = sides.get(member.decision, " on one side")
    rule = f"within {int(member.threshold * member.bits + 1e-9)} of {member.bits} bits"
    if member.rule == "native":
        rule = f"below a native distance of {member.threshold:g}"
    return [
        _line(f"plain {member.hash} distance", f"{member.distance:.3f}"),
        _line("votes", f"{member.votes} of {member.draws}{side} (a vote matches {rule})"),
    ]


def _views(member: MemberResult) -> list[str]:
    """Return the line about views: those that matched, or that none did."""
    if member.trials == 1 and member.reference_view == AS_IT_IS:
        return []
    if member.decision is Decision.MATCH:
        return [_line("views", f"the query {member.query_view}, the reference {member.reference_view}")]
    tried = "views of the query" if member.soft_distance is not None else "trials (views of the query, at each sigma)"
    proven = "no match in any" if member.decision is Decision.NO_MATCH else "no decision is proven, out"
    return [_line("views", f"{proven} of {member.trials} {tried}")] if member.trials > 1 else []


def _certificate(result: MatchResult) -> list[str]:
    """Return the lines about the certificate: what it excludes, and what it does not."""
    if result.abstained:
        told = "" if result.decision is Decision.ABSTAIN else f"; abstentions are answered as {_word(result.decision)}"
        return [_line("certificate", f"none: these votes prove no decision{told}")]
    if result.radius <= 0:
        return [_line("certificate", f"none: {_no_radius(result)}")]
    best = max(result.members, key=lambda member: member.radius if member.decision is result.decision else -1.0)
    # One member's proof is enough for a match; a non-match needs all members.
    if not result.alpha or (result.decision is Decision.MATCH and best.soft_distance is not None):
        return _proof(result)
    word, opposite = _word(result.decision), "NO MATCH" if result.decision is Decision.MATCH else "MATCH"
    abstention = "it may still lead to ABSTAIN"
    if result.on_abstain is not Decision.ABSTAIN:
        abstention = f"it may still lead to an abstention, which is answered as {_word(result.on_abstain)}"
    mixed = any(member.soft_distance is not None for member in result.members)
    what = "the majority of votes, or the soft distance," if mixed else "the majority of votes"
    if any(member.trials > 1 for member in result.members):
        several = " in any view, at any sigma," if result.decision is Decision.NO_MATCH else " in these views"
        what = what.replace("the majority of votes", f"the majority of votes{several}")
    detected = psnr_of(result.radius_detected)
    return [
        *_radius(result),
        _line("", f"no shorter change moves {what} to {opposite}; {abstention}"),
        _line(
            "detected radius",
            f"{down(result.radius_detected, 4)}" + (f" (PSNR {up(detected, 1)} dB)" if detected else ""),
        ),
        _line("", f"any shorter change is still answered {word}, with probability {1 - MISSED:g} on fresh noise"),
        _line("confidence", f"both statements are wrong with probability at most alpha = {result.alpha:g}"),
    ]


def _radius(result: MatchResult) -> list[str]:
    """Return the certified radius in its units."""
    upload = ""
    if result.radius_upload is not None:
        upload = f"; {down(result.radius_upload, 4)} in the upload's own samples"
    assert result.psnr is not None
    return [
        _line("certified radius", f"{down(result.radius, 4)} in l2 on {result.radius_space} pixels in [0,1]{upload}"),
        _line(
            "",
            f"= a PSNR of at least {up(result.psnr, 1)} dB, or {down(result.grey_levels, 2)} of 255 grey levels (RMS)",
        ),
    ]


def _proof(result: MatchResult) -> list[str]:
    """Return the lines about an exact certificate, which has no probability in it."""
    return [
        *_radius(result),
        _line("", f"any shorter change is still answered {_word(result.decision)}: proven, not sampled"),
        _line("", "nothing has to be secret or random: the attacker may know the hash, the reference, everything"),
    ]


def _no_radius(result: MatchResult) -> str:
    if any(member.noise == LIMIT for member in result.members):
        return "this noise is a limit law, for experiments; its votes give a decision but prove nothing"
    if not result.alpha:
        return "the soft distance is too near the threshold to prove a radius"
    return "the majority is proven, but no radius around it"


def _matcher(member: MemberResult) -> str:
    lowpass = "no low-pass" if member.lowpass is None else f"low-pass {member.lowpass}"
    if member.soft_distance is not None:
        return f"exact, sigma {member.sigma:g}, {lowpass}, {1000 * member.seconds:.1f} ms"
    proven = f", p >= {down(member.p_lower, 5)}" if member.p_lower else ""
    return (
        f"sigma {member.sigma:g}, {member.noise} noise, {lowpass}, reference mode {member.reference_mode}, "
        f"engine {member.engine}, {member.seconds:.2f} s{proven}"
    )


def _says(member: MemberResult) -> str:
    if member.soft_distance is not None:
        return _line(
            f"{member.hash} says",
            f"{_word(member.decision).lower()}, soft distance {member.soft_distance:.4f} (threshold "
            f"{member.threshold:.4f}), radius {down(member.radius, 4)}, sigma {member.sigma:g}, exact",
        )
    return _line(
        f"{member.hash} says",
        f"{_word(member.decision).lower()}, {member.votes} of {member.draws} votes, radius {down(member.radius, 4)}, "
        f"sigma {member.sigma:g}, {member.seconds:.2f} s",
    )


def _rate(false_matches: float | None) -> str:
    if false_matches is None:
        return "not known: they were not measured for this configuration"
    seen = f"{false_matches:.2e} of" if false_matches else "none seen among"
    return f"{seen} unrelated pairs, the members' calibrated rates added up"
