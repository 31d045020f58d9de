"""The kinds of noise for votes. Each kind says where its noise is drawn and whether its votes certify.

``linear`` is Gaussian noise on the canonical pixels, drawn on the core of the front end, exactly in law (METHOD.md 3).
``clipped`` is the paper's noise: drawn on the 512 x 512 pixels and clipped to [0, 1] before the front end.
``clipped-limit`` approximates clipped noise of a linear hash by a normal law, for experiments only (`clipped_noise`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import lru_cache

import torch

from dualshield.engines.engine import Reads
from dualshield.errors import InputError
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images.frontend import Expansion, FrontEnd
from dualshield.images.viewed_core import viewed_core
from dualshield.images.views import IDENTITY, View
from dualshield.smoothing.clipped_noise import clipped_copies, gaussian_limit
from dualshield.smoothing.names import NoiseName
from dualshield.smoothing.noise import GaussianSource

# A clipped draw holds all 786,432 canonical pixels: small batches keep the peak memory flat.
CLIPPED_BATCH = 4


class NoiseKind(ABC):
    """One kind of noise on canonical images."""

    name: NoiseName
    certifies = True  # whether votes under this noise certify
    in_pixel_range = False  # whether noisy images stay within [0, 1]

    def engine_reads(self, front_end: FrontEnd) -> Reads:
        """The best input for the engine of a hash with this front end: the core, unless noise is on the pixels."""
        return "core"

    def check(self, hash_: PerceptualHash, reads: Reads) -> None:
        """Raise an error if this noise cannot be drawn for the hash or the engine."""
        if reads != "core":
            raise ValueError(f"{self.name} noise is drawn on the core, but this engine reads {reads}")

    @abstractmethod
    def batches(
        self,
        hash_: PerceptualHash,
        reads: Reads,
        pixels: torch.Tensor,
        sigma: float,
        source: GaussianSource,
        view: View = IDENTITY,
    ) -> NoisyBatches:
        """Return a source of noisy versions of one image seen in a view, in the form that the engine reads.

        The noise is on the canonical pixels, before the view.
        """

    @abstractmethod
    def margins(
        self,
        hash_: PerceptualHash,
        pixels: torch.Tensor,
        sigma: float,
        count: int,
        source: GaussianSource,
        view: View = IDENTITY,
    ) -> torch.Tensor:
        """Return margins ``(count, bits)`` of canonical pixels under this noise, differentiable in the pixels."""


class NoisyBatches(ABC):
    """A source of noisy versions of one image."""

    largest: int | None = None  # largest batch, if memory limits it

    @abstractmethod
    def draw(self, count: int) -> torch.Tensor:
        """Return a batch of ``count`` new draws."""

    def stream(self, draws: int, size: int) -> Iterator[torch.Tensor]:
        """Yield ``draws`` draws in batches of at most ``size``."""
        size = min(size, self.largest or size)
        for start in range(0, draws, size):
            yield self.draw(min(size, draws - start))


class _Viewed(NoisyBatches):
    """Cores of a view, under noise on the canonical pixels; differentiable in the pixels."""

    def __init__(
        self, front_end: FrontEnd, pixels: torch.Tensor, sigma: float, source: GaussianSource, view: View
    ) -> None:
        self.seen = viewed_core(front_end, view)
        self.core = self.seen.core(pixels)
        self.sigma, self.source = sigma, source

    def draw(self, count: int) -> torch.Tensor:
        white = self.source.normal((count, *self.seen.noise_shape)).to(self.core.device)
        return self.core + self.sigma * self.seen.spread(white)


class _LinearNoise(NoiseKind):
    name = "linear"

    def batches(
        self,
        hash_: PerceptualHash,
        reads: Reads,
        pixels: torch.Tensor,
        sigma: float,
        source: GaussianSource,
        view: View = IDENTITY,
    ) -> NoisyBatches:
        if not view.is_identity:
            return _Viewed(hash_.front_end, pixels, sigma, source, view)
        core = hash_.front_end.core(pixels)

        class Cores(NoisyBatches):
            def draw(self, count: int) -> torch.Tensor:
                return source.noisy_copies(core, sigma, count)

        return Cores()

    def margins(
        self,
        hash_: PerceptualHash,
        pixels: torch.Tensor,
        sigma: float,
        count: int,
        source: GaussianSource,
        view: View = IDENTITY,
    ) -> torch.Tensor:
        if view.is_identity:
            core = hash_.front_end.core(pixels)
            noisy = core + sigma * source.normal((count, *core.shape)).to(core.device)
        else:
            noisy = _Viewed(hash_.front_end, pixels, sigma, source, view).draw(count)
        margins: torch.Tensor = hash_.network(_expansion(hash_.front_end, noisy.device)(noisy))
        return margins


class _ClippedNoise(NoiseKind):
    name = "clipped"
    in_pixel_range = True

    def engine_reads(self, front_end: FrontEnd) -> Reads:
        # Noise is drawn on the pixels, so a core saves nothing, and mapping to the core and back is expensive.
        return "features" if front_end.is_banded else "core"

    def check(self, hash_: PerceptualHash, reads: Reads) -> None:
        pass

    def batches(
        self,
        hash_: PerceptualHash,
        reads: Reads,
        pixels: torch.Tensor,
        sigma: float,
        source: GaussianSource,
        view: View = IDENTITY,
    ) -> NoisyBatches:
        _require_no_view(self, view)
        see = hash_.front_end.core if reads == "core" else hash_.front_end

        class Clipped(NoisyBatches):
            largest = CLIPPED_BATCH

            def draw(self, count: int) -> torch.Tensor:
                return see(source.noisy_copies(pixels, sigma, count).clamp_(0, 1))

        return Clipped()

    def margins(
        self,
        hash_: PerceptualHash,
        pixels: torch.Tensor,
        sigma: float,
        count: int,
        source: GaussianSource,
        view: View = IDENTITY,
    ) -> torch.Tensor:
        _require_no_view(self, view)
        return hash_.margins(clipped_copies(pixels, sigma, count, source))


class _ClippedLimit(NoiseKind):
    name = "clipped-limit"
    certifies = False

    def check(self, hash_: PerceptualHash, reads: Reads) -> None:
        super().check(hash_, reads)
        gaussian_limit(hash_)  # raises an error if the hash is not linear

    def batches(
        self,
        hash_: PerceptualHash,
        reads: Reads,
        pixels: torch.Tensor,
        sigma: float,
        source: GaussianSource,
        view: View = IDENTITY,
    ) -> NoisyBatches:
        _require_no_view(self, view)
        law = gaussian_limit(hash_).law(pixels, sigma)

        class Limit(NoisyBatches):
            def draw(self, count: int) -> torch.Tensor:
                return law.draw(count, source)

        return Limit()

    def margins(
        self,
        hash_: PerceptualHash,
        pixels: torch.Tensor,
        sigma: float,
        count: int,
        source: GaussianSource,
        view: View = IDENTITY,
    ) -> torch.Tensor:
        _require_no_view(self, view)
        margins: torch.Tensor = hash_.network(gaussian_limit(hash_).features(pixels, sigma, count, source))
        return margins


def _require_no_view(noise: NoiseKind, view: View) -> None:
    if not view.is_identity:
        raise ValueError(f"{noise.name} noise is drawn for images as they are, not {view}")


LINEAR: NoiseKind = _LinearNoise()
CLIPPED: NoiseKind = _ClippedNoise()
CLIPPED_LIMIT: NoiseKind = _ClippedLimit()
NOISE_KINDS: dict[str, NoiseKind] = {kind.name: kind for kind in (LINEAR, CLIPPED, CLIPPED_LIMIT)}


def noise_kind(name: str) -> NoiseKind:
    """Return the noise kind of that name."""
    if name not in NOISE_KINDS:
        raise InputError(f"unknown noise {name!r}: use one of {', '.join(NOISE_KINDS)}")
    return NOISE_KINDS[name]


@lru_cache(maxsize=8)
def _expansion(front_end: FrontEnd, device: torch.device) -> Expansion:
    return front_end.expansion().to(device)
