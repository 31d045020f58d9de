"""Folders as they come: damaged files, copies, too few images."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dualshield.errors import InputError
from dualshield.evaluation.plan.datasets import Picture, Pool, gather


@pytest.fixture
def folder(tmp_path: Path, photo_files: list[Path]) -> Path:
    """a.png, an exact copy, a recompressed copy, another photo, a damaged file, and what is no image."""
    folder = tmp_path / "mixed"
    folder.mkdir()
    shutil.copy(photo_files[1], folder / "a.png")
    shutil.copy(photo_files[1], folder / "copy.png")
    with Image.open(photo_files[1]) as image:
        image.convert("RGB").save(folder / "again.jpg", quality=60)
    shutil.copy(photo_files[0], folder / "other.png")
    (folder / "broken.jpg").write_bytes(photo_files[0].read_bytes()[:100])
    (folder / "notes.txt").write_text("no image")
    return folder


def names(pool: Pool) -> list[str]:
    return [picture.label for picture in pool.pictures]


def test_what_cannot_be_read_is_skipped_and_said(folder: Path) -> None:
    pool = gather([folder], 10)
    assert names(pool) == ["mixed/a.png", "mixed/again.jpg", "mixed/copy.png", "mixed/other.png"]
    assert [found.image for found in pool.unreadable] == ["mixed/broken.jpg"]
    warnings = "\n".join(pool.warnings())
    assert "skipped: mixed/broken.jpg" in warnings
    assert "mixed has 4 readable images, fewer than the 10 asked for" in warnings
    assert str(folder) not in warnings


def test_duplicates_are_found_and_are_not_unrelated(folder: Path) -> None:
    pool = gather([folder], 10)
    found = {(d.image, d.other): d.exact for d in pool.duplicates}
    assert found[("mixed/a.png", "mixed/copy.png")]
    assert not found[("mixed/a.png", "mixed/again.jpg")]
    assert not any("other" in image for pair in found for image in pair)
    a, again, copy, other = pool.pictures
    assert pool.related(a, copy)
    assert pool.related(copy, a)
    assert pool.related(a, again)
    assert not pool.related(a, other)


def test_the_limit_counts_readable_images_of_each_folder(folder: Path, data: Path) -> None:
    pool = gather([folder, data], 2)
    assert names(pool) == ["mixed/a.png", "photos/astronaut.png", "mixed/again.jpg", "photos/chelsea.png"]
    assert [picture.index for picture in pool.pictures] == [0, 0, 1, 1]
    assert pool.datasets == ["mixed", "photos"]
    # The broken file stands behind the limit and was never opened.
    assert not pool.unreadable


def test_images_that_are_left_to_another_run_keep_their_places(folder: Path, data: Path) -> None:
    """Two halves are the whole: each image and each damaged file belongs to one of them."""
    whole = gather([folder, data], 4)
    halves = [gather([folder, data], 2), gather([folder, data], 2, skip=2)]
    found = {(picture.label, picture.index) for half in halves for picture in half.pictures}
    assert found == {(picture.label, picture.index) for picture in whole.pictures}
    assert names(halves[1]) == ["mixed/copy.png", "photos/coffee.png", "mixed/other.png"]
    assert [[entry.image for entry in half.unreadable] for half in halves] == [[], ["mixed/broken.jpg"]]
    assert "photos has 1 readable images after the first 2, fewer than the 2 asked for" in halves[1].warnings()


def test_folders_that_cannot_be_used(tmp_path: Path, data: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(data, elsewhere / "photos")
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "x.png").write_bytes(b"")
    (tmp_path / "empty").mkdir()
    shutil.copytree(data, tmp_path / "all")
    for folders, limit, message in (
        ([data, elsewhere / "photos"], 2, "two folders are named 'photos'"),
        ([data, data / ".." / "photos"], 2, "two folders are named"),
        ([damaged], 2, "none of its 1 images can be read"),
        ([tmp_path / "empty"], 2, "holds no images"),
        ([tmp_path / "missing"], 2, "no such folder"),
        ([tmp_path / "all"], 2, "cannot be named 'all'"),
        ([data], 0, "limit 0"),
        ([], 2, "no data"),
    ):
        with pytest.raises(InputError, match=message):
            gather(folders, limit)
    for folder, skip, message in (
        (data, -1, "skip -1 is negative"),
        (data, 3, "photos has only 3 readable images, so skipping 3 leaves none"),
        (damaged, 1, "none of its 1 images can be read; the last error: damaged/x.png"),
    ):
        with pytest.raises(InputError, match=message):
            gather([folder], 2, skip=skip)


def test_an_image_that_changed_meanwhile_is_refused(data: Path) -> None:
    picture: Picture = gather([data], 1).pictures[0]
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(picture.file)
    with pytest.raises(InputError, match="changed during the run"):
        picture.load()
