"""How a transformation is called: on a tensor of any size, or on whatever holds an image."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import overload

import torch

from dualshield.images.accept import ImageLike, NotTensor, as_image
from dualshield.images.canonical import CanonicalImage


class Applied(ABC):
    """Something with a name that changes pixels."""

    @property
    @abstractmethod
    def name(self) -> str: ...

    @abstractmethod
    def _apply(self, pixels: torch.Tensor, seed: int) -> torch.Tensor: ...

    @overload
    def __call__(self, image: torch.Tensor, *, seed: int = 0) -> torch.Tensor: ...

    @overload
    def __call__(self, image: NotTensor, *, seed: int = 0) -> CanonicalImage: ...

    def __call__(self, image: ImageLike, *, seed: int = 0) -> torch.Tensor | CanonicalImage:
        """Return the transformed image: of the same size for a float tensor (3, height, width), else canonical.

        Other tensors (uint8, grey, with alpha) also give a canonical image, which the overloads cannot express.
        """
        if isinstance(image, torch.Tensor) and image.ndim == 3 and image.shape[0] == 3 and image.is_floating_point():
            return self._apply(image, seed)
        canonical = as_image(image)
        return CanonicalImage(self._apply(canonical.pixels, seed), f"{canonical.name} {self.name}")
