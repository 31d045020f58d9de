"""The smoothed matcher of one hash: votes over noisy comparisons, and the certificate they prove.

The certificate states: with probability at least 1 - alpha over the defender's noise, the majority of votes on every
query within l2 distance ``radius`` (canonical pixels) of this one is the same, whatever the attacker knows or does, as
long as the query noise is fresh. It holds for the function that the named engine computes, in real arithmetic, for this
pair (not simultaneously for many). Under ``clipped-limit`` noise, which only experiments use, votes follow an
approximation by the central limit theorem: they decide, and certify nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch

from dualshield.engines.engine import Engine
from dualshield.errors import InputError
from dualshield.hashes.codes import bit_error_rate
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images.space import CANONICAL_SIZE
from dualshield.smoothing.config import MatcherConfig
from dualshield.smoothing.detection import MISSED, detected_radius, least_for_fixed, least_for_sequential
from dualshield.smoothing.enrollment import choose_sigma, enrollment_draws, enrollment_source, enrollment_terms
from dualshield.smoothing.member_reference import DrawnCodes, MemberReference, majority
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.result import MemberResult
from dualshield.smoothing.sampler import Sampler
from dualshield.smoothing.sequential import TargetRadiusTest, largest_reachable, looks
from dualshield.smoothing.statistics import Certificate, Decision, fixed_certificate

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

    def enroll(self, pixels: torch.Tensor) -> MemberReference:
        """Enroll a reference image; its sigma and codes are fixed here, before any query is seen."""
        config = self.config
        pixels = pixels.detach().cpu().float().clone()  # independent of later changes by the caller
        source = enrollment_source(self.terms, pixels)
        plain = self.plain_hash.code(pixels)
        if config.reference_mode == "paired" and len(config.sigmas) == 1:
            return MemberReference(self.terms, float(config.sigmas[0]), plain, plain, pixels=pixels)
        size = enrollment_draws(self.plain_hash, config)
        sigma, bank = choose_sigma(self.sampler, pixels, config.sigmas, size, config.reference_mode, source)
        if config.reference_mode == "paired":
            return MemberReference(self.terms, float(sigma), plain, plain, pixels=pixels)
        kept = bank if config.reference_mode == "bank" else None
        return MemberReference(self.terms, float(sigma), plain, majority(bank), bank=kept)

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
        if code.shape != (self.hash.bits,) or code.dtype != torch.bool:
            raise InputError(f"the code has {code.numel()} values, but hash {self.hash.name} has {self.hash.bits} bits")
        return MemberReference(self.terms, float(self.config.sigma), code, code, is_bare=True)

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
        found = self.certify(reference, pixels, noise)
        plain = self.plain_hash.code(pixels)
        by_bits = self.hash.rule == "hamming"
        return MemberResult(
            hash=self.hash.name,
            hash_version=self.hash.version,
            decision=found.decision,
            method="votes",
            rule=self.hash.rule,
            distance=bit_error_rate(reference.plain, plain)
            if by_bits
            else float(self.hash.distances(reference.plain, plain)),
            threshold=self.hash.threshold if by_bits else self.hash.boundary,
            bits=self.hash.bits,
            votes=found.votes,
            draws=found.draws,
            p_lower=found.p_lower,
            radius=found.radius,
            radius_detected=self._detected(found, reference.sigma),
            alpha=self.config.alpha,
            sigma=reference.sigma,
            noise=self.config.noise,
            lowpass=self.hash.lowpass,
            reference_mode=reference.mode,
            engine=self.engine.name,
            seconds=time.perf_counter() - started,
        )

    def certify(self, reference: MemberReference, pixels: torch.Tensor, noise: GaussianSource) -> Certificate:
        """Return the certificate that the votes prove; its radius is 0 if this kind of noise does not certify."""
        certify = self._fixed if self.config.target_radius is None else self._sequential
        found = certify(reference, pixels, noise)
        return found if self.config.certifies else replace(found, p_lower=0.0, radius=0.0)

    def votes(
        self,
        reference: MemberReference,
        pixels: torch.Tensor,
        draws: int,
        noise: GaussianSource,
        batch: int | None = None,
    ) -> Generator[torch.Tensor, None, None]:
        """Yield batches of i.i.d. votes (bool), one per query draw."""
        queries = self.sampler.codes(pixels, reference.sigma, draws, noise.fork("query"), batch=batch)
        for codes, references in reference.pair(queries, draws, self.sampler, noise, batch=batch):
            self._voted(len(codes))
            yield self.hash.matches(codes, references)

    def count(self, reference: MemberReference, pixels: torch.Tensor, draws: int, noise: GaussianSource) -> int:
        """Return how many of ``draws`` fresh votes are for a match."""
        return sum(int(votes.sum()) for votes in self.votes(reference, pixels, draws, noise))

    def distances(
        self,
        reference: MemberReference,
        pixels: torch.Tensor,
        draws: int,
        query_noise: GaussianSource,
        reference_noise: GaussianSource,
    ) -> torch.Tensor:
        """Return the distances between query code and reference code in ``draws`` votes."""
        queries = self.sampler.codes(pixels, reference.sigma, draws, query_noise)
        pairs = reference.pair(queries, draws, self.sampler, reference_noise)
        return torch.cat([self.hash.distances(codes, other) for codes, other in pairs])

    def _fixed(self, reference: MemberReference, pixels: torch.Tensor, noise: GaussianSource) -> Certificate:
        """Algorithm 2: N0 draws select the class, N independent draws certify it."""
        config = self.config
        selecting, certifying = reference.split(config.n0)
        selection = self.count(selecting, pixels, config.n0, noise.fork("select"))
        matched = 2 * selection > config.n0
        matches = self.count(certifying, pixels, config.n, noise.fork("certify"))
        votes = matches if matched else config.n - matches
        return fixed_certificate(
            matched=matched, votes=votes, draws=config.n, alpha=config.alpha, sigma=reference.sigma
        )

    def _sequential(self, reference: MemberReference, pixels: torch.Tensor, noise: GaussianSource) -> Certificate:
        """Draw until the target radius is proven, or until it is out of reach and the decision is proven."""
        config = self.config
        assert config.target_radius is not None
        test = TargetRadiusTest(config.target_radius, reference.sigma, config.alpha, config.n)
        batches = self.votes(reference, pixels, config.n, noise, batch=SEQUENTIAL_BATCH)
        waiting, matches, before = torch.empty(0, dtype=torch.bool), 0, 0
        for draws in looks(config.n):
            while len(waiting) < draws - before:
                waiting = torch.cat([waiting, next(batches)])
            matches += int(waiting[: draws - before].sum())
            waiting, before = waiting[draws - before :], draws
            found = test.look(matches, draws)
            if found is not None:
                batches.close()
                return found
        raise AssertionError("the test always ends at its limit")

    def _detected(self, found: Certificate, sigma: float) -> float:
        """Return the radius within which this matcher still gives the same answer (`detection`)."""
        if found.radius <= 0:
            return 0.0
        config, or_abstain = self.config, self.abstain_as is found.decision
        if config.target_radius is None:
            matched = found.decision is Decision.MATCH
            least = least_for_fixed(
                config.n0, config.n, config.alpha, self.missed, matched=matched, or_abstain=or_abstain
            )
        else:
            least = least_for_sequential(config.n, config.alpha, self.missed, or_abstain=or_abstain)
        return min(found.radius, detected_radius(found.p_lower, least, sigma))

    def _check_target(self) -> None:
        config = self.config
        if config.target_radius is None:
            return
        sigma = max(config.sigmas)
        if not TargetRadiusTest(config.target_radius, sigma, config.alpha, config.n).reachable:
            raise InputError(
                f"target radius {config.target_radius:g} cannot be proven with sigma {sigma:g}, alpha {config.alpha:g} "
                f"and at most {config.n} draws (largest: {largest_reachable(sigma, config.alpha, config.n):.4g}); "
                "raise n or sigma"
            )
