"""The smoothed matcher of one hash: votes over noisy comparisons, and the certificate they prove.

The certificate states: with probability at least 1 - alpha over the defender's noise, the majority of votes on every
query within l2 distance ``radius`` (canonical pixels) of this one is the same (of a match, in the named trial; of a
non-match, in every trial), whatever the attacker knows or does, as long as the query noise is fresh. It holds for the
function that the named engine computes, in real arithmetic, for this pair (not simultaneously for many). Under
``clipped-limit`` noise, which only experiments use, votes follow an approximation by the central limit theorem: they
decide, and certify nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch

from dualshield.engines.engine import Engine
from dualshield.errors import InputError, TooLittleStructureError
from dualshield.hashes.codes import bit_error_rate
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images.space import CANONICAL_SIZE
from dualshield.smoothing.ballot import DrawnBallot, Trial, drawn_distances
from dualshield.smoothing.config import MatcherConfig
from dualshield.smoothing.detection import MISSED
from dualshield.smoothing.enrollment import (
    choose_sigma,
    draw_bank,
    enrolled_levels,
    enrollment_draws,
    enrollment_source,
    enrollment_terms,
)
from dualshield.smoothing.level import Level
from dualshield.smoothing.member_reference import DrawnCodes, MemberReference, majority
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.probes import Probes, is_flat
from dualshield.smoothing.result import MemberResult
from dualshield.smoothing.sampler import Sampler
from dualshield.smoothing.sequential import TargetRadiusTest, largest_reachable
from dualshield.smoothing.statistics import Certificate, Decision
from dualshield.smoothing.trials import Outcome, Procedure

# Batch size of a sequential test, which may stop at any look; larger batches would waste draws.
SEQUENTIAL_BATCH = 32


class SmoothedMatcher:
    """Matches queries by one hash under one configuration. All noise comes as an argument.

    Users work with a `deployment.Deployment`, which has one matcher per hash. ``hash_`` has its rule and vote
    threshold; ``engine`` computes it behind the configured low-pass. ``missed`` is this matcher's share of the
    probability of another answer inside the detected radius. ``abstain_as`` is how the deployment reports abstentions.
    """

    def __init__(
        self,
        hash_: PerceptualHash,
        config: MatcherConfig,
        engine: Engine,
        device: str = "cpu",
        *,
        missed: float = MISSED,
        abstain_as: Decision = Decision.ABSTAIN,
    ) -> None:
        self.plain_hash = hash_
        self.hash = hash_.with_lowpass(config.lowpass)
        self.config = config
        self.engine = engine
        self.sampler = Sampler(self.hash, engine, config.noise_kind, device)
        self.missed, self.abstain_as = missed, abstain_as
        self._voted: Callable[[int], None] = lambda count: None
        self._check_target()

    def reporting(self, voted: Callable[[int], None]) -> SmoothedMatcher:
        """Return a copy that calls ``voted`` with the number of votes in each batch."""
        matcher = copy(self)
        matcher._voted = voted
        return matcher

    # -- references --------------------------------------------------------------------------------

    @cached_property
    def terms(self) -> dict[str, Any]:
        """The enrollment terms that a reference must have to be matched here."""
        return enrollment_terms(self.plain_hash, self.config)

    def enroll(self, pixels: torch.Tensor, *, force: bool = False) -> MemberReference:
        """Enroll a reference image; its sigma and codes are fixed here, before any query is seen.

        An image with too little structure is an error, unless ``force``.
        """
        config = self.config
        pixels = pixels.detach().cpu().float().clone()  # independent of later changes by the caller
        source = enrollment_source(self.terms, pixels)
        plain = self.plain_hash.code(pixels)
        if config.reference_mode == "paired" and len(config.sigmas) == 1:
            level = Level(float(config.sigmas[0]), plain[None], self._threshold)
            return MemberReference(self.terms, plain, (level,), pixels=pixels)
        size = enrollment_draws(self.plain_hash, config)
        sigma, bank = choose_sigma(self.sampler, pixels, config.sigmas, size, config.reference_mode, source)
        if config.reference_mode == "paired":
            level = Level(float(sigma), plain[None], self._threshold)
            return MemberReference(self.terms, plain, (level,), pixels=pixels)
        levels = enrolled_levels(self.sampler, self.plain_hash, config, pixels, sigma, majority(bank), size, source)
        if config.probes and self.hash.rule == "hamming":
            levels = self._probed(levels, pixels, force=force)
        kept = bank if config.reference_mode == "bank" else None
        return MemberReference(self.terms, plain, levels, bank=kept)

    def _probed(self, levels: tuple[Level, ...], pixels: torch.Tensor, *, force: bool) -> tuple[Level, ...]:
        """Lower the threshold of each level until no probe matches; drop levels that lose the image's own variants."""
        found = [replace(level, threshold=self._probes.lowered(level, pixels)) for level in levels]
        possible = [level for level in found if level.threshold is not None and level.threshold >= 0]
        kept = tuple(level for level in possible if self._probes.keeps_variants(level, pixels))
        if kept:
            return kept
        if force and possible:
            return tuple(possible[-1:])
        raise TooLittleStructureError(
            f"too little structure to be recognised by {self.hash.name}: flat colours, ordinary documents or other "
            "images of its kind are as near to it as its own mild variants, so it would match them too; try another "
            "hash" + (", or force" if possible else "")
        )

    @cached_property
    def _probes(self) -> Probes:
        def codes(pixels: torch.Tensor, sigma: float, draws: int) -> torch.Tensor:
            return draw_bank(self.sampler, pixels, sigma, draws, enrollment_source(self.terms, pixels))

        return Probes(codes, self.hash.bits)

    @property
    def _threshold(self) -> float | None:
        return self.hash.threshold if self.hash.rule == "hamming" else None

    @cached_property
    def code_like(self) -> torch.Tensor:
        """An example code with the shape and type that this hash compares."""
        if self.hash.rule == "hamming":
            return torch.zeros(self.hash.bits, dtype=torch.bool)
        return self.plain_hash.code(torch.full((3, CANONICAL_SIZE, CANONICAL_SIZE), 0.5))

    def enroll_code(self, code: torch.Tensor) -> MemberReference:
        """Enroll a bare code from an external hash list; no image is needed."""
        if self.hash.rule == "native":
            raise InputError(f"the native rule of {self.hash.name} does not compare bits; it needs a reference image")
        if self.config.reference_mode != "code":
            raise InputError(f"reference mode {self.config.reference_mode} needs a reference image, not a bare code")
        if self.config.sigma == "auto":
            raise InputError("sigma auto needs a reference image; with a bare code give sigma as a number")
        if not self.config.views.is_none or self.config.second_sigma is not None:
            raise InputError("views and a second sigma need a reference image, not a bare code; use views none")
        if code.shape != (self.hash.bits,) or code.dtype != torch.bool:
            raise InputError(f"the code has {code.numel()} values, but hash {self.hash.name} has {self.hash.bits} bits")
        level = Level(float(self.config.sigma), code[None], self._threshold)
        return MemberReference(self.terms, code, (level,), is_bare=True)

    def for_known_queries(self, reference: MemberReference, noise: GaussianSource) -> MemberReference:
        """Prepare a reference for a fixed set of queries: under paired noise all queries share its noisy codes.

        Each shared code is hashed once instead of once per query. Each certificate is as valid as with separate codes,
        as long as no query was chosen in view of the results of earlier ones. So the prepared reference must not be
        kept for later queries.
        """
        if reference.pixels is None:
            return reference
        draws = self.config.n0 + self.config.n
        codes = self.sampler.codes(reference.pixels, reference.sigma, draws, noise.fork("paired"))
        return replace(reference, drawn=DrawnCodes(codes, draws))

    # -- queries -----------------------------------------------------------------------------------

    def match(self, reference: MemberReference, pixels: torch.Tensor, noise: GaussianSource) -> MemberResult:
        """Decide and certify one query; ``noise`` must be fresh."""
        started = time.perf_counter()
        trials = self.trials(reference)
        outcome, nearest = self._decided(reference, pixels, noise)
        found, trial = outcome.certificate, trials[outcome.trial]
        plain = self.plain_hash.code(pixels)
        by_bits = self.hash.rule == "hamming"
        judge = trial.judge(self.hash)
        or_abstain = self.abstain_as is found.decision
        return MemberResult(
            hash=self.hash.name,
            hash_version=self.hash.version,
            decision=found.decision,
            method="votes",
            rule=self.hash.rule,
            distance=bit_error_rate(reference.plain, plain)
            if by_bits
            else float(self.hash.distances(reference.plain, plain)),
            threshold=judge.threshold if by_bits else judge.boundary,
            bits=self.hash.bits,
            votes=found.votes,
            draws=found.draws,
            p_lower=found.p_lower,
            radius=found.radius,
            radius_detected=self._procedure(trials).detected(outcome, or_abstain=or_abstain),
            alpha=self.config.alpha,
            sigma=trial.level.sigma,
            noise=self.config.noise,
            lowpass=self.hash.lowpass,
            reference_mode=reference.mode,
            engine=self.engine.name,
            seconds=time.perf_counter() - started,
            query_view=str(trial.view),
            reference_view=str(self.config.views.reference[nearest]),
            trials=len(trials),
            is_flat=is_flat(pixels),
        )

    def certify(self, reference: MemberReference, pixels: torch.Tensor, noise: GaussianSource) -> Certificate:
        """Return the certificate that the votes prove; its radius is 0 if this kind of noise does not certify."""
        return self._decided(reference, pixels, noise)[0].certificate

    def trials(self, reference: MemberReference) -> tuple[Trial, ...]:
        """All trials of a query, in the order in which they are tried: the largest sigma and the whole image first."""
        return tuple(Trial(view, level) for level in reference.levels for view in self.config.views.query)

    def count(self, reference: MemberReference, pixels: torch.Tensor, draws: int, noise: GaussianSource) -> int:
        """Return how many of ``draws`` fresh votes of the first trial are for a match."""
        return self._ballot(reference, self.trials(reference)[0], pixels, draws, noise).more(draws)

    def distances(
        self,
        reference: MemberReference,
        pixels: torch.Tensor,
        draws: int,
        query_noise: GaussianSource,
        reference_noise: GaussianSource,
        trial: Trial | None = None,
    ) -> torch.Tensor:
        """Return the distances between query code and reference code in ``draws`` votes of a trial, the first one."""
        trial = trial or self.trials(reference)[0]
        if reference.mode == "code":
            return torch.cat(list(drawn_distances(self.hash, self.sampler, trial, pixels, draws, query_noise)))
        queries = self.sampler.codes(pixels, trial.level.sigma, draws, query_noise)
        pairs = reference.pair(queries, draws, self.sampler, reference_noise)
        return torch.cat([self.hash.distances(codes, other) for codes, other in pairs])

    def _decided(self, reference: MemberReference, pixels: torch.Tensor, noise: GaussianSource) -> tuple[Outcome, int]:
        """Decide a query; return also the view of the reference that was the nearest most often."""
        trials = self.trials(reference)
        selecting, certifying = reference.split(self.config.n0)
        ballots: dict[int, DrawnBallot] = {}
        one_by_one = self.config.target_radius is not None

        def start(trial: int, label: str, most: int) -> DrawnBallot:
            kept = selecting if label == "select" else certifying
            source = noise if one_by_one and len(trials) == 1 else noise.fork(label)
            ballots[trial] = self._ballot(kept, trials[trial], pixels, most, source)
            return ballots[trial]

        outcome = self._procedure(trials).decide(start)
        for ballot in ballots.values():
            ballot.close()
        if not self.config.certifies:
            nothing = replace(outcome.certificate, p_lower=0.0, radius=0.0)
            outcome = Outcome(nothing, outcome.trial, (nothing,) * len(outcome.by_trial))
        return outcome, int(ballots[outcome.trial].nearest.argmax())

    def _ballot(
        self, reference: MemberReference, trial: Trial, pixels: torch.Tensor, draws: int, noise: GaussianSource
    ) -> DrawnBallot:
        batch = None if self.config.target_radius is None else SEQUENTIAL_BATCH
        return DrawnBallot(self.hash, self.sampler, trial, reference, pixels, draws, noise, batch, self._voted)

    def _procedure(self, trials: tuple[Trial, ...]) -> Procedure:
        config = self.config
        sigmas = tuple(trial.level.sigma for trial in trials)
        return Procedure(sigmas, config.n0, config.n, config.alpha, config.target_radius, self.missed)

    def _check_target(self) -> None:
        config = self.config
        if config.target_radius is None:
            return
        sigma = max(config.sigmas)
        alpha = config.alpha / config.most_trials
        if not TargetRadiusTest(config.target_radius, sigma, alpha, config.n).reachable:
            raise InputError(
                f"target radius {config.target_radius:g} cannot be proven with sigma {sigma:g}, alpha {alpha:g} "
                f"and at most {config.n} draws (largest: {largest_reachable(sigma, alpha, config.n):.4g}); "
                "raise n or sigma"
            )
