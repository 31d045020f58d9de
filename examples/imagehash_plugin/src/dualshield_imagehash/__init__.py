"""The classical hashes of the package ImageHash, as black boxes: `dualshield match --hash imagehash-perceptual`.

They are plain functions of PIL images without gradients; DualShield needs no more than that to smooth and certify.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PIL import Image

from dualshield import MissingDependencyError, PerceptualHash, black_box

BITS = 64
# These hashes shrink an image to 8 x 8 or 32 x 32 at once. From 128 x 128 they come out nearly the same (at most 2 of
# 64 bits differed from ImageHash on the file itself, over 119 photos), and a draw costs a sixteenth.
SIDE = 128


def wrap(function: Callable[[Image.Image], Any], name: str, version: str, side: int = SIDE) -> PerceptualHash:
    """Any function of ImageHash with its default size of 8: its result keeps 8 x 8 bools in the attribute ``hash``."""
    return black_box(
        lambda image: function(image).hash,
        name=name,
        version=version,
        bits=BITS,
        side=side,
        about="a classical hash of the package ImageHash; a black box: no gradients",
    )


def average() -> PerceptualHash:
    """Each pixel of an 8 x 8 thumbnail against their mean."""
    return _load("average_hash", "imagehash-average")


def difference() -> PerceptualHash:
    """Each pixel of a 9 x 8 thumbnail against its neighbour."""
    return _load("dhash", "imagehash-difference")


def perceptual() -> PerceptualHash:
    """The lowest frequencies of a 32 x 32 thumbnail against their median."""
    return _load("phash", "imagehash-perceptual")


def _load(function: str, name: str) -> PerceptualHash:
    # Imported here, so that a listing of hashes can say what is missing.
    try:
        import imagehash
    except ImportError as error:
        raise MissingDependencyError(f"hash {name} needs the package ImageHash; run: pip install ImageHash") from error
    return wrap(getattr(imagehash, function), name, imagehash.__version__)
