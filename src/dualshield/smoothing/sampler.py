"""Draw i.i.d. hash codes of one image under noise."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import torch

from dualshield.engines.engine import Engine
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images.views import IDENTITY, View
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.noise_kinds import NoiseKind


class Sampler:
    """Draws noisy codes of canonical images."""

    def __init__(self, hash_: PerceptualHash, engine: Engine, noise: NoiseKind, device: str = "cpu") -> None:
        noise.check(hash_, engine.reads)
        self.hash = hash_
        self.engine = engine
        self.noise = noise
        self.device = device

    def codes(
        self,
        pixels: torch.Tensor,
        sigma: float,
        draws: int,
        source: GaussianSource,
        *,
        batch: int | None = None,
        block: int | None = None,
        view: View = IDENTITY,
    ) -> Generator[torch.Tensor, None, None]:
        """Yield batches of codes ``(b, ...)`` of the image seen in a view, ``draws`` in all.

        The consumer may stop at any time.

        ``batch`` limits the batch size. With ``block`` the noise is made for that many draws at a time, independent of
        the engine's batch size, so the same source gives the same draws with every engine.
        """
        size = block or min(batch or draws, self.engine.batch_size)
        noisy = self._noisy(pixels, sigma, draws, source, size, view)
        most = self.engine.batch_size
        # torch.split takes no number of more than 63 bits.
        for margins in self.engine.run(part for piece in noisy for part in torch.split(piece, min(most, len(piece)))):
            yield self.hash.encode(margins).cpu()

    @torch.inference_mode()
    def _noisy(
        self, pixels: torch.Tensor, sigma: float, draws: int, source: GaussianSource, size: int, view: View
    ) -> Iterator[torch.Tensor]:
        batches = self.noise.batches(self.hash, self.engine.reads, pixels.to(self.device), sigma, source, view)
        yield from batches.stream(draws, size)
