"""Prove without sampling the radius within which no perturbation makes an image evade its own hash.

With bounds ``low <= y <= high`` of the outputs over a region, entry i of the hash differs from entry i of the image by
at most ``max(|post(low_i) - h_i|, |post(high_i) - h_i|)``, because post (rounding, or comparing with 1/2) never
decreases. The sum over all entries bounds the distance. (The published code takes the larger of "all at their lower
bounds" and "all at their upper bounds", which is no bound: entries may move in opposite directions.)

A radius is certified if that sum stays below the limit. Every smaller radius is then certified too, since balls are
nested. Bisection searches for the largest.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch

from dualshield._common.checks import NUMBER, require
from dualshield.errors import InputError
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images import RADIUS_SPACE, ImageLike, as_image
from dualshield.smoothing.deploy import HashLike, as_hash
from dualshield.verification.bounds import bound
from dualshield.verification.program import Program, program_of
from dualshield.verification.region import Region, region_of
from dualshield.verification.relaxation import Interval

# Bisection stops when the certified radius is known up to this factor.
TOLERANCE = 1.05
# Range of radii to search; the largest distance between two canonical images is 887.
SMALLEST, LARGEST = 1e-6, 1e3

Progress = Callable[[int, float, bool], None]  # evaluations so far, the radius tried, whether it is certified


@dataclass(frozen=True)
class Verification:
    """A deterministic certificate for one image as a query against its own hash."""

    image: str
    hash: str
    hash_version: str
    rule: str
    norm: str
    space: str
    radius: float  # 0 if nothing could be certified
    radius_upload: float | None  # the same guarantee in the upload's own pixels, for l2
    limit: float  # distances below this match
    distance_bound: float  # no input within the radius has a larger distance to the hash
    next_radius: float  # the smallest radius that was not certified
    evaluations: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return asdict(self)


def verify(
    image: ImageLike,
    hash: HashLike = "c-pdq",
    *,
    norm: str = "l2",
    space: str = "canonical",
    rule: str = "native",
    tolerance: float = TOLERANCE,
    progress: Progress | None = None,
) -> Verification:
    """Certify, for the network in real arithmetic, that every input within the radius still matches the image's hash.

    ``space``: perturbations are of the 512 x 512 pixels in [0, 1] ("canonical"), or of the network input ("input"; that
    of C-PDNA is normalised by ImageNet's deviations). ``rule``: match by the authors' rule ("native") or by bits.
    """
    require("tolerance", tolerance, *NUMBER)
    if not tolerance > 1:
        raise InputError(f"tolerance {tolerance} is not a factor above 1; use {TOLERANCE}, for example")
    started = time.perf_counter()
    hash_, found = as_hash(hash), as_image(image)
    program = program_of(hash_.network, hash_.front_end.shape)
    hash_ = hash_.with_rule(rule)
    region = region_of(hash_.front_end, found.pixels, norm, space)
    # The code as deployed; bits near the boundary may differ from those in float64.
    reference = _entries(hash_, hash_.margins(found.pixels[None])[0], program)
    limit = hash_.boundary if hash_.rule == "native" else hash_.max_distance + 1
    search = _Search(program, region, reference, limit, progress)
    radius, above = search.run(tolerance)
    upload = found.upload_norm
    return Verification(
        image=found.name,
        hash=hash_.name,
        hash_version=hash_.version,
        rule=hash_.rule,
        norm=norm,
        space=RADIUS_SPACE if space == "canonical" else "network-input",
        radius=radius,
        radius_upload=None if upload is None or norm != "l2" or space != "canonical" else radius / upload,
        limit=limit,
        distance_bound=search.distances[radius],
        next_radius=above,
        evaluations=len(search.distances),
        seconds=time.perf_counter() - started,
    )


def _entries(hash_: PerceptualHash, margins: torch.Tensor, program: Program) -> torch.Tensor:
    """Return the entries of a hash as its rule compares them; at a tie, bits and value of an entry may differ."""
    code = hash_.encode(margins)
    if hash_.rule == "hamming":
        code = code.view(math.prod(program.nodes[-1].shape), -1).sum(-1)
    return code.double()


def worst_distance(program: Program, outputs: Interval, reference: torch.Tensor) -> float:
    """Return the largest distance to ``reference`` (entries of a hash) of any outputs within these bounds."""
    if not bool((outputs.low <= outputs.high).all()):
        return math.inf  # there is a NaN, so nothing is proven
    low, high = program.post(outputs.low), program.post(outputs.high)
    return float(torch.maximum((low - reference).abs(), (high - reference).abs()).sum())


class _Search:
    def __init__(
        self, program: Program, region: Region, reference: torch.Tensor, limit: float, progress: Progress | None
    ) -> None:
        self.program, self.region, self.reference, self.limit = program, region, reference, limit
        self.progress = progress
        self.distances: dict[float, float] = {}  # proven distance bound at each radius tried

    def run(self, tolerance: float) -> tuple[float, float]:
        """Return the largest certified radius found, and the smallest radius tried that was not certified."""
        low, high = 0.0, self._first_guess()
        while high < LARGEST and self._certified(high):
            low, high = high, 2 * high
        while low == 0 and high > SMALLEST:
            if self._certified(high / 2):
                low = high / 2
            else:
                high /= 2
        while low > 0 and high > tolerance * low:
            middle = math.sqrt(low * high)
            if self._certified(middle):
                low = middle
            else:
                high = middle
        if low == 0:
            self._certified(low)  # records the bound at radius 0
        return low, high

    def _certified(self, radius: float) -> bool:
        outputs = bound(self.program, self.region.at(radius)).output
        self.distances[radius] = worst_distance(self.program, outputs, self.reference)
        certified = self.distances[radius] < self.limit
        if self.progress is not None:
            self.progress(len(self.distances), radius, certified)
        return certified

    def _first_guess(self) -> float:
        """Return half the radius at which certification would fail if the network were linear."""
        linear = bound(self.program, self.region.at(0.0), refine=False)
        centre, slopes = self.program.run(self.region.centre), linear.sensitivity()
        radius = SMALLEST
        while radius < LARGEST:
            outputs = Interval(centre - radius * slopes, centre + radius * slopes)
            if worst_distance(self.program, outputs, self.reference) >= self.limit:
                break
            radius *= 1.1
        return radius / 2
