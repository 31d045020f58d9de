"""A check that a network is one fixed function of its input, without which no certificate holds."""

from __future__ import annotations

import torch

from dualshield.engines.engine import Engine, Reads
from dualshield.errors import DualShieldError, InputError
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images.canonical import CANONICAL_SIZE

PROBES = 8


def require_fixed_function(engine: Engine, hash_: PerceptualHash, *, in_pixel_range: bool = False) -> None:
    """Refuse a network whose margins of an input change from call to call, or with what else is in the batch.

    Votes are i.i.d. only where a hash is one fixed function of the image. So some inputs are computed twice, beside
    different ones, and alone. With ``in_pixel_range`` these inputs come from images within [0, 1], because noisy images
    stay there. Black boxes are asked one image at a time, and twice when they are loaded.
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
        except Exception as error:  # a foreign network raises whatever it likes
            why = f"{type(error).__name__}: {error}"
            raise InputError(f"hash {hash_.name}: its network cannot be run ({why})") from error
        if not found.is_floating_point():
            raise InputError(f"hash {hash_.name}: its network gives {found.dtype} instead of margins")
        return found

    first = margins(0, size)
    if not bool(torch.isfinite(first).all()):
        raise InputError(f"hash {hash_.name}: its network gives numbers that are not finite; it cannot be certified")
    # What rounding may do: little beside each bit's own margins, and next to nothing beside the largest of all.
    tolerance = 1e-3 * first.abs().max(0).values + 1e-8 * first.abs().max()
    for what, expected, (start, end) in (
        ("call to call", first, (0, size)),
        ("batch to batch", first[size - 1 :], (size - 1, 2 * size - 1)),
        ("batch to batch", first[:1], (0, 1)),
    ):
        found = margins(start, end)[: len(expected)]
        if not bool(((expected - found).abs() <= tolerance).all()):
            raise InputError(
                f"hash {hash_.name}: its network answers the same input differently from {what}, so its votes would "
                "not be independent and no certificate would hold; take out what is random or depends on the batch"
            )


def _probes(hash_: PerceptualHash, reads: Reads, in_pixel_range: bool) -> torch.Tensor:
    """Some inputs of an engine, like those it will see: noisy cores, or what valid images give."""
    generator, front_end = torch.Generator().manual_seed(0), hash_.front_end
    if not in_pixel_range:
        cores = 0.5 + 0.25 * torch.randn(2 * PROBES - 1, *front_end.core_shape, generator=generator)
        return cores if reads == "core" else front_end.expansion()(cores)
    coarse = torch.rand(2 * PROBES - 1, 3, 16, 16, generator=generator)
    pixels = torch.nn.functional.interpolate(coarse, size=(CANONICAL_SIZE, CANONICAL_SIZE))
    see = front_end.core if reads == "core" else front_end
    return torch.stack([see(image) for image in pixels])
