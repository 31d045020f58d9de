"""The images of a folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dualshield.errors import ImageError
from dualshield.images.decode import list_images

pytestmark = pytest.mark.usefixtures("pillow_left_alone")


def test_list_images(tmp_path: Path) -> None:
    for name in ("b.JPG", "a.png", "c.heic", ".hidden.png", "notes.txt", "noext", "d.tar.webp"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "folder.png" / "inner.png").write_bytes(b"x")
    (tmp_path / "dangling.png").symlink_to(tmp_path / "nowhere.png")
    os.mkfifo(tmp_path / "pipe.png")
    expected = [tmp_path / name for name in ("a.png", "b.JPG", "c.heic", "d.tar.webp")]
    assert list_images(tmp_path) == expected
    assert list_images(str(tmp_path)) == expected


def test_list_images_refuses_what_is_no_folder_of_images(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="no such folder"):
        list_images(tmp_path / "missing")
    with pytest.raises(ImageError, match="no such folder"):
        list_images("")
    with pytest.raises(ImageError, match="holds no images"):
        list_images(tmp_path)
    (tmp_path / "a.txt").write_bytes(b"x")
    with pytest.raises(ImageError, match="holds no images"):
        list_images(tmp_path)
    with pytest.raises(ImageError, match="not a folder"):
        list_images(tmp_path / "a.txt")
    with pytest.raises(ImageError, match="cannot be listed"):
        list_images("a\0b")
