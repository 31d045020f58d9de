"""Settings, in a file ``dualshield.toml`` that somebody left in the folder, and in the environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from tools.hostile.kind import Call, Expected, Kind, device, photo, put

GROUP = "settings"
NONE = {"DUALSHIELD_HASH": ""}
TEXTS: dict[str, str | bytes] = {
    "no TOML": "hash = ",
    "an unknown setting": 'colour = "red"\n',
    "escape sequences as a setting": '"\\u001b[31m" = 1\n',
    "a number as the hash": "hash = 7\n",
    "a list as the hash": 'hash = ["pdq"]\n',
    "an empty hash": 'hash = ""\n',
    "an unknown hash": 'hash = "nonsense"\n',
    "escape sequences as the hash": 'hash = "\\u001b[31mred"\n',
    "a zero byte in the hash": 'hash = "a\\u0000b"\n',
    "a hash of 5000 letters": f'hash = "{"x" * 5000}"\n',
    "a hash of 3000 letters": f'hash = "{"x" * 3000}"\n',
    "a card that is not there": 'hash = "missing.yaml"\n',
    "a card that runs a program": 'hash = "card.yaml"\n',
    "a card that runs a program, beside a hash": 'hash = "pdq+card.yaml"\n',
    "a card of another case that runs a program": 'hash = "CARD.YAML"\n',
    "a card in a folder above": 'hash = "sub/../card.yaml"\n',
    "a profile that is not there": 'hash = "pdq"\nprofile = "missing.json"\n',
    "a profile of another kind": 'hash = "pdq"\nprofile = "a.png"\n',
    "an unknown engine": 'hash = "pdq"\nengine = "nonsense"\n',
    "no threads": 'hash = "pdq"\nthreads = 0\n',
    "-1 threads": 'hash = "pdq"\nthreads = -1\n',
    "10^6 threads": 'hash = "pdq"\nthreads = 1000000\n',
    "half a thread": 'hash = "pdq"\nthreads = 0.5\n',
    "true threads": 'hash = "pdq"\nthreads = true\n',
    "threads as a text": 'hash = "pdq"\nthreads = "4"\n',
    "a table": '[hash]\nname = "pdq"\n',
    "a setting twice": 'hash = "pdq"\nhash = "pdq"\n',
    "10,000 brackets": "hash = " + "[" * 10_000,
    "a megabyte": "# x\n" * 260_000,
    "no UTF-8": b'hash = "\xff"\n',
    "an image": b"\x89PNG\r\n\x1a\n",
    "a number of 10,000 digits": "threads = " + "9" * 10_000,
}
VARIABLES: dict[str, dict[str, str]] = {
    "an unknown hash": {"DUALSHIELD_HASH": "nonsense"},
    "escape sequences as the hash": {"DUALSHIELD_HASH": "\x1b[31mred"},
    "a profile that is not there": {"DUALSHIELD_PROFILE": "missing.json"},
    "an unknown engine": {"DUALSHIELD_ENGINE": "nonsense"},
    "words as threads": {"DUALSHIELD_THREADS": "many"},
    "no threads": {"DUALSHIELD_THREADS": "0"},
    "a settings file that is not there": {"DUALSHIELD_CONFIG": "missing.toml"},
    "a folder as settings file": {"DUALSHIELD_CONFIG": "."},
    "an image as settings file": {"DUALSHIELD_CONFIG": "a.png"},
    "a file as the folder of profiles": {"DUALSHIELD_PROFILES": "a.png"},
    "a file as the cache": {"DUALSHIELD_CACHE": "a.png"},
}


def kinds() -> Iterator[Kind]:
    """All of this group."""
    for what, text in TEXTS.items():
        yield _kind(what, lambda sandbox, t=text: put(sandbox, "dualshield.toml", t))  # type: ignore[misc]
    for what, make in _places().items():
        yield _kind(what, make)
    for what, variables in VARIABLES.items():
        usable = what.startswith("a file as")  # nothing is read there, or written
        yield Kind(GROUP, f"environment: {what}", "either" if usable else "failure", _in_environment(variables))
    for what in (
        "no TOML",
        "an unknown hash",
        "a card that runs a program",
        "no threads",
        "escape sequences as the hash",
    ):
        yield _doctor(f"doctor: {what}", lambda sandbox, t=TEXTS[what]: put(sandbox, "dualshield.toml", t))  # type: ignore[misc]


def _places() -> dict[str, Callable[[Path], str]]:
    name = "dualshield.toml"

    def link(sandbox: Path, target: str) -> str:
        (sandbox / name).symlink_to(target)
        return name

    return {
        "a folder": lambda sandbox: (sandbox / name).mkdir() or name,  # type: ignore[func-returns-value]
        "a pipe": lambda sandbox: os.mkfifo(sandbox / name) or name,  # type: ignore[func-returns-value]
        "a link to nothing": lambda sandbox: link(sandbox, "nowhere"),
        "a link to itself": lambda sandbox: link(sandbox, name),
        "a device without end": lambda sandbox: link(sandbox, device(sandbox, "zero")),
    }


def _arranged(sandbox: Path) -> None:
    put(sandbox, "a.png", photo(1))
    put(sandbox, "run.sh", "#!/bin/sh\ntouch owned\necho 0123456789abcdef\n")
    (sandbox / "run.sh").chmod(0o755)
    (sandbox / "sub").mkdir()
    for card in ("card.yaml", "CARD.YAML"):
        put(sandbox, card, "name: mine\nbits: 64\ncommand: [./run.sh]\n")


def _kind(name: str, make: Callable[[Path], str], expected: Expected = "failure") -> Kind:
    def arrange(sandbox: Path) -> Call:
        _arranged(sandbox)
        make(sandbox)
        names = ("dualshield.toml", "unknown hash", "missing.yaml", "missing.json", "a.png", "--profile", "hash")
        # The profile is an option of match, the hash of both.
        return Call(("match", "a.png", "a.png", "--n", "20"), names, environment=NONE)

    return Kind(GROUP, name, expected, arrange)


def _doctor(name: str, make: Callable[[Path], str]) -> Kind:
    def arrange(sandbox: Path) -> Call:
        _arranged(sandbox)
        make(sandbox)
        return Call(("doctor",), environment=NONE)

    return Kind(GROUP, name, "success", arrange)


def _in_environment(variables: dict[str, str]) -> Callable[[Path], Call]:
    def arrange(sandbox: Path) -> Call:
        _arranged(sandbox)
        names = ("DUALSHIELD", *(value for value in variables.values() if value.isprintable() and len(value) > 1))
        return Call(
            ("match", "a.png", "a.png", "--n", "20"), (*names, "hash", "threads", "'.'", ". is"), environment=variables
        )

    return arrange
