"""The smoothed matcher: votes over noisy comparisons, and the certificate they prove.

What the certificate says: with probability at least 1 - alpha over the defender's noise, every query within l2
distance ``radius`` (canonical pixels) of this one gets the same majority decision from the matcher with these
parameters, whatever the attacker knows or does, as long as the query noise is fresh. It holds for the function the
named engine computes, in real arithmetic, for this pair (not simultaneously for many). Under ``clipped-limit`` noise,
which only experiments use, votes follow the central limit theorem: a radius then is an estimate and certifies nothing.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from dualshield.errors import InputError
from dualshield.hashes.codes import bit_error_rate
from dualshield.hashes.contract import PerceptualHash
from dualshield.images.canonical import RADIUS_SPACE, CanonicalImage
from dualshield.smoothing.clipped import gaussian_limit
from dualshield.smoothing.config import MatcherConfig
from dualshield.smoothing.engines import Reads, make_engine
from dualshield.smoothing.enrolment import choose_sigma, consensus_draws
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.reference import DrawnCodes, Reference, majority
from dualshield.smoothing.sampler import Sampler
from dualshield.smoothing.statistics import Certificate, Decision, TargetRadiusTest, fixed_certificate

# Anytime-valid tests look after every batch; large batches of cheap draws would overshoot.
SEQUENTIAL_BATCH = 32


@dataclass(frozen=True)
class MatchResult:
    """A decision with its certificate and all that is needed to say what it means."""

    reference: str
    query: str
    hash: str
    hash_version: str
    decision: Decision
    rule: str
    distance: float  # of the plain hashes, no noise, no low-pass: their bit error rate, or as the native rule has it
    threshold: float  # a bit error rate, or the limit of the native rule
    votes: int
    draws: int
    p_lower: float
    radius: float
    radius_space: str
    radius_upload: float | None  # the same guarantee in the upload's own pixels
    sigma: float
    alpha: float
    noise: str
    lowpass: int | None
    reference_mode: str
    target_radius: float | None
    engine: str
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)


class SmoothedMatcher:
    """Matches queries against references under one configuration.

    >>> import dualshield as ds
    >>> matcher = ds.SmoothedMatcher(ds.get_hash("pdq"), ds.MatcherConfig(sigma=1.0, n=500))
    >>> photo = ds.CanonicalImage(torch.rand(3, 512, 512).cumsum(1) / 512, "photo")
    >>> matcher.match(matcher.enroll(photo), photo).decision
    <Decision.MATCH: 'match'>
    """

    def __init__(
        self,
        hash_: PerceptualHash,
        config: MatcherConfig,
        *,
        engine: str = "auto",
        device: str = "cpu",
        batch_size: int | None = None,
        source: GaussianSource | None = None,
    ) -> None:
        if config.threshold is not None:
            hash_ = hash_.with_threshold(config.threshold)
        self.plain_hash = hash_
        self.hash = hash_.with_lowpass(config.lowpass)
        self.config = config
        if config.noise == "clipped-limit":
            gaussian_limit(self.hash)  # refuses what is not linear
        self.source = source or GaussianSource.secret()
        # Clipped noise lies on the pixels, so there a core saves nothing, and mapping to it and back is dear.
        reads: Reads = "features" if config.noise == "clipped" and self.hash.front_end.is_banded else "core"
        self.engine = make_engine(self.hash, engine, device, batch_size, reads=reads)
        self.sampler = Sampler(self.hash, self.engine, config.noise, device)
        self._check_target()

    def draw_from(self, source: GaussianSource) -> None:
        """Take all further noise from here."""
        self.source = source

    # -- references --------------------------------------------------------------------------------

    def enroll(self, image: CanonicalImage) -> Reference:
        """Prepare a reference image; its sigma and codes are fixed here, before any query is seen."""
        config, source = self.config, self.source.fork("enrol")
        as_code = config.reference_mode == "code"
        size = consensus_draws(self.hash, config.bank_size) if as_code else config.bank_size
        sigmas = config.sigma_grid if config.sigma == "auto" else (config.sigma,)
        plain = self.plain_code(image)
        if config.reference_mode == "paired" and len(sigmas) == 1:
            return Reference(image.name, sigmas[0], plain, plain, pixels=image.pixels)
        sigma, bank = choose_sigma(
            self.sampler, image.pixels, sigmas, size, config.reference_mode, config.n, config.alpha, source
        )
        if config.reference_mode == "paired":
            return Reference(image.name, sigma, plain, plain, pixels=image.pixels)
        return Reference(
            image.name, sigma, plain, majority(bank), bank=bank if config.reference_mode == "bank" else None
        )

    def for_known_queries(self, reference: Reference) -> Reference:
        """The same reference for a set of queries that are known already: under paired noise all meet the same codes.

        Each of these is hashed once instead of once for every query. Each certificate is as valid as with codes of its
        own, as long as no query was chosen in the light of what earlier ones met; so it must not be kept for queries
        still to come.
        """
        if reference.pixels is None:
            return reference
        draws = self.config.n0 + self.config.n
        codes = self.sampler.codes(reference.pixels, reference.sigma, draws, self.source.fork("paired"))
        return replace(reference, drawn=DrawnCodes(codes, draws))

    def enroll_code(self, code: torch.Tensor, name: str = "code") -> Reference:
        """A bare code from an external hash list: no image is needed."""
        if self.hash.rule == "native":
            raise InputError(f"the native rule of {self.hash.name} does not compare bits: it needs a reference image")
        if self.config.reference_mode != "code":
            raise InputError(f"reference mode {self.config.reference_mode} needs a reference image, not a bare code")
        if self.config.sigma == "auto":
            raise InputError("sigma auto needs a reference image; with a bare code give sigma as a number")
        if code.shape != (self.hash.bits,):
            raise InputError(f"code of {code.numel()} bits, hash {self.hash.name} has {self.hash.bits}")
        return Reference(name, self.config.sigma, code, code)

    def plain_code(self, image: CanonicalImage) -> torch.Tensor:
        """What the hash says without any shield."""
        return self.plain_hash.code(image.pixels)

    def _distance(self, code: torch.Tensor, other: torch.Tensor) -> float:
        if self.hash.rule == "hamming":
            return bit_error_rate(code, other)
        return float(self.hash.distances(code, other))

    # -- queries -----------------------------------------------------------------------------------

    def match(self, reference: Reference, query: CanonicalImage) -> MatchResult:
        """Decide and certify one pair, with fresh noise."""
        started = time.perf_counter()
        certify = self._fixed if self.config.target_radius is None else self._sequential
        certificate = certify(reference, query.pixels, self.source.fork("match"))
        norm = query.upload_norm
        return MatchResult(
            reference=reference.name,
            query=query.name,
            hash=self.hash.name,
            hash_version=self.hash.version,
            decision=certificate.decision,
            rule=self.hash.rule,
            distance=self._distance(reference.plain, self.plain_code(query)),
            threshold=self.hash.threshold if self.hash.rule == "hamming" else self.hash.boundary,
            votes=certificate.votes,
            draws=certificate.draws,
            p_lower=certificate.p_lower,
            radius=certificate.radius,
            radius_space=RADIUS_SPACE,
            radius_upload=None if norm is None else certificate.radius / norm,
            sigma=reference.sigma,
            alpha=self.config.alpha,
            noise=self.config.noise,
            lowpass=self.hash.lowpass,
            reference_mode=reference.mode,
            target_radius=self.config.target_radius,
            engine=self.engine.name,
            seconds=time.perf_counter() - started,
        )

    def votes(
        self,
        reference: Reference,
        pixels: torch.Tensor,
        draws: int,
        source: GaussianSource,
        batch: int | None = None,
    ) -> Generator[torch.Tensor, None, None]:
        """Batches of i.i.d. votes (bool), one per query draw."""
        queries = self.sampler.codes(pixels, reference.sigma, draws, source.fork("query"), batch=batch)
        for codes, references in reference.pair(queries, draws, self.sampler, source, batch=batch):
            yield self.hash.matches(codes, references)

    def count(self, reference: Reference, pixels: torch.Tensor, draws: int, source: GaussianSource) -> int:
        """How many of ``draws`` fresh votes are for a match."""
        return sum(int(votes.sum()) for votes in self.votes(reference, pixels, draws, source))

    def _fixed(self, reference: Reference, pixels: torch.Tensor, source: GaussianSource) -> Certificate:
        """Algorithm 2: N0 draws select the class, N independent ones certify it."""
        config = self.config
        selecting, certifying = reference.split(config.n0)
        selection = self.count(selecting, pixels, config.n0, source.fork("select"))
        matched = 2 * selection > config.n0
        matches = self.count(certifying, pixels, config.n, source.fork("certify"))
        votes = matches if matched else config.n - matches
        return fixed_certificate(
            matched=matched, votes=votes, draws=config.n, alpha=config.alpha, sigma=reference.sigma
        )

    def _sequential(self, reference: Reference, pixels: torch.Tensor, source: GaussianSource) -> Certificate:
        """Draw until the target radius is proven for a class, or hopeless for both."""
        config = self.config
        assert config.target_radius is not None
        test = TargetRadiusTest(config.target_radius, reference.sigma, config.alpha)
        if not test.reachable(config.n):  # a faint reference whose own sigma is too small for this target
            return Certificate(Decision.ABSTAIN, 0, 0, 0.0, 0.0)
        matches = draws = 0
        batches = self.votes(reference, pixels, config.n, source, batch=SEQUENTIAL_BATCH)
        for votes in batches:
            matches += int(votes.sum())
            draws += len(votes)
            certificate = test.evaluate(matches, draws, config.n)
            if certificate is not None:
                batches.close()
                return certificate
        raise AssertionError("the test always ends at its limit")

    def _check_target(self) -> None:
        config = self.config
        if config.target_radius is None:
            return
        sigma = max(config.sigma_grid) if config.sigma == "auto" else config.sigma
        test = TargetRadiusTest(config.target_radius, sigma, config.alpha)
        if not test.reachable(config.n):
            raise InputError(
                f"target radius {config.target_radius:g} cannot be proven with sigma {sigma:g}, alpha {config.alpha:g} "
                f"and at most {config.n} draws; the largest is {test.largest_reachable(config.n):.4g}: raise n or sigma"
            )
