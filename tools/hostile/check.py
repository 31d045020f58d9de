"""Whether the command line answers a kind cleanly.

Clean is: it exits with a documented code, in time; an error is one line that begins with ``dualshield: ``, names what
is wrong and says what to do; nothing from outside reaches the terminal that it would act on; nothing that was there is
changed, and nothing is written but what the call may write.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import signal
import stat
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from dualshield.cli.main import main
from dualshield.errors import ExitCode
from tools.hostile.kind import DEVICES, Call, Kind

SECONDS = 20
MEGABYTES = 1500  # that one call may need beside what there was
CODES = {int(code) for code in ExitCode}
FOREIGN = ("matplotlib", "fontconfig")  # caches of other software
# Lines on stderr that are no errors.
NOTES = re.compile(
    r"dualshield: (skipped|warning|[^ ]+ .* is set by |\d+ of \d+ images failed|collisions were measured|the best sigma"
    r"|the grid ended)"
)
# An error says what to do, or what would have been right.
ADVICE = re.compile(
    r"\b(add|ask|between|calibrate|call|change|check|choose|convert|copy|correct|create|cut|delete|download|enroll"
    r"|expect|expected|expects|export|free|from \d|get|give|has to|have to|install|is not in|known|leave|make|must"
    r"|needs?|open|put|reduce|remove|rename|replace|rescale|restore|resume|run|save|say|scale|see|set|skip fewer|start"
    r"|try|use|wait|write|at least|at most|nothing to|only|there are|not a valid|one of|is not positive|neither"
    r"|is below \d|of the form|is negative|is not a bit error|is not a factor above|takes \d|twice"
    r"|cannot both|would overwrite)\b"
)


class TookTooLongError(BaseException):
    """Nobody may catch it."""


@dataclass(frozen=True)
class Answer:
    """What a call said and did."""

    code: int | None
    out: str
    err: str
    raised: str  # an exception that is no exit
    leaked: str  # what libraries wrote past Python's streams
    megabytes: int
    changes: tuple[str, ...]


def examine(kind: Kind, folder: Path) -> list[str]:
    """What is unclean about the answer; empty where all is well. ``folder`` is an empty one."""
    sandbox, home = folder / "sandbox", folder / "home"
    for place in (sandbox, *(home / name for name in ("cache", "weights", "profiles", "config", ".cache", "tmp"))):
        place.mkdir(parents=True)
    with _standing_in(sandbox):
        call = kind.arrange(sandbox)
        answer = _run(call, sandbox, home)
    return list(_problems(kind, call, answer))


def _run(call: Call, sandbox: Path, home: Path) -> Answer:
    before = {**_snapshot(sandbox), **_snapshot(home), **_devices()}
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace", write_through=True)
    code, raised, memory = None, "", _peak_memory(reset=True)
    with _environment(call, home), _leaks() as leaked, _streams(call, out, err), _time_limit(), _usual_warnings():
        try:
            main(list(call.arguments))
            raised = "it returned instead of exiting"
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        except TookTooLongError:
            raised = f"it did not end within {SECONDS} s"
        except BaseException as error:
            raised = f"{type(error).__name__}: {' '.join(str(error).split())[:200]} at {_place(error)}"
    used = _peak_memory() - memory
    after = {**_snapshot(sandbox), **_snapshot(home), **_devices()}
    allowed = [sandbox / name for name in call.writes]
    changes = tuple(
        str(path)
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != after.get(path) and not any(place in (path, *path.parents) for place in allowed)
    )
    texts = [stream.buffer.getvalue().decode("utf-8", "replace") for stream in (out, err)]
    return Answer(code, texts[0], texts[1], raised, b"".join(leaked).decode("utf-8", "replace"), used, changes)


def _problems(kind: Kind, call: Call, answer: Answer) -> Iterator[str]:
    if answer.raised:
        yield answer.raised
        return
    if answer.code not in CODES:
        yield f"exit code {answer.code}"
    failed = answer.code in (ExitCode.BAD_INPUT, ExitCode.MISSING)
    if kind.expected == ("success" if failed else "failure"):
        yield f"{kind.expected} was expected, but the exit code is {answer.code}: {answer.err.strip()[:300]}"
    if "Traceback" in answer.out + answer.err + answer.leaked:
        yield "a traceback"
    for name, text in (("stdout", answer.out), ("stderr", answer.err), ("stderr past Python", answer.leaked)):
        bad = next((c for c in text if not c.isprintable() and c != "\n"), None)
        if bad is not None:
            yield f"a raw {bad!a} on {name}: {ascii(text)[:300]}"
    lines = answer.err.splitlines()
    strange = [line for line in lines if not line.startswith("dualshield: ")]
    if strange:
        yield f"a line on stderr that is not ours: {strange[0][:300]}"
    if failed:
        yield from _problems_of_error([line for line in lines if not NOTES.match(line)], call)
    if answer.megabytes > MEGABYTES:
        yield f"it took {answer.megabytes} MB"
    if answer.changes:
        yield f"it changed {', '.join(answer.changes[:4])}"


def _problems_of_error(errors: list[str], call: Call) -> Iterator[str]:
    if len(errors) != call.complaints:
        yield f"{len(errors)} lines of errors, expected {call.complaints}: {' | '.join(errors)[:300]}"
    for line in errors:
        if call.names and not any(name in line for name in call.names):
            yield f"the error names none of {', '.join(call.names)}: {line[:300]}"
        if not ADVICE.search(line):
            yield f"the error does not say what to do: {line[:300]}"


def _place(error: BaseException) -> str:
    trace, place = error.__traceback__, "?"
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if "dualshield" in file:
            place = f"{Path(file).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


# -- what is there ---------------------------------------------------------------------------------


def _snapshot(folder: Path) -> dict[Path, tuple[object, ...]]:
    """Everything below a folder: what it is, its rights, and what it holds."""
    found: dict[Path, tuple[object, ...]] = {}
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in FOREIGN]
        for name in (*folders, *files):
            path = Path(place, name)
            status = path.lstat()
            held: object = None
            if stat.S_ISLNK(status.st_mode):
                held = path.readlink()
            elif stat.S_ISREG(status.st_mode):
                held = hashlib.sha256(path.read_bytes()).hexdigest() if status.st_size < 1 << 24 else status.st_size
            found[path] = (status.st_mode, status.st_rdev, held)
    return found


def _devices() -> dict[Path, tuple[object, ...]]:
    found = {path: path.lstat() for path in (Path("/dev", name) for name in DEVICES)}
    return {path: (status.st_mode, status.st_rdev) for path, status in found.items()}


def _peak_memory(*, reset: bool = False) -> int:
    """The most that this process had, in megabytes, since the last reset; 0 where the system does not tell."""
    with suppress(OSError, StopIteration):
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) // 1024
    return 0


# -- around a call ---------------------------------------------------------------------------------


@contextmanager
def _standing_in(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def _environment(call: Call, home: Path) -> Iterator[None]:
    """Nothing of the user's, and a folder for temporary files that is looked at afterwards."""
    saved, place = dict(os.environ), tempfile.tempdir
    for name in [name for name in os.environ if name.startswith("DUALSHIELD_")]:
        del os.environ[name]
    os.environ |= {f"DUALSHIELD_{name.upper()}": str(home / name) for name in ("cache", "weights", "profiles")}
    os.environ |= {"DUALSHIELD_HASH": "pdq", "XDG_CONFIG_HOME": str(home / "config"), "HOME": str(home)}
    os.environ |= call.environment
    tempfile.tempdir = str(home / "tmp")
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(saved)
        tempfile.tempdir = place


