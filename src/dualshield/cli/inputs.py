"""Read images given on the command line: files, folders, and ``-`` for standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dualshield.cli.paths import FilePath
from dualshield.errors import ImageError, InputError
from dualshield.images.canonical_array import CanonicalArray, canonical_array
from dualshield.images.decode import MAX_BYTES, DecodedImage, decode, list_images

if TYPE_CHECKING:  # torch takes a second to load
    from dualshield.images.canonical import CanonicalImage

STDIN = "-"
STDIN_NAME = "<standard input>"
# Not checked for readability here: an unreadable file must not stop the others.
IMAGE_PATH = FilePath(allow_dash=True)


@dataclass(frozen=True)
class ImageInput:
    """One input image: a file, or standard input."""

    path: Path

    @property
    def name(self) -> str:
        """The name of the image in results."""
        return STDIN_NAME if self._is_stdin else str(self.path)

    @property
    def _is_stdin(self) -> bool:
        return str(self.path) == STDIN

    def load(self) -> CanonicalImage:
        """Return the canonical image."""
        from dualshield.images.canonical import canonicalise

        return canonicalise(self._decoded())

    def load_array(self) -> CanonicalArray:
        """Return the canonical pixels without loading torch."""
        return canonical_array(self._decoded())

    def _decoded(self) -> DecodedImage:
        return decode(read_stdin(), name=STDIN_NAME) if self._is_stdin else decode(self.path)


def image_inputs(paths: Iterable[Path]) -> tuple[list[ImageInput], bool]:
    """Return the images of files, folders and ``-``, and whether several names or a folder were given."""
    given = list(paths)
    if [str(path) for path in given].count(STDIN) > 1:
        raise InputError("standard input (-) is given twice; give it once")
    folders = {path for path in given if str(path) != STDIN and path.is_dir()}
    files = [file for path in given for file in (list_images(path) if path in folders else [path])]
    return [ImageInput(file) for file in files], len(given) > 1 or bool(folders)


def read_stdin() -> bytes:
    """Return the content of standard input; raise an error if it is larger than an image file may be."""
    if sys.stdin is None:  # closed by the shell: <&-
        raise ImageError(f"{STDIN_NAME}: it is closed; give the image there, or name a file")
    try:
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
    except OSError as error:
        raise ImageError(f"{STDIN_NAME}: cannot be read ({error.strerror}); give a file or a pipe") from error
    if len(data) > MAX_BYTES:
        raise InputError(f"standard input has more than {MAX_BYTES:,} bytes; give a smaller image")
    return data
