"""What comes on standard input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path

from tools.hostile.kind import FEW, BrokenInput, Call, Kind, photo, put

GROUP = "standard input"
INPUTS: dict[str, Callable[[], BytesIO | None]] = {
    "closed": lambda: None,
    "empty": BytesIO,
    "a folder": BrokenInput,
    "one byte": lambda: BytesIO(b"\0"),
    "text": lambda: BytesIO(b"hello\n"),
    "escape sequences": lambda: BytesIO(b"\x1b[2J\x1b]0;owned\x07" * 100),
    "bytes that are not UTF-8": lambda: BytesIO(b"\xff\xfe" * 100),
    "half an image": lambda: BytesIO(photo(1)[:2000]),
    "the name of a file": lambda: BytesIO(b"a.png\n"),
    "an image behind a line": lambda: BytesIO(b"\n" + photo(1)),
}
COMMANDS: dict[str, tuple[str, ...]] = {
    "hash": ("hash", "-"),
    "hash --json": ("hash", "--json", "a.png", "-"),
    "match QUERY": ("match", "a.png", "-", *FEW),
    "match REF": ("match", "-", "a.png", *FEW),
}


def kinds() -> Iterator[Kind]:
    """All of this group."""
    for command, arguments in COMMANDS.items():
        for what, make in INPUTS.items():
            yield Kind(GROUP, f"{command}: {what}", "failure", _arrange(arguments, make))
    for command in ("harden", "attack", "verify"):
        yield Kind(GROUP, f"{command}: it is not read", "failure", _unread(command))


def _arrange(arguments: tuple[str, ...], make: Callable[[], BytesIO | None]) -> Callable[[Path], Call]:
    def arrange(sandbox: Path) -> Call:
        put(sandbox, "a.png", photo(1))
        return Call(arguments, ("standard input",), stdin=make())

    return arrange


def _unread(command: str) -> Callable[[Path], Call]:
    def arrange(sandbox: Path) -> Call:
        put(sandbox, "a.png", photo(1))
        options = ("-o", "out.png") if command == "harden" else ("a.png",) if command == "attack" else ()
        return Call((command, "-", *options), ("-",), stdin=BytesIO(photo(1)))

    return arrange
