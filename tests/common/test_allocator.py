"""The C library's memory: asked once for tensors that come and go, and left alone where somebody set it up."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

from dualshield._common import allocator

# Pages the system had to hand out while four tensors of 8 MB were made and dropped a hundred times.
FAULTS = """
import resource, sys, torch
from dualshield._common.allocator import keep_freed_memory
kept = sys.argv[1] == "keep" and keep_freed_memory()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(100):
    tensors = [torch.empty(1024, 2048).fill_(1) for _ in range(4)]
    del tensors
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.fixture(autouse=True)
def nobody_set_it_up(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("MALLOC_")]:
        monkeypatch.delenv(name)


def faults(how: str) -> tuple[str, int]:
    done = subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True)
    kept, count = done.stdout.split()
    return kept, int(count)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
def test_memory_is_used_again() -> None:
    kept, with_it = faults("keep")
    if kept == "False":
        pytest.skip("another C library than glibc")
    # The four have 8192 pages, and would get them a hundred times over; a busy system takes some of them back.
    assert with_it < 100_000


def test_somebody_who_set_it_up_knows_better(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "100000")
    assert not allocator.keep_freed_memory()


def test_other_c_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert not allocator.keep_freed_memory()
