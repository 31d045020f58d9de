"""Files: written as a whole or not at all, read only where they are what they should be."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from dualshield.errors import InputError


def write_atomically(file: Path, data: bytes) -> None:
    """Write under a temporary name, then rename: whatever happens, ``file`` is the old one or the new one.

    A link stays, and the file that it leads to is written. Only regular files are replaced.
    """
    try:
        if not is_regular_or_new(file):
            raise InputError(f"cannot write {file}: it is not a regular file; choose another name")
        # Beside what is replaced, because a rename cannot leave its file system.
        target = Path(os.path.realpath(file))
        partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
        try:
            partial.write_bytes(data)
            partial.replace(target)
        finally:
            with suppress(OSError, ValueError):
                partial.unlink()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"cannot write {file}: {why}; check the folder and its rights") from error


def is_regular_or_new(file: Path) -> bool:
    """Whether nothing but a regular file is, or will be, where ``file`` leads."""
    try:
        # Not of the resolved path: that of /dev/stdout, where it is a pipe, leads nowhere.
        return stat.S_ISREG(file.stat().st_mode)
    except FileNotFoundError:
        return True


def read_limited(file: Path, most: int, kind: type[InputError] = InputError) -> bytes:
    """The whole of a regular file of at most so many bytes; pipes and devices are refused without waiting for them."""
    try:
        # Non-blocking, because opening a pipe would wait for somebody to write into it.
        handle = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise kind(f"{file} is not a regular file; give one that is")
        with os.fdopen(handle, "rb") as opened:
            data = opened.read(most + 1)
    except FileNotFoundError as error:
        raise kind(f"{file}: no such file; check the path") from error
    except (OSError, ValueError) as error:
        raise kind(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}; check its rights") from error
    if len(data) > most:
        raise kind(f"{file} has more than the {most:,} bytes that are read of such a file")
    return data
