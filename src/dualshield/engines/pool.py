"""The engines of one process, each made once and made again after a fork."""

from __future__ import annotations

import os
from collections.abc import Callable

import torch

from dualshield.engines.engine import Engine
from dualshield.errors import InputError


class EnginePool:
    """Engines of this process, each made once.

    A forked process has none of its parent's threads: the engines it inherits would wait for them for ever. There
    torch is told to use one thread, and engines are made anew, without OpenVINO.
    """

    def __init__(self) -> None:
        self._process = os.getpid()
        self._engines: dict[object, Engine] = {}
        self._forked = False
        self._inherited: list[object] = []  # kept, because to destroy them would wait for their threads

    def process(self) -> int:
        """Where we are; in a process that was forked since, everything starts anew."""
        if self._process != os.getpid():
            self._process, self._forked = os.getpid(), True
            self._inherited.append(self._engines)
            self._engines = {}
            torch.set_num_threads(1)
        return self._process

    def get(self, key: object, name: str, start: Callable[[str], Engine]) -> Engine:
        """The engine under that key, which ``start`` makes where it is not running yet."""
        self.process()
        if self._forked and name == "openvino":
            raise InputError("OpenVINO cannot be used in a forked process: spawn it instead, or use engine torch")
        if key not in self._engines:
            self._engines[key] = start("torch" if self._forked else name)
        return self._engines[key]
