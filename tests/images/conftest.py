"""A check on every decoding: nothing is printed, and Pillow is left as it was."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
from PIL import Image, ImageFile


@pytest.fixture
def pillow_left_alone(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """No decoding may print anything or leave Pillow's switches or the warning filters changed."""
    before = (Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES, list(warnings.filters))
    yield
    assert (Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES, list(warnings.filters)) == before
    assert capfd.readouterr() == ("", "")
