"""From an image file to the file that is published in its place, and the proof of what that gained."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from dualshield.errors import InputError
from dualshield.hardening import gradient, linear, paper
from dualshield.hardening.carrier import Carrier
from dualshield.hardening.gradient import Goal
from dualshield.hardening.negatives import negatives
from dualshield.hardening.visibility import Budget
from dualshield.hashes import DEFAULT_HASH, PerceptualHash, get_hash
from dualshield.hashes.registry import split_names
from dualshield.images.canonical import CanonicalImage, load_image
from dualshield.images.publication import Format, Publication
from dualshield.images.quality import compare
from dualshield.smoothing.config import MatcherConfig
from dualshield.smoothing.matcher import SmoothedMatcher
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.profile import default_config, find_profile

Preset = Literal["perceptual", "paper", "paper-limit"]
Progress = Callable[[str, int, int], None]

MAX_HASHES = 8


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
    radius_before: float  # of several hashes, the smallest
    radius_after: float
    radii: dict[str, Radii]
    steps: int
    seconds: float  # optimising and encoding
    seconds_certifying: float

    @property
    def radius_change(self) -> str:
        """What hardening did to the radius, to be printed."""
        capped = bool(self.radii) and all(radii.is_capped for radii in self.radii.values())
        note = ", the most these draws can prove" if capped else ""
        return f"{self.radius_before:.3f} -> {self.radius_after:.3f}{note}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class HardenedImage:
    """The bytes to publish and what they are worth."""

    data: bytes
    suffix: str
    original: CanonicalImage
    hardened: CanonicalImage
    report: HardeningReport


class Hardener:
    """Hardens images for one hash or several at once (``a+b`` is two), with their deployed matchers (``--sigma auto``).

    >>> hardener = Hardener(["pdq"])
    >>> hardener.strategy
    'linear'
    """

    def __init__(
        self,
        hashes: Sequence[str | PerceptualHash] = (DEFAULT_HASH,),
        *,
        preset: Preset = "perceptual",
        strength: float = 1.0,
        steps: int | None = None,
        negatives_folder: Path | None = None,
        n: int | None = None,
        engine: str = "auto",
        device: str = "cpu",
        source: GaussianSource | None = None,
    ) -> None:
        if preset not in get_args(Preset):
            raise InputError(f"unknown preset {preset!r}: use one of {', '.join(get_args(Preset))}")
        specs = [part for spec in hashes for part in (split_names(spec) if isinstance(spec, str) else [spec])]
        names = [spec if isinstance(spec, str) else spec.name for spec in specs]
        if not 1 <= len(set(names)) == len(names) <= MAX_HASHES:
            raise InputError(f"give between 1 and {MAX_HASHES} different hashes, got {', '.join(names) or 'none'}")
        if steps is not None and not 1 <= steps <= 100_000:
            raise InputError(f"steps {steps} is not between 1 and 100000")
        self.preset = preset
        self.budget = Budget(strength)
        self.steps = steps
        self.source = source or GaussianSource.secret()
        self.hashes = {
            name: get_hash(spec) if isinstance(spec, str) else spec for name, spec in zip(names, specs, strict=True)
        }
        self.matchers: dict[str, SmoothedMatcher] = {}
        for name, hash_ in self.hashes.items():
            if not hash_.is_differentiable:
                raise InputError(
                    f"hash {name} has no gradient, and hardening needs one; it can be matched and certified unhardened"
                )
            hash_.network.requires_grad_(False)
            config = deployed_config(name)
            self.matchers[name] = SmoothedMatcher(
                hash_,
                config if n is None else replace(config, n=n),
                engine=engine,
                device=device,
                source=self.source.fork(f"matcher {name}"),
            )
        self.device = device
        self.negatives = [] if self.strategy == "linear" else [p.to(device) for p in negatives(negatives_folder)]

    @property
    def strategy(self) -> Literal["paper", "linear", "gradient"]:
        """How the perturbation is found."""
        if self.preset != "perceptual":
            return "paper"
        hashes = list(self.hashes.values())
        return "linear" if len(hashes) == 1 and hashes[0].is_linear else "gradient"

    def harden(
        self,
        file: str | os.PathLike[str],
        *,
        format: Format = "keep",
        quality: int | None = None,
        certify: bool = True,
        progress: Progress = lambda what, done, total: None,
    ) -> HardenedImage:
        """Harden one file; nothing is written."""
        publication = Publication.open(file)
        # Whatever the format cannot do fails here, not after the optimisation.
        publication.check(format, quality)
        original = publication.canonical

        def carrier(delta: torch.Tensor) -> torch.Tensor:
            return load_image(publication.encode(delta.cpu(), format, quality)).pixels.to(self.device)

        started = time.perf_counter()
        delta, steps = self.perturb(original, opacity=publication.opacity, carrier=carrier, progress=progress)
        data = publication.encode(delta.cpu(), format, quality)
        seconds = time.perf_counter() - started
        hardened = replace(load_image(data), name=original.name)
        started = time.perf_counter()
        radii = {name: self._radii(name, original, hardened, progress) for name in self.matchers} if certify else {}
        report = HardeningReport(
            file=original.name,
            output=None,
            hash="+".join(self.matchers),
            preset=self.preset,
            strength=self.budget.strength,
            **asdict(compare(original.pixels, hardened.pixels)),
            radius_before=min((r.before for r in radii.values()), default=0.0),
            radius_after=min((r.after for r in radii.values()), default=0.0),
            radii=radii,
            steps=steps,
            seconds=seconds,
            seconds_certifying=time.perf_counter() - started,
        )
        return HardenedImage(data, publication.suffix(format), original, hardened, report)

    def perturb(
        self,
        image: CanonicalImage,
        *,
        opacity: torch.Tensor | None = None,
        carrier: Carrier | None = None,
        steps: int | None = None,
        progress: Progress = lambda what, done, total: None,
    ) -> tuple[torch.Tensor, int]:
        """The canonical perturbation alone, and the steps it took; ``steps`` replaces the hardener's own limit."""
        source = self.source.fork("harden")
        pixels = image.pixels.to(self.device)
        opacity = None if opacity is None else opacity.to(self.device)
        if self.strategy == "linear":
            (matcher,) = self.matchers.values()
            delta = linear.perturb_through(image.pixels, matcher.hash, self.budget, opacity=opacity, carrier=carrier)
            return delta, 1
        report = partial(progress, "hardening")
        if self.strategy == "paper":
            return paper.perturb(
                pixels,
                list(self.hashes.values()),
                self.negatives,
                strength=self.budget.strength,
                steps=steps or self.steps or paper.STEPS,
                limit=self.preset == "paper-limit",
                source=source,
                progress=report,
            )
        goals = [Goal.of(matcher, pixels, self.negatives) for matcher in self.matchers.values()]
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

    def _radii(self, name: str, before: CanonicalImage, after: CanonicalImage, progress: Progress) -> Radii:
        """Each image as reference and query; no radius unless it certifiably matches itself."""
        matcher = self.matchers[name]

        def radius(image: CanonicalImage, done: int) -> float:
            progress(f"certifying {name}", done, 2)
            result = matcher.match(matcher.enroll(image), image)
            return result.radius if result.decision == "match" else 0.0

        return Radii(radius(before, 0), radius(after, 1), matcher.config.radius_ceiling)


def deployed_config(name: str) -> MatcherConfig:
    """The matcher that a published reference meets: ``--sigma auto``, so that hardening can pay off in sigma."""
    profile = find_profile(name)
    return profile.widest_config() if profile else default_config(name)


def harden(
    file: str | os.PathLike[str],
    hashes: str | PerceptualHash | Sequence[str | PerceptualHash] = DEFAULT_HASH,
    *,
    preset: Preset = "perceptual",
    strength: float = 1.0,
    format: Format = "keep",
    quality: int | None = None,
) -> HardenedImage:
    """Harden one image file for one hash or several; for many images keep one ``Hardener``."""
    listed = [hashes] if isinstance(hashes, str | PerceptualHash) else list(hashes)
    return Hardener(listed, preset=preset, strength=strength).harden(file, format=format, quality=quality)
