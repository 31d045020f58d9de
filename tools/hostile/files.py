"""Names that lead to no regular file, and names that a terminal or a parser acts on."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

from tools.hostile.kind import DEVICES, FEW, Call, Expected, Kind, device, photo, put

GROUP = "file kinds"
Make = Callable[[Path], str]
# What is at the place of an image in each command; {} stands for it.
COMMANDS: dict[str, tuple[str, ...]] = {
    "hash": ("hash", "--", "{}"),
    "hash --json": ("hash", "--json", "--", "{}"),
    "match REF": ("match", *FEW, "--", "{}", "good.png"),
    "match QUERY": ("match", *FEW, "--", "good.png", "{}"),
    "harden": ("harden", "-o", "out.png", "--n", "20", "--", "{}"),
    "attack REF": ("attack", "--n", "20", "--", "{}", "other.png"),
    "attack QUERY": ("attack", "--n", "20", "--", "good.png", "{}"),
    "verify": ("verify", "--", "{}"),
    "redteam": ("redteam", "--method", "collision", "-o", "run", "--", "{}"),
    "evaluate": ("evaluate", "--data", "{}", "-o", "run", "--parts", "collisions", "--variants", "original", "-j", "1"),
    "calibrate": ("calibrate", "--data", "{}", "-o", "profile.json"),
}
ESCAPES = "red\x1b[31m\x07\x9b31m.png"


def kinds() -> Iterator[Kind]:
    """All of this group."""
    for command in COMMANDS:
        for what, make in _unreadable().items():
            folders = command in ("evaluate", "calibrate", "redteam", "hash", "hash --json", "harden")
            if what == "a folder" and folders:
                continue
            # Whether a hash has its weights is found out before its image is read.
            names = ("c-pdq", "empty path") if command == "verify" else ()
            yield _kind(f"{command}: {what}", command, make, "failure", names)
    for command in ("hash", "hash --json", "match QUERY", "match REF"):
        for what, name in _names().items():
            yield _kind(f"{command}: {what}", command, _named(name), "success")
    for what, name in _names().items():
        yield _kind(f"harden, too small: {what}", "harden", _named(name, side=20), "failure", (_shown(name),))
        yield _kind(f"attack, unrelated: {what}", "attack REF", _named(name), "failure", ("other.png",))
        yield _kind(f"hash, no image: {what}", "hash", _named(name, side=0), "failure", (_shown(name),))


def _kind(name: str, command: str, make: Make, expected: Expected, names: tuple[str, ...] = ()) -> Kind:
    def arrange(sandbox: Path) -> Call:
        put(sandbox, "good.png", photo(1))
        put(sandbox, "other.png", photo(2))
        given = make(sandbox)
        arguments = tuple(part.replace("{}", given) for part in COMMANDS[command])
        offending = names or ((_shown(os.path.basename(given)),) if given else ())  # noqa: PTH119 - may be no path
        return Call(arguments, offending)

    return Kind(GROUP, name, expected, arrange)


def _shown(name: str) -> str:
    """A part of the name that an error has in any case."""
    plain = "".join(c if c.isascii() and c.isprintable() else "\n" for c in name)
    return max(plain.split("\n"), key=len).strip()[:60]


def _unreadable() -> dict[str, Make]:
    return {
        "nothing there": lambda sandbox: "missing.png",
        "nothing there, below a file": lambda sandbox: "good.png/missing.png",
        "an empty name": lambda sandbox: "",
        "a folder": lambda sandbox: _made(sandbox, "folder.png", (sandbox / "folder.png").mkdir),
        "an empty folder": lambda sandbox: _made(sandbox, "empty", (sandbox / "empty").mkdir),
        "a pipe": lambda sandbox: _made(sandbox, "pipe.png", lambda: os.mkfifo(sandbox / "pipe.png")),
        "a socket": lambda sandbox: _made(sandbox, "socket.png", lambda: _listen("socket.png")),
        **{f"the device {name}": lambda sandbox, name=name: device(sandbox, name) for name in DEVICES},  # type: ignore[misc]
        "a link to nothing": lambda sandbox: _made(
            sandbox, "dangling.png", lambda: (sandbox / "dangling.png").symlink_to("nowhere.png")
        ),
        "a link to itself": lambda sandbox: _made(
            sandbox, "loop.png", lambda: (sandbox / "loop.png").symlink_to("loop.png")
        ),
        "a name of 300 letters": lambda sandbox: "x" * 300 + ".png",
        "a path of 5000 letters": lambda sandbox: "d/" * 2500 + "x.png",
        "escape sequences that lead nowhere": lambda sandbox: ESCAPES,
        "bytes that lead nowhere": lambda sandbox: os.fsdecode(b"\xff\xfe-missing.png"),
        "lines that lead nowhere": lambda sandbox: "missing\ndualshield: all is well.png",
    }


def _made(sandbox: Path, name: str, make: Callable[[], object]) -> str:
    make()
    return name


def _listen(name: str) -> None:
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(name)  # by a relative name: long ones are refused


def _names() -> dict[str, str]:
    """Of images that are there and as they should be."""
    return {
        "a line feed in its name": "two\nlines.png",
        "a carriage return in its name": "over\rwritten.png",
        "escape sequences in its name": ESCAPES,
        "bytes that are not UTF-8 in its name": os.fsdecode(b"\xff\xfe-photo.png"),
        "a name that turns the reading order": "photo\u202egnp.png",
        "a name of 250 letters": "y" * 246 + ".png",
        "a dash before its name": "-photo.png",
        "an option as its name": "--json",
        "spaces as its name": "  .png",
        "markup in its name": "[bold]photo[/bold].png",
        "format fields in its name": "photo{0}%s%n.png",
    }


def _named(name: str, side: int = 80) -> Make:
    return lambda sandbox: put(sandbox, name, photo(1, side) if side else b"no image")
