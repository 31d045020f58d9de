"""Harden an image file for publication, and certify the radius before and after."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from dualshield._common.checks import NUMBER, require
from dualshield.errors import InputError
from dualshield.hardening import exact, gradient, linear, paper
from dualshield.hardening.carrier import Carrier
from dualshield.hardening.gradient import Goal
from dualshield.hardening.negatives import negatives
from dualshield.hardening.report import HardeningReport, Radii
from dualshield.hardening.visibility import VisibilityBudget
from dualshield.hashes import DEFAULT_HASH
from dualshield.images.accept import ImageLike
from dualshield.images.canonical import CanonicalImage, load_image
from dualshield.images.decode import list_images
from dualshield.images.publication import Format, Publication
from dualshield.images.quality import compare
from dualshield.smoothing.deploy import HashLike, as_deployment
from dualshield.smoothing.deployment import Deployment, Matcher
from dualshield.smoothing.exact.reference import ExactReference
from dualshield.smoothing.exact_matcher import DeployedExactMatcher
from dualshield.smoothing.member_reference import MemberReference
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.reference import Reference
from dualshield.smoothing.reference_file import Kept
from dualshield.smoothing.result import MatchResult
from dualshield.smoothing.statistics import Decision

Preset = Literal["perceptual", "paper", "paper-limit"]
Progress = Callable[[str, int, int], None]

# Strategies that solve for the perturbation at once, without other images and without steps.
DIRECT = ("exact", "linear")
# Number of votes for the mean distance.
DISTANCE_DRAWS = 64


@dataclass(frozen=True, eq=False)
class HardenedImage:
    """The file to publish as bytes, its reference, and the report."""

    data: bytes
    suffix: str
    original: CanonicalImage
    hardened: CanonicalImage
    reference: Reference | None  # of the published file; None where it was not certified
    report: HardeningReport

    def __repr__(self) -> str:
        return f"<HardenedImage {self.report.file}, radius {self.report.radius_change}, SSIM {self.report.ssim:.4f}>"


class Hardener:
    """Hardens images for the hashes of a deployment, and certifies the published images with it.

    >>> import dualshield as ds
    >>> Hardener(ds.deploy("pdq")).strategy
    'linear'
    """

    def __init__(
        self,
        deployment: Deployment,
        *,
        preset: Preset = "perceptual",
        strength: float = 1.0,
        steps: int | None = None,
        negatives_folder: Path | None = None,
    ) -> None:
        if not isinstance(deployment, Deployment):
            raise InputError(f"a Hardener takes a deployment, as from deploy('pdq'), not {type(deployment).__name__}")
        if preset not in get_args(Preset):
            raise InputError(f"unknown preset {preset!r}: use one of {', '.join(get_args(Preset))}")
        require("strength", strength, *NUMBER)
        require("steps", steps, int, or_none=True)
        if steps is not None and not 1 <= steps <= 100_000:
            raise InputError(f"steps {steps} is not between 1 and 100000")
        for member in deployment.members:
            if not member.hash.is_differentiable:
                raise InputError(
                    f"hash {member.hash.name} has no gradient, and hardening needs one; match and certify without "
                    "hardening"
                )
            if member.hash.rule == "native":
                raise InputError(
                    f"the native rule of {member.hash.name} compares no bits, but hardening works on bits; "
                    "harden for the rule hamming"
                )
        self.deployment = deployment
        self.preset = preset
        self.budget = VisibilityBudget(strength)
        self.steps = steps
        device = deployment.device
        if negatives_folder is not None:
            list_images(negatives_folder)  # check the folder even if the strategy needs no negatives
        self.negatives = [] if self.strategy in DIRECT else [p.to(device) for p in negatives(negatives_folder)]

    @property
    def negatives_digest(self) -> str:
        """The sha256 of the negatives, which identifies them."""
        digest = hashlib.sha256()
        for pixels in self.negatives:
            digest.update(pixels.cpu().numpy().tobytes())
        return digest.hexdigest()

    @property
    def strategy(self) -> Literal["paper", "exact", "linear", "gradient"]:
        """The method that finds the perturbation."""
        if self.preset != "perceptual":
            return "paper"
        members = self.deployment.members
        if len(members) == 1 and members[0].config.method == "exact":
            return "exact"
        return "linear" if len(members) == 1 and members[0].hash.is_linear else "gradient"

    def harden(
        self,
        file: ImageLike,
        *,
        format: Format = "keep",
        quality: int | None = None,
        certify: bool = True,
        noise: GaussianSource | None = None,
        progress: Progress = lambda what, done, total: None,
    ) -> HardenedImage:
        """Harden one image; nothing is written. The radius after hardening is that of the returned reference."""
        require("noise", noise, GaussianSource, or_none=True)
        require("quality", quality, int, or_none=True)
        noise = noise or GaussianSource.secret()
        publication = Publication.open(file)
        # Fail here if the format is not possible, not after the optimisation.
        publication.check(format, quality)
        original = publication.canonical

        def carrier(delta: torch.Tensor) -> torch.Tensor:
            return load_image(publication.encode(delta.cpu(), format, quality)).pixels.to(self.deployment.device)

        started = time.perf_counter()
        delta, steps = self.perturb(
            original, opacity=publication.opacity, carrier=carrier, noise=noise, progress=progress
        )
        data = publication.encode(delta.cpu(), format, quality)
        seconds = time.perf_counter() - started
        hardened = replace(load_image(data), name=original.name)
        started = time.perf_counter()
        before = self._certified(original, noise, progress, 0) if certify else None
        after = self._certified(hardened, noise, progress, 1) if certify else None
        report = HardeningReport(
            file=original.name,
            output=None,
            hash=self.deployment.name,
            preset=self.preset,
            strength=self.budget.strength,
            **asdict(compare(original.pixels, hardened.pixels)),
            radius_before=before.radius if before else 0.0,
            radius_after=after.radius if after else 0.0,
            radius_detected=after.result.radius_detected if after and after.radius else 0.0,
            radii=self._radii(before, after) if before and after else {},
            deployment=self.deployment.digest,
            noise_source=noise.origin if self.deployment.draws_noise else None,
            reference=None,
            reference_fingerprint=after.reference.fingerprint if after else None,
            steps=steps,
            seconds=seconds,
            seconds_certifying=time.perf_counter() - started,
        )
        reference = after.reference if after else None
        return HardenedImage(data, publication.suffix(format), original, hardened, reference, report)

    def perturb(
        self,
        image: CanonicalImage,
        *,
        opacity: torch.Tensor | None = None,
        carrier: Carrier | None = None,
        steps: int | None = None,
        noise: GaussianSource | None = None,
        progress: Progress = lambda what, done, total: None,
    ) -> tuple[torch.Tensor, int]:
        """Return only the canonical perturbation and the number of steps; ``steps`` overrides the hardener's limit."""
        source = (noise or GaussianSource.secret()).fork("harden")
        device, matchers = self.deployment.device, self.deployment.matchers
        pixels = image.pixels.to(device)
        opacity = None if opacity is None else opacity.to(device)
        if self.strategy == "exact":
            (matcher,) = matchers
            assert isinstance(matcher, DeployedExactMatcher)
            return exact.perturb(image.pixels, matcher, self.budget, opacity=opacity, carrier=carrier), 1
        if self.strategy == "linear":
            (matcher,) = matchers
            delta = linear.perturb(image.pixels, matcher.hash, self.budget, opacity=opacity, carrier=carrier)
            return delta, 1
        report = partial(progress, "hardening")
        if self.strategy == "paper":
            return paper.perturb(
                pixels,
                [matcher.plain_hash for matcher in matchers],
                self.negatives,
                strength=self.budget.strength,
                steps=steps or self.steps or paper.STEPS,
                limit=self.preset == "paper-limit",
                source=source,
                progress=report,
            )
        goals = [Goal.of(matcher, pixels, self.negatives) for matcher in matchers]
        return gradient.perturb(
            pixels,
            goals,
            self.budget,
            steps=steps or self.steps or gradient.STEPS,
            opacity=opacity,
            carrier=carrier,
            source=source,
            progress=report,
        )

    def _certified(self, image: CanonicalImage, noise: GaussianSource, progress: Progress, done: int) -> _Certified:
        """Certify the image with itself as reference and query."""
        progress(f"certifying {self.deployment.name}", done, 2)
        reference = self.deployment.enroll(image)
        result = self.deployment.match(reference, image, noise=noise.fork("certify"))
        distances = tuple(
            _mean_distance(matcher, kept, image.pixels, noise)
            for matcher, kept in zip(self.deployment.matchers, reference.members, strict=True)
        )
        progress(f"certifying {self.deployment.name}", done + 1, 2)
        return _Certified(reference, result, distances)

    def _radii(self, before: _Certified, after: _Certified) -> dict[str, Radii]:
        """Return the radii of each hash; 0 where the hash does not certify that the image matches itself."""

        def radius(result: MatchResult, index: int) -> float:
            member = result.members[index]
            return member.radius if member.decision is Decision.MATCH else 0.0

        return {
            matcher.hash.name: Radii(
                radius(before.result, i),
                radius(after.result, i),
                matcher.config.radius_ceiling,
                before.distances[i],
                after.distances[i],
                matcher.hash.threshold if matcher.hash.rule == "hamming" else matcher.hash.boundary,
            )
            for i, matcher in enumerate(self.deployment.matchers)
        }


