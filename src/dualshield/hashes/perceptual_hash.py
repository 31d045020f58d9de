"""The PerceptualHash class, which represents every hash in DualShield.

    canonical pixels --front end (linear)--> features --network--> margins;    bit_i = margin_i > 0

Two codes match if their bit error rate is at most the threshold. A hash is an instance of this class; a new hash
is a function that returns one (see CONTRIBUTING).

If the authors of a hash do not compare bits, the hash may have their rule as well (native_rule.py);
``with_rule("native")`` returns the same hash with that rule, whose codes are the authors' values instead of bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, get_args

import torch

from dualshield.errors import InputError
from dualshield.hashes.linear.linear_hash import LinearHash
from dualshield.hashes.native_rule import NativeRule
from dualshield.hashes.parameters import digest_of_parameters
from dualshield.hashes.threshold import DEFAULT_THRESHOLD
from dualshield.images.frontend import FrontEnd
from dualshield.images.space import CANONICAL_SIZE

RuleName = Literal["hamming", "native"]

NETWORK_BATCH = 4
LIGHT_BATCH_NUMBERS = 2_000_000


@dataclass(frozen=True, eq=False, repr=False)
class PerceptualHash:
    """A hash function: a linear front end, followed by a network.

    ``network`` maps features ``(batch, c, h, w)`` to margins ``(batch, bits)`` in evaluation mode, without randomness,
    and differentiably (except for black boxes).
    """

    name: str
    version: str
    bits: int
    front_end: FrontEnd
    network: torch.nn.Module
    threshold: float = DEFAULT_THRESHOLD
    lowpass: int | None = None
    about: str = ""
    weights: dict[str, str] = field(default_factory=dict)  # file name -> sha256 of the loaded file
    native: NativeRule | None = None
    rule: RuleName = "hamming"
    linear: LinearHash | None = None  # the same hash without torch, if it is linear up to a threshold

    def __post_init__(self) -> None:
        if self.bits < 1:
            raise InputError(f"hash {self.name}: {self.bits} bits; give at least 1")
        if not 0 <= self.threshold < 0.5:
            raise InputError(f"hash {self.name}: threshold {self.threshold} is not a bit error rate in [0, 0.5)")
        self.network.eval()
        self.network.requires_grad_(False)

    def __repr__(self) -> str:
        parts = [f"{self.name} {self.version}", f"{self.bits} bits", f"threshold {self.threshold:g}"]
        parts += [] if self.lowpass is None else [f"low-pass {self.lowpass}"]
        parts += [] if self.rule == "hamming" else [f"rule {self.rule}"]
        return f"<PerceptualHash {', '.join(parts)}>"

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What identifies this function of images, as JSON values; the matching rule and threshold are not included."""
        weights = dict(sorted(self.weights.items()))
        # The parameters of a black box, if it has any, may not determine its output.
        if not weights and not self.is_black_box:
            digest = digest_of_parameters(self.network)
            weights = {} if digest is None else {"parameters": digest}
        return {
            "name": self.name,
            "version": self.version,
            "bits": self.bits,
            "input": self._input,
            "front_end": self.front_end.digest,
            "calls": str(getattr(self.network, "calls", "")),  # of a black box: the function or program
            "weights": weights,
        }

    @property
    def max_distance(self) -> int:
        """The largest Hamming distance that still matches: floor(threshold * bits)."""
        return int(self.threshold * self.bits + 1e-9)

    @property
    def device(self) -> torch.device:
        """Device of the network."""
        return next((t.device for t in self.network.state_dict().values()), torch.device("cpu"))

    @property
    def has_small_network(self) -> bool:
        """Whether the network has almost no weights, or the hash is linear: then drawing noise is a large cost."""
        if self.is_black_box:
            return False
        if self.linear is not None:
            return True
        tensors = [*self.network.parameters(), *self.network.buffers()]
        return sum(tensor.numel() for tensor in tensors) < 10_000

    @property
    def is_black_box(self) -> bool:
        """Whether the hash is a foreign function without gradients, which only the torch engine can call."""
        return bool(getattr(self.network, "is_black_box", False))

    @cached_property
    def is_differentiable(self) -> bool:
        """Whether margins have a gradient, which hardening and white-box attacks need."""
        if self.is_black_box:
            return False
        with torch.enable_grad():
            size = CANONICAL_SIZE
            return self.margins(torch.zeros(1, 3, size, size, device=self.device, requires_grad=True)).requires_grad

    @property
    def is_linear(self) -> bool:
        """Whether the hash is a grey front end and one common boundary (PDQ); hardening then has an exact optimum."""
        return self.is_balanced and self.front_end.shape[0] == 1

    @property
    def is_balanced(self) -> bool:
        """Whether every code has as many ones as zeros, because bits are comparisons with the median (PDQ)."""
        return bool(getattr(self.network, "compares_with_median", False))

    @property
    def preferred_batch(self) -> int:
        """Draws per batch: few for a network (cache, latency), many for a light hash (limited by memory)."""
        if not self.has_small_network:
            return NETWORK_BATCH
        return max(1, min(4096, LIGHT_BATCH_NUMBERS // math.prod(self.front_end.shape)))

    def margins(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return differentiable margins ``(batch, bits)`` of canonical pixels ``(batch, 3, 512, 512)``."""
        margins: torch.Tensor = self.network(self.front_end(pixels))
        return margins

    @torch.no_grad()
    def code(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return the code of one canonical image ``(3, 512, 512)``: ``bits`` bools, or native values.

        The bits are ``margins > 0``, unless the published hash rounds between its steps (`LinearHash.published`). Its
        code is then the published one, of the pixels rounded to 8 bits. Margins and votes have no rounding.
        """
        if self._published is not None:
            return torch.from_numpy(self._published.code(pixels.cpu().numpy()))
        return self.encode(self.margins(pixels[None].to(self.device))[0]).cpu()

    def encode(self, margins: torch.Tensor) -> torch.Tensor:
        """Convert margins to what the rule compares: bits, or the values of the native rule."""
        return margins > 0 if self._native is None else self._native.values(margins)

    def distances(self, code: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """Return distances of codes: differing bits, or the native rule's distance; broadcasts over batches."""
        return (code ^ other).sum(-1) if self._native is None else self._native.distance(code, other)

    def matches(self, code: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """Return whether codes match: the base matcher M_f (paper, Eq. base-matcher); broadcasts over batches."""
        if self._native is not None:
            return self._native.matches(code, other)
        return self.distances(code, other) <= self.max_distance

    @property
    def boundary(self) -> float:
        """Decision threshold; smaller distances match."""
        return self.max_distance + 0.5 if self._native is None else self._native.limit

    @property
    def _input(self) -> str:
        return "x".join(str(n) for n in self.front_end.shape)

    @property
    def _published(self) -> LinearHash | None:
        """The description that has the published function, if bits are compared and there is one."""
        has_one = self.linear is not None and self.linear.published is not None and self._native is None
        return self.linear if has_one else None

    @property
    def _native(self) -> NativeRule | None:
        return self.native if self.rule == "native" else None

    def with_rule(self, rule: str) -> PerceptualHash:
        """Return this hash with a matching rule: on bits (``hamming``), or its authors' (``native``)."""
        if rule not in get_args(RuleName):
            raise InputError(f"unknown rule {rule!r}: use one of {', '.join(get_args(RuleName))}")
        if rule == "native" and self.native is None:
            raise InputError(f"hash {self.name} has no native rule; use the rule hamming")
        return replace(self, rule=rule)  # type: ignore[arg-type]

    def with_lowpass(self, lowpass: int | None) -> PerceptualHash:
        """Return this hash preceded by an m x m low-pass of the canonical image; None changes nothing.

        This is another hash than the published one: its code is ``margins > 0``.
        """
        if lowpass is None or lowpass == self.lowpass:
            return self
        if self.lowpass is not None:
            raise InputError(f"hash {self.name} already has a low-pass of {self.lowpass}; load the hash again")
        linear = None if self.linear is None else self.linear.with_lowpass(lowpass)
        return replace(self, front_end=self.front_end.low_pass(lowpass), lowpass=lowpass, linear=linear)

    def with_threshold(self, threshold: float) -> PerceptualHash:
        """Return this hash with another matching threshold."""
        return replace(self, threshold=threshold)

    def to(self, device: torch.device | str) -> PerceptualHash:
        """Return this hash with its network on ``device``."""
        return replace(self, network=self.network.to(device))

    def describe(self) -> dict[str, Any]:
        """Return the description for listings."""
        return {
            "hash": self.name,
            "version": self.version,
            "bits": self.bits,
            "input": self._input,
            "threshold": self.threshold,
            "about": self.about,
        }
