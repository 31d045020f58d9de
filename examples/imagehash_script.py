"""A hash of the package ImageHash, smoothed and certified in one script: no plug-in, no installation.

pip install ImageHash
python examples/imagehash_script.py reference.jpg upload.jpg
"""

from __future__ import annotations

import sys

import imagehash

import dualshield as ds


def main(reference: str, query: str) -> None:
    """Print the decision on one pair."""
    hash_ = ds.black_box(lambda image: imagehash.phash(image).hash, name="imagehash-perceptual", bits=64, side=128)
    result = ds.match(reference, query, hash=hash_, sigma=1.0, n=1000)
    print(f"{result.decision} within an l2 radius of {result.radius:.3f}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except ds.DualShieldError as error:
        sys.exit(f"error: {error}")
