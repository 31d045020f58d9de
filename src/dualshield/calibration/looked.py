"""What a calibration keeps of each photo for an exact matcher: coefficients and plain codes, no pixels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch

from dualshield.calibration.exact import SIGMAS, PlainSeen, Seen, calibrate_exact
from dualshield.hashes.linear.linear_hash import LinearHash
from dualshield.images.synthetic import blank_images
from dualshield.smoothing.exact.profile import ExactProfile
from dualshield.transforms import ALL_TRANSFORMS

EXACT_LOWPASSES = (None, 64, 32)

Array = npt.NDArray[np.float32]


class Looked:
    """The photos that a calibration has seen so far; transformations are made of the first few only."""

    def __init__(self, linear: LinearHash, lowpasses: Sequence[int | None], variant_images: int, seed: int) -> None:
        self.plain = linear
        self.behind = [linear.with_lowpass(lowpass) for lowpass in lowpasses]
        self.variant_images, self.seed = variant_images, seed
        self._photos: list[list[npt.NDArray[np.float64]]] = []
        self._codes: list[npt.NDArray[np.bool_]] = []
        self._variants: list[list[list[npt.NDArray[np.float64]]]] = []
        self._variant_codes: list[list[npt.NDArray[np.bool_]]] = []

    def add(self, pixels: torch.Tensor) -> None:
        """Look at one photo."""
        array = pixels.numpy()
        self._photos.append(self._coefficients(array))
        self._codes.append(self.plain.code(array))
        if len(self._variants) < self.variant_images:
            variants = [transform(pixels, seed=self.seed).numpy() for transform in ALL_TRANSFORMS]
            self._variants.append([self._coefficients(variant) for variant in variants])
            self._variant_codes.append([self.plain.code(variant) for variant in variants])

    def calibrate(
        self,
        threshold: float,
        radius_images: int,
        progress: Callable[[str, int, int], None],
        sigmas: tuple[float, ...] = SIGMAS,
    ) -> ExactProfile:
        """Return the profile for what was seen."""
        blanks = [image.pixels.numpy() for image in blank_images()]
        blank_coefficients = [self._coefficients(blank) for blank in blanks]
        behind = [
            Seen(
                linear,
                np.array([photo[place] for photo in self._photos]),
                np.array([blank[place] for blank in blank_coefficients]),
                np.array([[variant[place] for variant in photo] for photo in self._variants]),
            )
            for place, linear in enumerate(self.behind)
        ]
        plain = PlainSeen(
            np.array(self._codes),
            np.array([self.plain.code(blank) for blank in blanks]),
            np.array(self._variant_codes),
            threshold,
        )
        return calibrate_exact(behind, plain, radius_images=radius_images, sigmas=sigmas, progress=progress)

    def _coefficients(self, pixels: Array) -> list[npt.NDArray[np.float64]]:
        return [linear.coefficients(pixels) for linear in self.behind]
