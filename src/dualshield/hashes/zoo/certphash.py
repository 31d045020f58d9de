"""Common code of the CertPHash hashes: a network in one weight file, and the authors' matching rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import nn

from dualshield.hashes.native_rule import NativeRule
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.hashes.threshold import DEFAULT_THRESHOLD
from dualshield.images.frontend import FrontEnd
from dualshield.weights import find, load_strict, read_state


@dataclass(frozen=True, kw_only=True)
class CertPHash:
    """One CertPHash network as a hash."""

    name: str
    about: str
    bits: int
    front_end: FrontEnd
    net: Callable[[], nn.Module]
    margins: Callable[[], nn.Module] | None = None  # maps outputs to margins; None if they are equal
    native: NativeRule
    threshold: float = DEFAULT_THRESHOLD

    def build(self, state: Mapping[str, torch.Tensor], file: str = "checkpoint") -> nn.Module:
        """Return the network with the authors' weights."""
        net = self.net()
        load_strict(net, state, self.name, file)
        return net

    def load(self) -> PerceptualHash:
        """Return the hash with the imported weights."""
        stored = find(self.name)
        net = self.build(read_state(stored.path, self.name), stored.weight.file)
        return PerceptualHash(
            name=self.name,
            version="1",
            bits=self.bits,
            front_end=self.front_end,
            network=nn.Sequential(net, self.margins()) if self.margins else net,
            threshold=self.threshold,
            about=self.about,
            weights={stored.weight.file: stored.sha256},
            native=self.native,
        )
