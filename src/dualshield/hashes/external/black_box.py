"""Black-box hashes: a Python function, or a program (command.py), of which only the outputs are known.

    hash_ = black_box(my_function, name="mine", bits=64, side=128)

Smoothing needs nothing else. The noisy image is rounded and clipped to 8 bits before the function gets it, because
such functions take 8-bit images. This happens inside the hash, after the noise, so it is part of the function that is
smoothed, and certificates hold as for any other hash. But a certificate needs one fixed function: its output must
depend on the pixels alone, not on chance, time or earlier calls. Two calls at load time detect obvious violations;
no test can detect all of them.

There is no gradient, so hardening and white-box attacks are impossible; query attacks (nes) work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from dualshield.errors import CodeError, DualShieldError, InputError
from dualshield.hashes.codes import from_hex
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.hashes.threshold import DEFAULT_THRESHOLD
from dualshield.images.frontend import FrontEnd
from dualshield.images.space import CANONICAL_SIZE
from dualshield.images.synthetic import natural_image

Takes = Literal["image", "array"]
Bits = npt.NDArray[np.bool_]

MAX_BITS = 65536


class BlackBox(torch.nn.Module):
    """Wraps a function of 8-bit images; its bits become margins of +1 and -1. One call per image, no gradient."""

    is_black_box = True

    def __init__(self, function: Callable[[Any], Any], name: str, bits: int, takes: Takes) -> None:
        super().__init__()
        self.function, self.name, self.bits, self.takes = function, name, bits, takes
        who = getattr(function, "calls", None) or f"{function.__module__}.{getattr(function, '__qualname__', '')}"
        self.calls = f"{who} with an {takes}"

    @torch.no_grad()
    def forward(self, features: torch.Tensor) -> torch.Tensor:
        levels = (features * 255).round_().clamp_(0, 255).to("cpu", torch.uint8)
        pixels = levels.permute(0, 2, 3, 1).contiguous().numpy()
        bits = np.stack([self._bits(image) for image in pixels])
        return torch.from_numpy(np.where(bits, np.float32(1), np.float32(-1))).to(features.device)

    def _bits(self, pixels: npt.NDArray[np.uint8]) -> Bits:
        # A copy, so that the function cannot change other images of the batch.
        argument = Image.fromarray(pixels) if self.takes == "image" else pixels.copy()
        try:
            answer = self.function(argument)
        except DualShieldError:
            raise
        except (Exception, SystemExit) as error:  # third-party code; exit() must not look like a decision
            why = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            raise InputError(f"hash {self.name}: its function failed ({why})") from error
        try:
            return to_bits(answer, self.bits)
        except CodeError as error:
            raise InputError(f"hash {self.name}: {error}") from error


def black_box(
    function: Callable[[Any], Any],
    *,
    name: str,
    bits: int,
    version: str = "1",
    threshold: float = DEFAULT_THRESHOLD,
    side: int = CANONICAL_SIZE,
    takes: Takes = "image",
    about: str = "",
    weights: dict[str, str] | None = None,
) -> PerceptualHash:
    """Return a hash made from a function that takes one image and returns its bits.

    The function gets an RGB PIL image, or with ``takes="array"`` a uint8 array of ``side`` x ``side`` x 3, and returns
    an array of bools or of 0 and 1 (any shape, read row by row), bytes, or a hex string, first bit first. DualShield
    itself resizes to ``side``, linearly, before the noise is drawn: a smaller side makes draws cheaper. The side is
    part of the hash, so it must be the same for references and queries.
    """
    if not 1 <= bits <= MAX_BITS:
        raise InputError(f"hash {name}: {bits} bits, expected 1 to {MAX_BITS}")
    if not 1 <= side <= CANONICAL_SIZE:
        raise InputError(f"hash {name}: side {side}, expected 1 to {CANONICAL_SIZE}")
    if takes not in get_args(Takes):
        raise InputError(f"hash {name}: takes {takes!r}, expected one of {', '.join(get_args(Takes))}")
    front_end = FrontEnd.identity()
    hash_ = PerceptualHash(
        name=name,
        version=version,
        bits=bits,
        front_end=front_end if side == CANONICAL_SIZE else front_end.resize(side, side),
        network=BlackBox(function, name, bits, takes),
        threshold=threshold,
        about=about or "a black box: no gradients",
        weights=weights or {},
    )
    probe = natural_image(0).pixels
    if not torch.equal(hash_.code(probe), hash_.code(probe)):
        raise InputError(
            f"hash {name}: two calls on the same image gave different bits; only a deterministic hash can be certified"
        )
    return hash_


def to_bits(answer: Any, bits: int) -> Bits:
    """Convert the output of a black box to ``bits`` bools; raises CodeError if that is impossible."""
    if isinstance(answer, str):
        return from_hex(answer.strip(), bits).numpy()
    if isinstance(answer, bytes | bytearray):
        if len(answer) != -(-bits // 8):
            raise CodeError(f"it gave {len(answer)} bytes, {bits} bits need {-(-bits // 8)}")
        unpacked = np.unpackbits(np.frombuffer(answer, dtype=np.uint8)).astype(bool)
        if unpacked[bits:].any():
            raise CodeError(f"it gave bytes with bits set beyond the {bits} of this hash")
        return unpacked[:bits]
    try:
        values = np.asarray(answer).reshape(-1)
    except Exception as error:  # ragged lists, or objects with their own __array__
        raise CodeError(f"it gave {type(answer).__name__}, which is not an array of bits ({error})") from error
    if values.dtype.kind not in "biuf":
        raise CodeError(f"it gave {type(answer).__name__}, expected bools, 0 and 1, bytes or a hex string")
    if len(values) != bits:
        raise CodeError(f"it gave {len(values)} values, expected {bits} bits")
    if not np.isin(values, (0, 1)).all():
        raise CodeError("it gave an array with values other than 0 and 1")
    return values.astype(bool)
