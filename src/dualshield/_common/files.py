"""Atomic writing of files, and reading with checks of file type and size."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from dualshield.errors import InputError


def write_atomically(file: Path, data: bytes) -> None:
    """Write to a temporary file, then rename it, so that ``file`` is never half written.

    Symbolic links are followed and kept. Only regular files are replaced.
    """
    try:
        if not is_regular_or_new(file):
            raise InputError(f"cannot write {file}: it is not a regular file; choose another name")
        # In the same folder, because a rename cannot cross file systems.
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
        raise InputError(f"cannot write {file}: {why}; check the folder and its permissions") from error


def is_regular_or_new(file: Path) -> bool:
    """Return whether ``file`` is a regular file, or does not exist yet."""
    try:
        # Do not resolve the path first: when /dev/stdout is a pipe, its resolved path does not exist.
        return stat.S_ISREG(file.stat().st_mode)
    except FileNotFoundError:
        return True


def read_limited(file: Path, most: int, kind: type[InputError] = InputError) -> bytes:
    """Return the content of a regular file of at most ``most`` bytes; refuse pipes and devices without blocking."""
    try:
        # Non-blocking, because opening a pipe would wait for a writer.
        handle = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise kind(f"{file} is not a regular file; give a regular file")
        with os.fdopen(handle, "rb") as opened:
            data = opened.read(most + 1)
    except FileNotFoundError as error:
        raise kind(f"{file}: no such file; check the path") from error
    except (OSError, ValueError) as error:
        raise kind(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}; check permissions") from error
    if len(data) > most:
        raise kind(f"{file} is larger than the limit of {most:,} bytes; give a smaller file")
    return data