@dataclass(frozen=True, eq=False)
class _Certified:
    """A reference, and the result of matching it with the same image."""

    reference: Reference
    result: MatchResult
    distances: tuple[float, ...]  # mean distance of each member's votes

    @property
    def radius(self) -> float:
        return self.result.radius if self.result.decision is Decision.MATCH else 0.0


def _mean_distance(matcher: Matcher, reference: Kept, pixels: torch.Tensor, noise: GaussianSource) -> float:
    """Return the soft distance, or the mean distance of some votes, in units of the threshold."""
    if isinstance(matcher, DeployedExactMatcher):
        assert isinstance(reference, ExactReference)
        return matcher.distance(reference, pixels.cpu().numpy()) / matcher.hash.bits
    assert isinstance(reference, MemberReference)
    found = matcher.distances(reference, pixels, DISTANCE_DRAWS, noise.fork("distance"), noise.fork("distance"))
    return float(found.double().mean()) / (matcher.hash.bits if matcher.hash.rule == "hamming" else 1)


def harden(
    file: ImageLike,
    *,
    hash: HashLike | Sequence[HashLike] | Deployment = DEFAULT_HASH,
    preset: Preset = "perceptual",
    strength: float = 1.0,
    format: Format = "keep",
    quality: int | None = None,
    **parameters: Any,
) -> HardenedImage:
    """Harden one image file for one hash or several; takes the parameters of `deploy`.

    For many images make one ``Hardener`` and reuse it.
    """
    deployment = as_deployment(hash, parameters)
    return Hardener(deployment, preset=preset, strength=strength).harden(file, format=format, quality=quality)
