"""How little structure a reference has, and how near a query must come to match it.

A reference with little structure is near everything that has none: a diver in blue water near any other diver, a pale
photo near a flat colour, a page of text near any other page. Two tests at enrollment lower its threshold:

* its own parts and turned copies (`PARTS`). In an ordinary photo their codes are as far apart as those of two photos.
  Where they are near each other, so are the codes of other images of the same kind;
* probes: flat colours, gradients, generated documents and screens, and its own thumbnails. None may match it.

Both look at the reference only, so the threshold is one more property of the reference, fixed before any query is seen.
A reference that could then not match its own mild variants is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import product

import torch
import torch.nn.functional as F

from dualshield.hashes.codes import bit_error_rate, distance_table
from dualshield.images.documents import documents
from dualshield.images.space import CANONICAL_SIZE
from dualshield.images.views import IDENTITY, View
from dualshield.smoothing.level import Level
from dualshield.transforms import Transform

VERSION = 2
"""Part of the enrollment terms: other probes give other thresholds."""

DRAWS = 8
WITHIN = 1  # of these draws at most this many may be within the threshold
DOCUMENTS, DOCUMENT_SEED = 40, 7
VARIANTS = (Transform("jpeg", 60), Transform("brightness", 0.85), Transform("contrast", 0.85))
VARIANT_DRAWS = 9
FLAT = 0.02
"""An image whose pixels deviate less than this from their mean colour counts as flat."""

# Turned copies are compared with the image as it is, halves and corners with their opposites.
TURNS = tuple(View(turn=turn) for turn in (1, 2, 3))
OPPOSITES = (
    (View(top=0.45), View(bottom=0.45)),
    (View(top=0.18, left=0.18), View(bottom=0.18, right=0.18)),
    (View(top=0.18, right=0.18), View(bottom=0.18, left=0.18)),
)
# With a mean bit error rate s between such parts, at most SLOPE * (s - NONE) may match. An ordinary photo has s = 0.45.
SLOPE, NONE = 0.65, 0.1

Codes = Callable[[torch.Tensor, float, int], torch.Tensor]
"""``codes(pixels, sigma, draws)`` are noisy codes of an image, the same whenever it is called."""


def limit_by_structure(code: Callable[[View], torch.Tensor]) -> float:
    """Return the largest bit error rate that may match a reference, from the codes of its views."""
    pairs = [*((IDENTITY, turned) for turned in TURNS), *OPPOSITES]
    apart = [bit_error_rate(code(one), code(other)) for one, other in pairs]
    return max(SLOPE * (sum(apart) / len(apart) - NONE), 0.0)


@cache
def common_probes() -> tuple[torch.Tensor, ...]:
    """Return the probes that are the same for all references."""
    size = CANONICAL_SIZE
    flats = [_flat(torch.tensor(colour)) for colour in product((0.0, 0.5, 1.0), repeat=3)]
    ramp = torch.linspace(0, 1, size).expand(3, size, size)
    both = (ramp, 0.5 + 0.4 * (ramp - 0.5))
    ramps = [turned for one in both for turned in (one, one.flip(-1), one.mT, one.mT.flip(-2))]
    pages = [document.pixels for document in documents(DOCUMENTS, DOCUMENT_SEED)]
    return tuple(probe.contiguous() for probe in (*flats, *ramps, *pages))


def own_probes(pixels: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the mean colour of an image, and its thumbnails of 2 x 2 and 4 x 4, enlarged again."""
    for side in (1, 2, 4):
        small = F.adaptive_avg_pool2d(pixels[None], side)
        yield F.interpolate(small, size=pixels.shape[-2:], mode="bilinear", align_corners=False)[0]


def is_flat(pixels: torch.Tensor) -> bool:
    """Whether an image shows one colour only."""
    return float((pixels - pixels.mean((-2, -1), keepdim=True)).square().mean().sqrt()) < FLAT


class Probes:
    """Compares references with the probes; the codes of the common ones are computed once per sigma."""

    def __init__(self, codes: Codes, bits: int) -> None:
        self._codes, self._bits = codes, bits
        self._common: dict[float, torch.Tensor] = {}

    def lowered(self, level: Level, pixels: torch.Tensor) -> float:
        """Return the largest threshold, up to the level's, at which no probe matches; below 0 if there is none."""
        assert level.threshold is not None
        if level.sigma not in self._common:
            self._common[level.sigma] = torch.stack(
                [self._codes(probe, level.sigma, DRAWS) for probe in common_probes()]
            )
        own = torch.stack([self._codes(probe, level.sigma, DRAWS) for probe in own_probes(pixels)])
        found = torch.cat([self._common[level.sigma], own])  # (probes, draws, bits)
        nearest = distance_table(found.flatten(0, 1), level.codes).min(1).values.view(len(found), -1)
        # The draws of a probe that are too near, but for the few that may be, set the limit.
        limit = int(nearest.sort(1).values[:, WITHIN].min()) - 1
        most = level.most(self._bits)
        return level.threshold if limit >= most else (limit + 0.5) / self._bits

    def keeps_variants(self, level: Level, pixels: torch.Tensor) -> bool:
        """Whether the mild variants of an image match it with this level's threshold."""
        for variant in VARIANTS:
            codes = self._codes(variant(pixels), level.sigma, VARIANT_DRAWS)
            matched = distance_table(codes, level.codes).min(1).values <= level.most(self._bits)
            if 2 * int(matched.sum()) <= len(matched):
                return False
        return True


def _flat(colour: torch.Tensor) -> torch.Tensor:
    return colour[:, None, None].expand(3, CANONICAL_SIZE, CANONICAL_SIZE)
