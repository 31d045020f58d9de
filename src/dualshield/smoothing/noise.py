"""Gaussian noise from a cryptographic key stream.

The defender's noise must be fresh and secret. Torch's CPU generator keeps only 32 bits of its seed, which an
attacker who sees a few vote counts could search; so normals are made from an AES-256-CTR key stream under a key
from the operating system, by Box-Muller. (It is also faster than ``torch.randn``.) The same construction under a
key derived from a seed gives reproducible experiments.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import secrets

import torch
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from dualshield.errors import InputError


class GaussianSource:
    """A stream of independent standard normals; ``fork`` gives streams that never overlap."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._forks = 0
        # One key encrypts one stream only (forks derive keys of their own), so a zero counter is safe.
        self._stream = Cipher(AES(hashlib.sha256(b"stream" + key).digest()), CTR(bytes(16))).encryptor()

    @classmethod
    def secret(cls) -> GaussianSource:
        """For production: a fresh key nobody knows."""
        return cls(secrets.token_bytes(32))

    @classmethod
    def from_seed(cls, seed: int) -> GaussianSource:
        """For reproducible experiments only: an attacker who knows the seed knows the noise."""
        if seed < 0:
            raise InputError(f"seed {seed} is negative")
        return cls(hashlib.sha256(f"dualshield seed {seed}".encode()).digest())

    @classmethod
    def make(cls, seed: int | None) -> GaussianSource:
        """``from_seed`` where a seed is given, else ``secret``."""
        return cls.secret() if seed is None else cls.from_seed(seed)

    def fork(self, label: str) -> GaussianSource:
        """A new independent stream; never the same one twice, even under the same label."""
        self._forks += 1
        return GaussianSource(hmac.digest(self._key, f"{self._forks}:{label}".encode(), "sha256"))

    def _words(self, count: int) -> torch.Tensor:
        return torch.frombuffer(bytearray(self._stream.update(bytes(4 * count))), dtype=torch.int32)

    def normal(self, shape: tuple[int, ...], device: torch.device | str = "cpu") -> torch.Tensor:
        """Independent standard normals, float32 (tails end at 6.7 standard deviations)."""
        size = math.prod(shape)
        half = -(-size // 2)
        if size == 0:
            return torch.empty(shape, device=device)
        words = self._words(2 * half).to(device).to(torch.float32)
        # |word| keeps its full precision near zero, which is where the far tail comes from.
        radius = words[:half].abs_().add_(0.5).mul_(2.0**-31).clamp_(max=1.0).log_().mul_(-2.0).sqrt_()
        angle = words[half:].mul_(math.pi * 2.0**-31)
        out = torch.empty(2 * half, dtype=torch.float32, device=device)
        torch.mul(angle.cos(), radius, out=out[:half])
        torch.mul(angle.sin(), radius, out=out[half:])
        return out[:size].view(shape)

    def integers(self, count: int, below: int) -> torch.Tensor:
        """Uniform integers in [0, below) (64-bit remainders: the bias is below 2^-40)."""
        return self._words(2 * count).view(torch.int64).remainder(below)
