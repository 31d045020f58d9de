"""Pieces of work shared out to processes, one image at a time, each result handed back as soon as it is there.

Every piece has noise of its own, so who does it makes no difference. Only the parent writes results; images and
features are files of their own. Workers share nothing: they get the plan and find the same pieces in it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process
from multiprocessing.process import BaseProcess
from typing import Any

import torch

from dualshield._common.allocator import keep_freed_memory
from dualshield.errors import DualShieldError, InputError
from dualshield.evaluation.run.provenance import memory_gib
from dualshield.evaluation.run.records import Key

# What one worker may need, models and noise included.
WORKER_GIB = 3.0
# A worker that was told to stop is given this long (seconds).
PATIENCE = 5.0
THREADS = "OMP_NUM_THREADS"

Known = dict[Key, dict[str, Any]]
Runner = Callable[[int, Known], Iterator[tuple[Key, dict[str, Any]]]]
"""Does the piece of that number, given the results that are known of its image."""


@dataclass(frozen=True)
class Group:
    """Pieces that are done in a row by one worker, by their numbers, and what is known of their image."""

    pieces: tuple[int, ...]
    known: Known


@dataclass(frozen=True)
class Started:
    """A piece is being done."""

    piece: int


@dataclass(frozen=True)
class Finished:
    """A piece is done."""

    piece: int
    seconds: float


Event = tuple[Key, dict[str, Any]] | Started | Finished


def usable_cores() -> int:
    """Of this process, which may have been given fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_jobs(device: str) -> int:
    """A worker for every core that has the memory; a graphics card is not shared."""
    return 1 if device != "cpu" else max(1, min(usable_cores(), int(memory_gib() / WORKER_GIB)))


def share(groups: Sequence[Group], jobs: int, runner: Callable[[], Runner]) -> Iterator[Event]:
    """Results in the order they come. ``runner`` is called in every worker, and must be picklable."""
    context = get_context("spawn")  # a forked copy of torch's threads hangs
    threads = max(1, usable_cores() // jobs)
    waiting = list(reversed(groups))
    workers: dict[connection.Connection[Any, Any], BaseProcess] = {}
    try:
        for _ in range(min(jobs, len(groups))):
            ours, theirs = context.Pipe()
            workers[ours] = context.Process(target=_worker, args=(theirs, runner, threads), daemon=True)
            with _limited(threads):
                workers[ours].start()
            theirs.close()
            ours.send(waiting.pop())
        while workers:
            for ready in connection.wait(list(workers)):
                assert isinstance(ready, connection.Connection)
                message = _received(ready)
                if isinstance(message, BaseException):
                    raise message
                if message is not None:
                    yield message
                elif waiting:
                    ready.send(waiting.pop())
                else:
                    ready.close()  # the worker ends when nobody listens
                    workers.pop(ready).join()
    finally:
        for worker in workers.values():
            worker.terminate()
        for worker in workers.values():
            worker.join(PATIENCE)


@contextmanager
def _limited(threads: int) -> Iterator[None]:
    """What is started here computes on so many threads, also in threads of its own."""
    before = os.environ.get(THREADS)
    os.environ[THREADS] = str(threads)
    try:
        yield
    finally:
        os.environ.pop(THREADS)
        if before is not None:
            os.environ[THREADS] = before


def _received(ready: connection.Connection[Any, Any]) -> Any:
    try:
        return ready.recv()
    except (EOFError, OSError) as error:
        raise InputError(
            "a worker died, perhaps for want of memory; all before is kept: resume the run with fewer jobs"
        ) from error


def _worker(link: connection.Connection[Any, Any], runner: Callable[[], Runner], threads: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(threads)
    keep_freed_memory()
    try:
        run = runner()
        while True:
            group: Group = link.recv()
            for piece in group.pieces:
                link.send(Started(piece))
                started = time.perf_counter()
                for result in run(piece, group.known):
                    link.send(result)
                link.send(Finished(piece, time.perf_counter() - started))
            link.send(None)
    except (EOFError, BrokenPipeError):
        return  # no more work, or nobody to work for
    except DualShieldError as error:
        link.send(error)


def _end_with_parent() -> None:
    """A killed parent tells nobody, and a piece may take minutes."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