@contextmanager
def _streams(call: Call, out: io.TextIOWrapper, err: io.TextIOWrapper) -> Iterator[None]:
    saved = sys.stdin, sys.stdout, sys.stderr
    # Python has no stream where the shell closed one.
    sys.stdin = None if call.stdin is None else io.TextIOWrapper(call.stdin)
    sys.stdout, sys.stderr = out, err
    try:
        yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = saved


@contextmanager
def _leaks() -> Iterator[list[bytes]]:
    """What is written to the stderr of the process, not of Python: by C libraries."""
    found: list[bytes] = []
    sys.stderr.flush()
    with tempfile.TemporaryFile() as file:
        saved = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield found
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            file.seek(0)
            found.append(file.read())


@contextmanager
def _time_limit() -> Iterator[None]:
    def late(number: int, frame: FrameType | None) -> None:
        raise TookTooLongError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _usual_warnings() -> Iterator[None]:
    """As a user has them: on stderr, where they are no line of ours."""
    with warnings.catch_warnings():
        warnings.resetwarnings()
        for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", category)
        warnings.showwarning = _show_warning  # pytest has its own
        yield


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: object = None,
    line: object = None,
) -> None:
    sys.stderr.write(f"{filename}:{lineno}: {category.__name__}: {message}\n")
