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
from dualshield.hashes.linear.linear_hash import Bits, LinearHash
from dualshield.images.axes import Matrix
from dualshield.images.space import DIAMETER
from dualshield.smoothing.exact.certificate import ExactCertificate, SoftHash
from dualshield.smoothing.exact.config import ExactConfig
from dualshield.smoothing.exact.reference import NOISE, ExactReference, exact_terms
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
        self._soft: dict[float, SoftHash] = {}

    @cached_property
    def rows(self) -> Rows:
        """The rows of the hash behind its low-pass."""
        return Rows.of(self.filtered)

    @cached_property
    def terms(self) -> dict[str, Any]:
        """The enrollment terms that a reference must have to be matched here."""
        return exact_terms(self.linear, self.config)

    def soft(self, sigma: float) -> SoftHash:
        """Return the hash smoothed with ``sigma``."""
        if sigma not in self._soft:
            self._soft[sigma] = SoftHash(self.filtered, self.rows, sigma)
        return self._soft[sigma]

    def coefficients(self, pixels: Pixels) -> Matrix:
        """Return the coefficients behind the low-pass; an error if pixels are not finite."""
        found = self.filtered.coefficients(np.asarray(pixels))
        if not np.isfinite(found).all():
            raise InputError(f"hash {self.linear.name}: the pixels are not all finite (NaN or infinity)")
        return found

    # -- references --------------------------------------------------------------------------------

    def enroll_pixels(self, pixels: Pixels) -> ExactReference:
        """Enroll a reference image: its sigma is the one with the largest radius around the image itself."""
        coefficients = self.coefficients(pixels)
        best: tuple[float, float, Bits] | None = None
        for sigma, threshold in zip(self.config.sigmas, self.config.thresholds, strict=True):
            soft = self.soft(sigma)
            code = soft.code(coefficients)
            found = soft.certify(coefficients, code, threshold * self.linear.bits)
            if found.matched and found.radius > 0 and (best is None or found.radius > best[0]):
                best = found.radius, sigma, code
        if best is None:
            raise TooLittleStructureError(
                f"too little structure to be protected by {self.linear.name}: even with noise of sigma "
                f"{min(self.config.sigmas):g} its soft distance to itself is above the threshold, because too few bits "
                "are stable (flat, faint, symmetric or mostly blank images); try another hash"
            )
        _, sigma, code = best
        level = Level(float(sigma), code[None], self.config.threshold_at(sigma))
        return ExactReference(self.terms, self.linear.code(np.asarray(pixels)), (level,))

    def enroll_bits(self, code: Bits) -> ExactReference:
        """Enroll a bare code of the plain hash, as found in public lists; no image is needed."""
        name, bits = self.linear.name, self.linear.bits
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

    def distance(self, reference: ExactReference, pixels: Pixels) -> float:
        """Return the soft distance to the reference, in bits."""
        return self.soft(reference.sigma).distance(self.coefficients(pixels), reference.code)

    def decide(self, reference: ExactReference, pixels: Pixels) -> Decision:
        """Decide one query without a certificate, which takes a fraction of the time."""
        matched = self.distance(reference, pixels) <= reference.threshold * self.linear.bits
        return Decision.MATCH if matched else Decision.NO_MATCH

    def certify_exactly(self, reference: ExactReference, pixels: Pixels) -> ExactCertificate:
        """Decide one query and prove a radius."""
        limit = reference.threshold * self.linear.bits
        return self.soft(reference.sigma).certify(self.coefficients(pixels), reference.code, limit)

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
        )
