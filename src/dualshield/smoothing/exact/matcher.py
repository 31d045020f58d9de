"""The exact matcher of one linear hash: no votes, no abstention, no secret noise.

The certificate states: no change of the query shorter than ``radius`` (l2 in canonical pixels) changes the decision. It
is a proof about a deterministic function, so the attacker may know everything: the hash, the reference, sigma, and any
number of earlier answers.
"""

from __future__ import annotations

import time
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dualshield.errors import CodeError, InputError, TooLittleStructureError
from dualshield.hashes.linear.linear_hash import Bits, LinearHash, luma_of
from dualshield.images.axes import Matrix
from dualshield.images.space import DIAMETER
from dualshield.smoothing.exact.certificate import ExactCertificate, SoftHash
from dualshield.smoothing.exact.config import ExactConfig
from dualshield.smoothing.exact.pairs import Pairs
from dualshield.smoothing.exact.probes import MARGIN, Probes
from dualshield.smoothing.exact.query_views import QueryViews
from dualshield.smoothing.exact.reference import NOISE, ExactReference, exact_terms
from dualshield.smoothing.exact.reference_views import ReferenceViews
from dualshield.smoothing.exact.rows import Rows
from dualshield.smoothing.level import Level
from dualshield.smoothing.result import MemberResult
from dualshield.smoothing.statistics import Decision

Pixels = npt.NDArray[np.floating]


