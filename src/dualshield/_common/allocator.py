"""Tuning of the C allocator, so that memory of large tensors is reused instead of returned to the system."""

from __future__ import annotations

import ctypes
import os

# From glibc's <malloc.h>, which caps the mmap threshold at 32 MiB.
M_MMAP_THRESHOLD, LARGEST_THRESHOLD = -3, 32 * 2**20
M_TRIM_THRESHOLD = -1
KEPT = 512 * 2**20


def keep_freed_memory() -> bool:
    """Make the C library keep freed memory for reuse; return whether this succeeded.

    By default glibc returns tensors of a few megabytes to the system at once, and the kernel zeroes the pages of the
    next one. That took a third of an attack's time. The cost is up to ``KEPT`` bytes of unused memory.
    Call this only from the command line and its workers: a library must not change its host's allocator.
    """
    if any(name.startswith("MALLOC_") for name in os.environ):
        return False  # the user has tuned malloc already
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False  # not glibc
    return bool(mallopt(M_MMAP_THRESHOLD, LARGEST_THRESHOLD)) and bool(mallopt(M_TRIM_THRESHOLD, KEPT))
