"""From an image file to the file that is published in its place, and the proof of what that gained."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from dualshield._common.checks import NUMBER, require
from dualshield._common.rounding import down
from dualshield.errors import InputError
from dualshield.hardening import gradient, linear, paper
from dualshield.hardening.carrier import Carrier
from dualshield.hardening.gradient import Goal
from dualshield.hardening.negatives import negatives
from dualshield.hardening.visibility import VisibilityBudget
from dualshield.hashes import DEFAULT_HASH
from dualshield.images.accept import ImageLike
from dualshield.images.canonical import CanonicalImage, load_image
from dualshield.images.publication import Format, Publication
from dualshield.images.quality import compare
from dualshield.smoothing.deploy import HashLike, as_deployment
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.reference import Reference
from dualshield.smoothing.result import MatchResult
from dualshield.smoothing.statistics import Decision

Preset = Literal["perceptual", "paper", "paper-limit"]
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Radii:
    """Certified radii of the image against itself, under one hash."""

    before: float
    after: float
    ceiling: float | None = None  # the largest that the matcher can prove of any image

    @property
    def is_capped(self) -> bool:
        """Whether only more draws or a larger sigma could show more, not a better image."""
        return self.ceiling is not None and self.after >= self.ceiling * (1 - 1e-6)


@dataclass(frozen=True)
class HardeningReport:
    """One published image. Qualities compare canonical images; everything is measured on the file as written."""

    file: str
    output: str | None
    hash: str
    preset: str
    strength: float
    ssim: float
    psnr: float
    linf: float
    l2: float
    radius_before: float  # of the original, enrolled as it is
    radius_after: float  # of the published file's own reference; of several hashes the largest, as they decide together
    radius_detected: float  # of the same reference: how far the matcher still answers match
    radii: dict[str, Radii]  # of each hash
    deployment: str
    noise_source: str
    reference: str | None  # where the reference of the published file was written
    reference_fingerprint: str | None
    steps: int
    seconds: float  # optimising and encoding
    seconds_certifying: float

    @property
    def radius_change(self) -> str:
        """What hardening did to the radius, to be printed."""
        capped = bool(self.radii) and all(radii.is_capped for radii in self.radii.values())
        note = ", the most these draws can prove" if capped else ""
        return f"{down(self.radius_before, 3)} -> {down(self.radius_after, 3)}{note}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; an unchanged image has no PSNR."""
        return {**asdict(self), "psnr": self.psnr if math.isfinite(self.psnr) else None}


@dataclass(frozen=True, eq=False)
class HardenedImage:
    """The bytes to publish, the reference to keep of them, and what they are worth."""

    data: bytes
    suffix: str
    original: CanonicalImage
    hardened: CanonicalImage
    reference: Reference | None  # of the published file; None where it was not certified
    report: HardeningReport

    def __repr__(self) -> str:
        return f"<HardenedImage {self.report.file}, radius {self.report.radius_change}, SSIM {self.report.ssim:.4f}>"


class Hardener:
    """Hardens images for the hash or hashes of a deployment, and certifies with it what was published.

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
                    f"hash {member.hash.name} has no gradient, and hardening needs one; it can be matched and "
                    "certified unhardened"
                )
            if member.hash.rule == "native":
                raise InputError(
                    f"the native rule of {member.hash.name} compares no bits, which is what hardening steadies; "
                    "harden for the rule hamming"
                )
        self.deployment = deployment
        self.preset = preset
        self.budget = VisibilityBudget(strength)
        self.steps = steps
        device = deployment.device
        self.negatives = [] if self.strategy == "linear" else [p.to(device) for p in negatives(negatives_folder)]

    @property
    def negatives_digest(self) -> str:
        """What tells these unrelated images from others."""
        digest = hashlib.sha256()
        for pixels in self.negatives:
            digest.update(pixels.cpu().numpy().tobytes())
        return digest.hexdigest()

    @property
    def strategy(self) -> Literal["paper", "linear", "gradient"]:
        """How the perturbation is found."""
        if self.preset != "perceptual":
            return "paper"
        members = self.deployment.members
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
        """Harden one file; nothing is written. Radii are those of the reference that comes with the result."""
        require("noise", noise, GaussianSource, or_none=True)
        require("quality", quality, int, or_none=True)
        noise = noise or GaussianSource.secret()
        publication = Publication.open(file)
        # Whatever the format cannot do fails here, not after the optimisation.
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
            radii=self._radii(before.result, after.result) if before and after else {},
            deployment=self.deployment.digest,
            noise_source=noise.origin,
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
        """The canonical perturbation alone, and the steps it took; ``steps`` replaces the hardener's own limit."""
        source = (noise or GaussianSource.secret()).fork("harden")
        device, matchers = self.deployment.device, self.deployment.matchers
        pixels = image.pixels.to(device)
        opacity = None if opacity is None else opacity.to(device)
        if self.strategy == "linear":
            (matcher,) = matchers
            delta = linear.perturb_through(image.pixels, matcher.hash, self.budget, opacity=opacity, carrier=carrier)
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
        """The image as reference and query."""
        progress(f"certifying {self.deployment.name}", done, 2)
        reference = self.deployment.enroll(image)
        return _Certified(reference, self.deployment.match(reference, image, noise=noise.fork("certify")))

    def _radii(self, before: MatchResult, after: MatchResult) -> dict[str, Radii]:
        """No radius where a hash does not certifiably match the image with itself."""

        def radius(result: MatchResult, index: int) -> float:
            member = result.members[index]
            return member.radius if member.decision is Decision.MATCH else 0.0

        return {
            matcher.hash.name: Radii(radius(before, i), radius(after, i), matcher.config.radius_ceiling)
            for i, matcher in enumerate(self.deployment.matchers)
        }


@dataclass(frozen=True, eq=False)
class _Certified:
    """A reference, and what the deployment says of the same image as query."""

    reference: Reference
    result: MatchResult

    @property
    def radius(self) -> float:
        return self.result.radius if self.result.decision is Decision.MATCH else 0.0


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
    """Harden one image file for one hash or several; parameters are those of `deploy`.

    For many images keep one ``Hardener``.
    """
    deployment = as_deployment(hash, parameters)
    return Hardener(deployment, preset=preset, strength=strength).harden(file, format=format, quality=quality)