class ExactMatcher:
    """Matches queries by one linear hash. ``linear`` is the plain hash, in front of which the low-pass is put."""

    def __init__(self, linear: LinearHash, config: ExactConfig) -> None:
        self.linear = linear
        self.config = config
        self.filtered = linear.with_lowpass(config.lowpass)
        self.queries = QueryViews(self.filtered, config.views.query)
        self.references = ReferenceViews(self.filtered, config.views.reference)

    @property
    def rows(self) -> Rows:
        """The rows of the hash behind its low-pass."""
        return self.queries.rows(0)

    @cached_property
    def terms(self) -> dict[str, Any]:
        """The enrollment terms that a reference must have to be matched here."""
        return exact_terms(self.linear, self.config)

    @cached_property
    def probes(self) -> Probes:
        """The images that no reference may match."""
        return Probes(self.queries)

    def soft(self, sigma: float, view: int = 0) -> SoftHash:
        """Return the hash behind one view of the query, the first by default, smoothed with ``sigma``."""
        return self.queries.soft(sigma, view)

    def coefficients(self, pixels: Pixels) -> Matrix:
        """Return the coefficients of the image as it is behind the low-pass; an error if pixels are not finite."""
        return self._checked(self.filtered.of_luma(luma_of(np.asarray(pixels))))

    def _checked(self, coefficients: Matrix) -> Matrix:
        if not np.isfinite(coefficients).all():
            raise InputError(f"hash {self.linear.name}: the pixels are not all finite (NaN or infinity)")
        return coefficients

    # -- references --------------------------------------------------------------------------------

    def enroll_pixels(self, pixels: Pixels) -> ExactReference:
        """Enroll a reference image: its sigma is the one with the largest radius around the image itself.

        Its threshold is that of the configuration, or lower if it is near images without a subject (probes.py).
        """
        luma = luma_of(np.asarray(pixels))
        looked = self._checked(self.references.coefficients(luma))
        own = self.probes.own(luma)
        best: tuple[float, Level] | None = None
        near = ""
        for radius, sigma in self._candidates(looked[0]):
            if best is not None and best[0] >= radius:
                break
            codes = np.array([self.soft(sigma).code(row) for row in looked])
            threshold = self.config.threshold_at(sigma)
            distance, probe = self.probes.nearest(codes, sigma, own)
            lowered = (distance - MARGIN) / self.linear.bits
            if lowered < threshold:
                radius, threshold = self._radius(looked[0], codes[0], sigma, lowered), lowered
                near = near or probe
            if radius > 0 and (best is None or radius > best[0]):
                best = radius, Level(float(sigma), codes, float(threshold))
        if best is None:
            raise TooLittleStructureError(self._too_little(near))
        return ExactReference(self.terms, self.linear.code(np.asarray(pixels)), (best[1],))

    def _candidates(self, coefficients: Matrix) -> list[tuple[float, float]]:
        """Return each sigma at which the image matches itself, and its radius, the largest first."""
        found = []
        for sigma, threshold in zip(self.config.sigmas, self.config.thresholds, strict=True):
            radius = self._radius(coefficients, self.soft(sigma).code(coefficients), sigma, threshold)
            found += [(radius, sigma)] if radius > 0 else []
        return sorted(found, key=lambda candidate: -candidate[0])

    def _radius(self, coefficients: Matrix, code: Bits, sigma: float, threshold: float) -> float:
        """Return the proven radius of an image with this code, 0 if it does not match."""
        found = self.soft(sigma).certify(coefficients, code, threshold * self.linear.bits)
        return found.radius if found.matched else 0.0

    def _too_little(self, near: str) -> str:
        start = f"too little structure to be protected by {self.linear.name}: "
        if near:
            return (
                f"{start}with a threshold at which {near} does not match it, it does not match itself (flat, faint or "
                "mostly blank images); try another hash"
            )
        return (
            f"{start}even with noise of sigma {min(self.config.sigmas):g} its soft distance to itself is above the "
            "threshold, because too few bits are stable (flat, faint, symmetric or mostly blank images); try another "
            "hash"
        )

    def enroll_bits(self, code: Bits) -> ExactReference:
        """Enroll a bare code of the plain hash, as found in public lists; no image is needed."""
        name, bits = self.linear.name, self.linear.bits
        if not self.config.views.is_none:
            raise InputError("a bare code has no views: they need a reference image; leave the views out")
        if len(self.config.sigmas) > 1:
            raise InputError("a choice of sigmas needs a reference image; with a bare code give sigma as a number")
        if code.shape != (bits,) or code.dtype != np.bool_:
            raise CodeError(f"the code has {code.size} values, but hash {name} has {bits} bits")
        ones = int(code.sum())
        if ones in (0, bits):
            raise CodeError(f"the code is all {'ones' if ones else 'zeros'}: it says nothing about an image; remove it")
        expected = self.linear.expected_ones
        limit = self.config.thresholds[0] * bits
        if expected is not None and abs(ones - expected) >= limit:
            raise CodeError(
                f"the code has {ones} ones of {bits} bits, but codes of {name} have {expected}; no image is within "
                f"{limit:.1f} bits of it, so it cannot match; check the list"
            )
        level = Level(float(self.config.sigmas[0]), code[None], self.config.thresholds[0])
        return ExactReference(self.terms, code, (level,), is_bare=True)

    # -- queries -----------------------------------------------------------------------------------

    def pairs(self, reference: ExactReference, pixels: Pixels) -> Pairs:
        """Compare all views of a query with all codes of a reference."""
        found = self._checked(self.queries.coefficients(luma_of(np.asarray(pixels))))
        limit = reference.threshold * self.linear.bits
        return Pairs(self.queries, found, reference.codes, reference.sigma, limit)

    def distance(self, reference: ExactReference, pixels: Pixels) -> float:
        """Return the smallest soft distance to the reference of all pairs of views, in bits."""
        return float(self.pairs(reference, pixels).distances.min())

    def decide(self, reference: ExactReference, pixels: Pixels) -> Decision:
        """Decide one query without a certificate, which takes a fraction of the time."""
        return Decision.MATCH if self.pairs(reference, pixels).matched else Decision.NO_MATCH

    def certify_exactly(self, reference: ExactReference, pixels: Pixels) -> ExactCertificate:
        """Decide one query and prove a radius."""
        return self.pairs(reference, pixels).certify()

    def match_exactly(self, reference: ExactReference, pixels: Pixels) -> MemberResult:
        """Decide and certify one query, with everything that a result tells."""
        started = time.perf_counter()
        found = self.certify_exactly(reference, pixels)
        # No two images are farther apart than the diagonal of the pixel range.
        radius = min(found.radius, DIAMETER)
        bits = self.linear.bits
        return MemberResult(
            hash=self.linear.name,
            hash_version=self.linear.version,
            decision=Decision.MATCH if found.matched else Decision.NO_MATCH,
            method="exact",
            rule="hamming",
            distance=float((self.linear.code(np.asarray(pixels)) != reference.plain).mean()),
            threshold=reference.threshold,
            bits=bits,
            votes=0,
            draws=0,
            p_lower=None,
            radius=radius,
            radius_detected=radius,
            alpha=0.0,
            sigma=reference.sigma,
            noise=NOISE,
            lowpass=self.filtered.lowpass,
            reference_mode=reference.mode,
            engine="numpy",
            seconds=time.perf_counter() - started,
            soft_distance=found.soft_distance / bits,
            is_flat=found.is_flat,
            query_view=str(self.config.views.query[found.query_view]),
            reference_view=str(self.config.views.reference[found.reference_view]),
            trials=len(self.queries),
        )
