"""The engines of one process: each is created once, and again after a fork."""

from __future__ import annotations

import os
from collections.abc import Callable

import torch

from dualshield.engines.engine import Engine
from dualshield.errors import InputError


class EnginePool:
    """Engines of this process, each created once.

    A forked process does not have its parent's threads, so inherited engines would wait forever. After a fork,
    torch is set to one thread, and new engines are created, without OpenVINO.
    """

    def __init__(self) -> None:
        self._process = os.getpid()
        self._engines: dict[object, Engine] = {}
        self._forked = False
        self._inherited: list[object] = []  # kept: destroying them would wait for missing threads

    def process(self) -> int:
        """Return the process id; after a fork, set the inherited engines aside first."""
        if self._process != os.getpid():
            self._process, self._forked = os.getpid(), True
            self._inherited.append(self._engines)
            self._engines = {}
            torch.set_num_threads(1)
        return self._process

    def get(self, key: object, name: str, start: Callable[[str], Engine]) -> Engine:
        """Return the engine under ``key``; create it with ``start`` if there is none yet."""
        self.process()
        if self._forked and name == "openvino":
            raise InputError("OpenVINO cannot be used in a forked process; use spawn, or engine torch")
        if key not in self._engines:
            self._engines[key] = start("torch" if self._forked else name)
        return self._engines[key]
