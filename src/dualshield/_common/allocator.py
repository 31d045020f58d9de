"""How this process gets memory for large tensors: once, and not anew from the system for every one of them."""

from __future__ import annotations

import ctypes
import os

# Of glibc's <malloc.h>; the first cannot be set higher.
M_MMAP_THRESHOLD, LARGEST_THRESHOLD = -3, 32 * 2**20
M_TRIM_THRESHOLD = -1
KEPT = 512 * 2**20


def keep_freed_memory() -> bool:
    """Ask the C library to reuse what was freed; whether it could be asked.

    By default glibc returns tensors of some megabytes to the system at once and has the next one filled with zeros
    page by page, which took a third of an attack's time. It costs up to ``KEPT`` bytes that are not used at the moment.
    Only for processes of our own: a library does not decide this for its users.
    """
    if any(name.startswith("MALLOC_") for name in os.environ):
        return False  # somebody knows better
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False  # another C library
    return bool(mallopt(M_MMAP_THRESHOLD, LARGEST_THRESHOLD)) and bool(mallopt(M_TRIM_THRESHOLD, KEPT))
