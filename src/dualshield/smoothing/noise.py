"""Gaussian noise from a cryptographic key stream.

The defender's noise must be fresh and secret. Torch's CPU generator keeps only 32 bits of its seed, which an
attacker who sees a few vote counts could search. So normals are made by Box-Muller from an AES-256-CTR key stream
whose key comes from the operating system. (This is also faster than ``torch.randn``.) The same construction with a
key derived from a seed gives reproducible experiments.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import os
import secrets
from functools import lru_cache
from itertools import product

import numpy as np
import numpy.typing as npt
import torch
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from dualshield.errors import InputError
from dualshield.smoothing.names import Origin

Words = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]
_f32 = np.float32
# Pairs of normals made at a time. They fit into the cache of one CPU core; a whole image would go through main memory
# a dozen times.
PAIRS = 16_384


@lru_cache(maxsize=4)
def _zeros(count: int) -> bytes:
    """Zero bytes, which are encrypted to get the key stream (cached)."""
    return bytes(count)


class GaussianSource:
    """A stream of independent standard normals; ``fork`` returns streams that never overlap.

    ``origin`` says whether others can know the numbers: a ``secret`` key comes from the operating system, a
    ``seeded`` key from data that others may know. A secret stream takes a new key in a forked process, so that parent
    and children never draw the same numbers.
    """

    def __init__(self, key: bytes, origin: Origin = "seeded") -> None:
        self.origin: Origin = origin
        self._start(key)

    def _start(self, key: bytes) -> None:
        self._process = os.getpid()
        self._key = key
        self._forks = 0
        # One key encrypts only one stream (each fork derives another key), so a zero counter is safe.
        self._stream = Cipher(AES(hashlib.sha256(b"stream" + key).digest()), CTR(bytes(16))).encryptor()

    def _rekey_after_fork(self) -> None:
        if self.origin == "secret" and self._process != os.getpid():
            self._start(secrets.token_bytes(32))

    @classmethod
    def secret(cls) -> GaussianSource:
        """Return a source with a fresh key from the operating system, for production."""
        return cls(secrets.token_bytes(32), "secret")

    @classmethod
    def from_seed(cls, seed: int) -> GaussianSource:
        """Return a reproducible source, for experiments only: an attacker who knows the seed knows the noise."""
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise InputError(f"seed {seed!r} is not a whole number of at least 0")
        return cls(hashlib.sha256(f"dualshield seed {seed}".encode()).digest())

    @classmethod
    def for_work(cls, seed: int, *labels: object) -> GaussianSource:
        """Return the source for one piece of an experiment; it depends only on the seed and the labels."""
        if seed < 0:
            raise InputError(f"seed {seed} is negative; give a whole number of at least 0")
        text = "\n".join(map(str, (seed, *labels)))
        return cls.from_seed(int.from_bytes(hashlib.sha256(text.encode(errors="surrogateescape")).digest()))

    @classmethod
    def make(cls, seed: int | None) -> GaussianSource:
        """Return ``from_seed(seed)``, or ``secret()`` if the seed is None."""
        return cls.secret() if seed is None else cls.from_seed(seed)

    def __repr__(self) -> str:
        return f"<GaussianSource {self.origin}>"

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a noise stream cannot be copied: two copies would draw the same numbers")

    def fork(self, label: str) -> GaussianSource:
        """Return a new independent stream; two forks differ even under the same label."""
        self._rekey_after_fork()
        self._forks += 1
        return GaussianSource(hmac.digest(self._key, f"{self._forks}:{label}".encode(), "sha256"), self.origin)

    def _words(self, count: int) -> Words:
        self._rekey_after_fork()
        return np.frombuffer(self._stream.update(_zeros(4 * count)), dtype=np.int32)

    def _normal(self, size: int) -> Floats:
        # Numpy, not torch: threads that torch leaves spinning after each operation would slow down the engine, which
        # computes the previous batch at the same time.
        out = np.empty(size + size % 2, np.float32)
        for first in range(0, len(out), 2 * PAIRS):
            self._box_muller(out[first : first + 2 * PAIRS])
        return out[:size]

    def _box_muller(self, out: Floats, sigma: float = 1.0) -> None:
        """Fill ``out`` with normals by Box-Muller: cosines in the first half, sines in the second."""
        half = len(out) // 2
        words = self._words(2 * half)
        radius, angle = out[:half], out[half:]
        np.copyto(radius, words[:half], casting="same_kind")
        np.copyto(angle, words[half:], casting="same_kind")
        # |word| keeps its full precision near zero, where the far tail comes from. The largest value is 2^31; adding
        # 0.5 rounds to 2^31 again, so no logarithm is above zero.
        np.abs(radius, out=radius)
        radius += _f32(0.5)
        radius *= _f32(2.0**-31)
        np.log(radius, out=radius)
        radius *= _f32(-2)
        np.sqrt(radius, out=radius)
        if sigma != 1:
            radius *= _f32(sigma)
        angle *= _f32(math.pi * 2.0**-31)
        cosine = np.cos(angle)
        np.sin(angle, out=angle)
        angle *= radius
        radius *= cosine

    def normal(self, shape: tuple[int, ...]) -> torch.Tensor:
        """Draw independent standard normals, float32 (tails end at 6.7 standard deviations)."""
        return torch.from_numpy(self._normal(math.prod(shape)).reshape(shape))

    def noisy_copies(self, mean: torch.Tensor, sigma: float, count: int) -> torch.Tensor:
        """Return ``count`` copies of ``mean``, each with independent Gaussian noise."""
        centre = np.ascontiguousarray(mean.cpu().numpy()).reshape(-1)
        if centre.size % (2 * PAIRS):
            noisy = self._normal(count * centre.size).reshape(count, -1)
            noisy *= _f32(sigma)
            noisy += centre
        else:  # scale and shift each part while it is in the cache
            noisy = np.empty((count, centre.size), np.float32)
            for row, first in product(noisy, range(0, centre.size, 2 * PAIRS)):
                part = row[first : first + 2 * PAIRS]
                self._box_muller(part, sigma)
                part += centre[first : first + 2 * PAIRS]
        return torch.from_numpy(noisy.reshape(count, *mean.shape)).to(mean.device)

    def integers(self, count: int, below: int) -> torch.Tensor:
        """Draw uniform integers in [0, below) (64-bit remainders: the bias is below 2^-40)."""
        return torch.from_numpy(self._words(2 * count).view(np.int64) % below)
