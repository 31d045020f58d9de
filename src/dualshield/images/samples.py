"""Sample photos from scikit-image, for the demo and the tests; the package is located, not imported."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from dualshield._common.extras import how_to_install
from dualshield.errors import MissingDependencyError

SAMPLE_PHOTOS = ("astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg", "motorcycle_left.png", "camera.png")


def sample_photos() -> list[Path]:
    """Return the paths of the photos in a fixed order; the photos are unrelated to each other."""
    spec = importlib.util.find_spec("skimage")
    folder = Path(spec.submodule_search_locations[0]) / "data" if spec and spec.submodule_search_locations else None
    if folder is None or not all((folder / name).is_file() for name in SAMPLE_PHOTOS):
        raise MissingDependencyError(
            f"the sample photos come with scikit-image, which is not installed; run: {how_to_install('demo')}"
        )
    return [folder / name for name in SAMPLE_PHOTOS]
