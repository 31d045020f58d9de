"""How commands show results to people; ``--json`` never comes through here."""

from __future__ import annotations

import sys

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from dualshield.smoothing.ensemble import EnsembleResult
from dualshield.smoothing.matcher import MatchResult

PLAIN_WIDTH = 140


class Output(Console):
    """A console that leaves a broken pipe to ``main``; rich would exit with 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console() -> Console:
    """Standard output; wide enough for tables when it is not a terminal."""
    # No markup: rich would take the brackets of dualshield[neuralhash] for a style and drop them.
    return Output(markup=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)


def progress() -> Progress:
    """A progress bar on stderr; silent when stderr is not a terminal."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
    )


def explain(result: MatchResult) -> str:
    """A match result in sentences."""
    query, reference = (click.format_filename(name) for name in (result.query, result.reference))
    lines = [
        f"{result.decision.value.replace('_', ' ').upper()}   {query}  against  {reference}",
        f"  plain {result.hash} distance  {result.distance:.3f}",
    ]
    side = {"match": " for a match", "no_match": " against a match"}.get(result.decision.value, "")
    rule = f"within a bit error rate of {result.threshold:.3g}"
    if result.rule == "native":
        rule = f"below a native distance of {result.threshold:g}"
    lines.append(f"  votes                {result.votes} of {result.draws}{side} (a vote matches {rule})")
    if result.decision == "abstain":
        lines.append("  certificate          none: the votes do not prove a decision at this radius and alpha")
    else:
        lines.append(
            f"  certified radius     {result.radius:.4f} in l2 on {result.radius_space} pixels in [0,1]"
            + ("" if result.radius_upload is None else f" ({result.radius_upload:.4f} in the upload's own pixels)")
        )
        lines.append(
            f"                       no perturbation smaller than that changes this decision"
            f" (alpha {result.alpha:g}, p >= {result.p_lower:.5f})"
        )
    lowpass = "no low-pass" if result.lowpass is None else f"low-pass {result.lowpass}"
    lines.append(
        f"  matcher              sigma {result.sigma:g}, {result.noise} noise, {lowpass},"
        f" reference mode {result.reference_mode}, engine {result.engine}, {result.seconds:.2f} s"
    )
    return "\n".join(lines)


def explain_ensemble(result: EnsembleResult, false_matches: float | None) -> str:
    """A joint decision in sentences."""
    query, reference = (click.format_filename(name) for name in (result.query, result.reference))
    lines = [f"{result.decision.value.replace('_', ' ').upper()}   {query}  against  {reference}"]
    lines += [
        f"  {member.hash + ' says':<20} {member.decision.value.replace('_', ' ')}, {member.votes} of {member.draws}"
        f" votes, radius {member.radius:.4f}, sigma {member.sigma:g}, {member.seconds:.2f} s"
        for member in result.members
    ]
    if result.decision == "abstain":
        lines.append("  certificate          none: no member proves a match, and not all prove a non-match")
    else:
        lines.append(
            f"  certified radius     {result.radius:.4f} in l2 on {result.radius_space} pixels in [0,1]"
            f" (joint alpha {result.alpha:g}, divided among the members)"
        )
    rate = "not known: a member has no profile"
    if false_matches is not None:
        seen = f"{false_matches:.2e} of" if false_matches else "none seen among"
        rate = f"{seen} unrelated pairs, the members' calibrated rates added up"
    lines.append(f"  false matches        {rate}")
    return "\n".join(lines)
