"""What a kind of hostile input is: how it is made, how the command line is called with it, what is expected."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

from PIL import Image
from pillow_heif import register_heif_opener

from dualshield.images.synthetic import natural_image

Expected = Literal["failure", "success", "either"]
# Few draws, so that what is accepted is soon done.
FEW = ("--n", "20", "--n0", "5")
DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7)}

register_heif_opener()


class BrokenInput(BytesIO):
    """A standard input that cannot be read, as a folder or a terminal that went away."""

    def read(self, size: int | None = -1, /) -> bytes:
        raise IsADirectoryError(21, "Is a directory")


@dataclass(frozen=True)
class Call:
    """One call of the command line."""

    arguments: tuple[str, ...]
    names: tuple[str, ...] = ()  # one of these has to be in the error; none: any error will do
    writes: tuple[str, ...] = ()  # what may be new or changed in the sandbox, with all that is below it
    complaints: int = 1  # lines that are errors, where it fails
    stdin: BytesIO | None = field(default_factory=BytesIO)  # None: closed
    environment: Mapping[str, str] = field(default_factory=dict)


Arrange = Callable[[Path], Call]


@dataclass(frozen=True)
class Kind:
    """One kind of hostile input; ``arrange`` makes it in an empty folder."""

    group: str
    name: str
    expected: Expected
    arrange: Arrange

    @property
    def label(self) -> str:
        """Group and name."""
        return f"{self.group}: {self.name}"


@lru_cache(maxsize=64)
def photo(seed: int = 0, side: int = 80, format: str = "PNG", mode: str = "RGB") -> bytes:
    """A small picture as a file."""
    pixels = (natural_image(seed).pixels.permute(1, 2, 0).numpy() * 255).round().astype("uint8")
    return encoded(Image.fromarray(pixels).resize((side, side)).convert(mode), format)


def encoded(image: Image.Image, format: str, **options: Any) -> bytes:
    """A picture as a file of this format."""
    data = BytesIO()
    image.save(data, format=format, **options)
    return data.getvalue()


def put(folder: Path, name: str | bytes, data: bytes | str = b"") -> str:
    """A file in the sandbox; returns its name there."""
    text = os.fsdecode(name)
    file = folder / text
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data.encode() if isinstance(data, str) else data)
    return text


def photos(folder: Path, name: str = "photos", count: int = 2) -> str:
    """A folder of small pictures."""
    for index in range(count):
        put(folder, f"{name}/{index}.png", photo(index))
    return name


def device(folder: Path, name: str) -> str:
    """A device of our own, where we may make one: no mistake of ours can then harm the real one."""
    own = folder / name
    try:
        os.mknod(own, stat.S_IFCHR | 0o666, os.makedev(*DEVICES[name]))
        own.open("rb").close()
    except OSError:
        own.unlink(missing_ok=True)
        return f"/dev/{name}"
    return name


def is_privileged() -> bool:
    """Whether rights of files do not hold for us."""
    return os.geteuid() == 0
