"""A check that a network is one fixed function of its input; without that, no certificate holds."""

from __future__ import annotations

import torch

from dualshield.engines.engine import Engine, Reads
from dualshield.errors import DualShieldError, InputError
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images.space import CANONICAL_SIZE

PROBES = 8


def require_fixed_function(engine: Engine, hash_: PerceptualHash, *, in_pixel_range: bool = False) -> None:
    """Raise InputError if the margins of an input change from call to call, or with the rest of the batch.

    Votes are i.i.d. only if the hash is one fixed function of the image. So some inputs are computed twice, in
    different batches, and alone. With ``in_pixel_range`` the inputs come from images within [0, 1], for noise that is
    clipped to that range. Black boxes are skipped: they get one image per call, and are checked when loaded.
    """
    if hash_.is_black_box:
        return
    probes = _probes(hash_, engine.reads, in_pixel_range)
    size = min(PROBES, engine.batch_size)

    def margins(start: int, end: int) -> torch.Tensor:
        try:
            found = torch.cat(list(engine.run([probes[start:end]]))).cpu()
        except DualShieldError:
            raise
        except Exception as error:  # a third-party network may raise anything
            why = f"{type(error).__name__}: {error}"
            raise InputError(f"hash {hash_.name}: its network cannot be run ({why})") from error
        if not found.is_floating_point():
            raise InputError(f"hash {hash_.name}: its network returns {found.dtype} instead of float margins")
        return found

    first = margins(0, size)
    if not bool(torch.isfinite(first).all()):
        raise InputError(f"hash {hash_.name}: its network returns margins that are not finite; it cannot be certified")
    # Allowance for rounding: 1e-3 of each bit's largest margin, plus 1e-8 of the largest margin of all bits.
    tolerance = 1e-3 * first.abs().max(0).values + 1e-8 * first.abs().max()
    for what, expected, (start, end) in (
        ("call to call", first, (0, size)),
        ("batch to batch", first[size - 1 :], (size - 1, 2 * size - 1)),
        ("batch to batch", first[:1], (0, 1)),
    ):
        found = margins(start, end)[: len(expected)]
        if not bool(((expected - found).abs() <= tolerance).all()):
            raise InputError(
                f"hash {hash_.name}: its network gives different margins for the same input from {what}, so its votes "
                "would not be independent and no certificate would hold; remove what is random or depends on the batch"
            )


def _probes(hash_: PerceptualHash, reads: Reads, in_pixel_range: bool) -> torch.Tensor:
    """Return test inputs like those in use: noisy cores, or cores or features of valid images."""
    generator, front_end = torch.Generator().manual_seed(0), hash_.front_end
    if not in_pixel_range:
        cores = 0.5 + 0.25 * torch.randn(2 * PROBES - 1, *front_end.core_shape, generator=generator)
        return cores if reads == "core" else front_end.expansion()(cores)
    coarse = torch.rand(2 * PROBES - 1, 3, 16, 16, generator=generator)
    pixels = torch.nn.functional.interpolate(coarse, size=(CANONICAL_SIZE, CANONICAL_SIZE))
    see = front_end.core if reads == "core" else front_end
    return torch.stack([see(image) for image in pixels])
