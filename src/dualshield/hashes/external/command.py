"""External programs as black-box hashes: the program gets a PNG and prints hex.

    hash_ = command_hash(["phash", "{file}"], name="mine", bits=64)

``{file}`` in an argument becomes the path of the PNG; without it, the PNG is sent to standard input. The program is
started directly, never through a shell, once per draw, and has ``timeout`` seconds. It must print one line; the code is
the first word of that line. Needs POSIX.
"""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from PIL import Image

from dualshield.errors import InputError, MissingDependencyError
from dualshield.hashes.external.black_box import black_box
from dualshield.hashes.perceptual_hash import PerceptualHash

FILE = "{file}"
TIMEOUT = 10.0
MAX_TIMEOUT = 3600.0
# Far longer than any code; a program that never stops printing must not fill the memory.
MAX_OUTPUT = 1 << 18


class Command:
    """Runs the program on one image and returns the code that it prints."""

    def __init__(self, name: str, command: Sequence[str], timeout: float = TIMEOUT) -> None:
        if isinstance(command, str) or not command or not all(isinstance(part, str) and part for part in command):
            raise InputError(f"hash {name}: its command must be a list of program and arguments, got {command!r}")
        if any("\0" in part for part in command):
            raise InputError(f"hash {name}: its command contains a zero byte; remove it")
        if not 0 < timeout <= MAX_TIMEOUT:
            raise InputError(f"hash {name}: timeout {timeout} is not between 0 and {MAX_TIMEOUT:g} seconds")
        found = shutil.which(command[0])
        if found is None:
            raise MissingDependencyError(
                f"hash {name}: its program {command[0]} is not found or not executable; install it or correct "
                "the command"
            )
        self.name, self.timeout = name, timeout
        # Absolute, so that a change of the working directory does not change the program.
        self.command = [str(Path(found).absolute()), *command[1:]]
        # File names only: paths differ between machines.
        self.calls = " ".join(Path(part).name if Path(part).is_absolute() else part for part in self.command)

    def __call__(self, image: Image.Image) -> str:
        with tempfile.TemporaryDirectory(prefix="dualshield-") as folder:
            file = Path(folder) / "image.png"
            image.save(file, compress_level=0)  # noise does not compress
            out = self._run([part.replace(FILE, str(file)) for part in self.command], file)
        lines = out.decode("ascii", "replace").strip().splitlines()
        words = lines[0].split() if len(lines) == 1 else []
        if not words:
            raise self._error(f"printed {'nothing' if not lines else f'{len(lines)} lines'}, expected one line of hex")
        return words[0]

    def _run(self, arguments: list[str], file: Path) -> bytes:
        on_stdin = not any(FILE in part for part in self.command)
        with file.open("rb") as png:
            try:
                process = subprocess.Popen(
                    arguments,
                    stdin=png if on_stdin else subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,  # so that its child processes can be killed with it
                )
            except OSError as error:
                raise self._error(f"cannot be started ({error.strerror or error}); correct the program") from error
        try:
            out, err = self._read(process)
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            for pipe in (process.stdout, process.stderr):
                assert pipe is not None
                pipe.close()
        if process.returncode:
            said = " ".join(err.decode("utf-8", "replace").split())[-200:]
            detail = f" ({said})" if said else ""
            raise self._error(f"failed with exit code {process.returncode}{detail}; try it by hand")
        return out

    def _read(self, process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
        """Return standard output and standard error after the program has ended."""
        deadline = time.monotonic() + self.timeout
        said: dict[Any, bytes] = {process.stdout: b"", process.stderr: b""}
        with selectors.DefaultSelector() as selector:
            for pipe in said:
                selector.register(pipe, selectors.EVENT_READ)
            while selector.get_map():
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                if not ready:
                    raise self._late()
                for key, _ in ready:
                    data = os.read(key.fd, 1 << 16)
                    said[key.fileobj] += data
                    if not data:
                        selector.unregister(key.fileobj)
                    if len(said[key.fileobj]) > MAX_OUTPUT:
                        raise self._error(f"printed more than {MAX_OUTPUT} bytes, expected one line of hex")
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired as error:
            raise self._late() from error
        return said[process.stdout], said[process.stderr]

    def _late(self) -> InputError:
        return self._error(f"did not end within {self.timeout:g} s; give it a longer timeout")

    def _error(self, why: str) -> InputError:
        return InputError(f"hash {self.name}: its program {Path(self.command[0]).name} {why}")


def command_hash(command: Sequence[str], *, name: str, timeout: float = TIMEOUT, **options: Any) -> PerceptualHash:
    """Return a hash made from a program; ``options`` are those of ``black_box``."""
    return black_box(Command(name, command, timeout), name=name, takes="image", **options)
