from .accept import ImageLike, as_image
from .canonical import CanonicalImage, canonicalise, load_image
from .decode import DecodedImage, decode, list_images
from .frontend import FrontEnd
from .space import CANONICAL_SIZE, RADIUS_SPACE

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
