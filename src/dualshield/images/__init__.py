"""Images: decoding, the canonical 512 x 512 space, and linear front ends."""

from dualshield.images.accept import ImageLike, as_image
from dualshield.images.canonical import CANONICAL_SIZE, RADIUS_SPACE, CanonicalImage, canonicalise, load_image
from dualshield.images.decode import DecodedImage, decode, list_images
from dualshield.images.frontend import FrontEnd

__all__ = [
    "CANONICAL_SIZE",
    "RADIUS_SPACE",
    "CanonicalImage",
    "DecodedImage",
    "FrontEnd",
    "ImageLike",
    "as_image",
    "canonicalise",
    "decode",
    "list_images",
    "load_image",
]
