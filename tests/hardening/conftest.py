"""A photo to harden, and a hardener that takes no time."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from dualshield.hardening.harden import Hardener
from dualshield.smoothing.deploy import deploy


@pytest.fixture(scope="module")
def quick() -> Hardener:
    """For tests of everything but the gain."""
    return Hardener(deploy("pdq", n=20), preset="paper", steps=1)


@pytest.fixture(scope="module")
def photo(photo_files: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A landscape JPEG that is not of canonical size."""
    file = tmp_path_factory.mktemp("photos") / "cat.jpg"
    with Image.open(photo_files[1]) as image:
        image.convert("RGB").resize((640, 420)).save(file, quality=92)
    return file
