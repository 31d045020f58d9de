"""A stream of i.i.d. hash codes of one image under Gaussian noise on its canonical pixels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch

from dualshield.hashes.contract import PerceptualHash
from dualshield.smoothing.clipped import gaussian_limit
from dualshield.smoothing.engines import Engine
from dualshield.smoothing.noise import GaussianSource

NoiseKind = Literal["linear", "clipped", "clipped-limit"]

# A clipped draw holds all 786,432 canonical pixels: small batches keep the peak memory flat.
CLIPPED_BATCH = 4


class Sampler:
    """Draws noisy codes of canonical images.

    ``clipped`` is the paper's noise: on the 512 x 512 pixels, clipped to [0, 1], then the front end.
    ``clipped-limit`` is its normal law for a linear hash, for experiments only (`clipped`).
    ``linear`` is the same noise unclipped, drawn on the core of the front end, exactly in law (METHOD.md 3).
    """

    def __init__(self, hash_: PerceptualHash, engine: Engine, noise: NoiseKind, device: str = "cpu") -> None:
        if noise != "clipped" and engine.reads != "core":
            raise ValueError(f"{noise} noise is drawn on the core, which this engine does not read")
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
    ) -> Iterator[torch.Tensor]:
        """Batches of codes ``(b, ...)``, ``draws`` in all; the consumer may stop at any time.

        ``batch`` is the most at once. With ``block`` noise is made for so many draws at a time, whatever the engine
        takes at once, and the same source gives the same draws everywhere.
        """
        noisy = self._noisy(pixels, sigma, draws, source, block or min(batch or draws, self.engine.batch_size))
        most = self.engine.batch_size
        for margins in self.engine.run(part for piece in noisy for part in torch.split(piece, most)):
            yield self.hash.encode(margins).cpu()

    @torch.inference_mode()
    def _noisy(
        self, pixels: torch.Tensor, sigma: float, draws: int, source: GaussianSource, size: int
    ) -> Iterator[torch.Tensor]:
        pixels = pixels.to(self.device)
        if self.noise == "clipped":
            size = min(size, CLIPPED_BATCH)
        front_end = self.hash.front_end
        law = gaussian_limit(self.hash).law(pixels, sigma) if self.noise == "clipped-limit" else None
        core = front_end.core(pixels) if self.noise == "linear" else None
        see = front_end.core if self.engine.reads == "core" else front_end
        for start in range(0, draws, size):
            count = min(size, draws - start)
            if core is not None:
                yield source.around(core, sigma, count)
            elif law is not None:
                yield law.draw(count, source)
            else:
                yield see(source.around(pixels, sigma, count).clamp_(0, 1))
