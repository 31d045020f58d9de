"""A progress bar for work that is usually quick: it appears only after a second."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dualshield.cli.output import progress

DELAY = 1.0


@contextmanager
def waiting(what: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function to call with ``done`` and ``total``; the bar is removed at the end."""
    bar = progress()
    bar.live.transient = True
    task = bar.add_task(what, total=None)
    started = time.monotonic()

    def tell(done: int, total: int) -> None:
        bar.update(task, completed=done, total=total)
        if not bar.live.is_started and time.monotonic() - started >= DELAY:
            bar.start()

    try:
        yield tell
    finally:
        bar.stop()
