"""Files that are written as a whole or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from dualshield.errors import InputError


def write_atomically(file: Path, data: bytes) -> None:
    """Write under a temporary name, then rename: whatever happens, ``file`` is the old one or the new one."""
    partial = file.with_name(f".{file.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(data)
        partial.replace(file)
    except OSError as error:
        raise InputError(f"cannot write {file}: {error.strerror or error}; check the folder and its rights") from error
    finally:
        with suppress(OSError):
            partial.unlink()
