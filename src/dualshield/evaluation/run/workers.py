"""Distribute pieces of work to worker processes, one image at a time, and yield each result as soon as it is ready.

Every piece has its own noise, so results do not depend on which worker does it. Only the parent process writes results;
workers write image and feature files. Workers share no memory: each builds the same pieces from the plan.
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

# Memory that one worker may need, with models and noise.
WORKER_GIB = 3.0
# Seconds to wait for a worker to stop.
PATIENCE = 5.0
THREADS = "OMP_NUM_THREADS"

Known = dict[Key, dict[str, Any]]
Runner = Callable[[int, Known], Iterator[tuple[Key, dict[str, Any]]]]
"""Does the piece with the given number; takes the finished records about its image and yields new ones."""


@dataclass(frozen=True)
class Group:
    """The numbers of pieces that one worker does in sequence, and the finished records about their image."""

    pieces: tuple[int, ...]
    known: Known


@dataclass(frozen=True)
class Started:
    """A piece was started."""

    piece: int


@dataclass(frozen=True)
class Finished:
    """A piece was finished."""

    piece: int
    seconds: float


Event = tuple[Key, dict[str, Any]] | Started | Finished


def usable_cores() -> int:
    """Return the number of cores that this process may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_jobs(device: str) -> int:
    """Return one worker per core, as far as memory allows; 1 on a GPU, which is not shared."""
    return 1 if device != "cpu" else max(1, min(usable_cores(), int(memory_gib() / WORKER_GIB)))


def share(groups: Sequence[Group], jobs: int, runner: Callable[[], Runner]) -> Iterator[Event]:
    """Yield results as they arrive. ``runner`` is called in every worker and must be picklable."""
    context = get_context("spawn")  # torch can hang in a forked process
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
                    ready.close()  # the worker ends when its connection is closed
                    workers.pop(ready).join()
    finally:
        started = [worker for worker in workers.values() if worker.pid is not None]
        for worker in started:
            worker.terminate()
        for worker in started:
            worker.join(PATIENCE)


@contextmanager
def _limited(threads: int) -> Iterator[None]:
    """Limit the threads of processes that are started in this context."""
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
            "a worker died, probably out of memory; finished results are saved: resume the run with fewer jobs"
        ) from error


def _worker(link: connection.Connection[Any, Any], runner: Callable[[], Runner], threads: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
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
        return  # no more work, or the parent is gone
    except DualShieldError as error:
        link.send(error)


def _end_with_parent() -> None:
    """End this worker when its parent is killed, without finishing a piece that may take minutes."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
