"""Places where nothing may be written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from tools.hostile.kind import FEW, Call, Expected, Kind, device, is_privileged, photo, photos, put

GROUP = "outputs"
# By what it is, the call; {} stands for the output. What it must end with is added to it.
COMMANDS: dict[str, tuple[tuple[str, ...], str]] = {
    "match --save-reference": (("match", "a.png", "a.png", *FEW, "--save-reference", "{}"), ".dsref"),
    "harden -o": (("harden", "a.png", "--n", "20", "-o", "{}"), ".png"),
    "harden --preview": (("harden", "a.png", "--n", "20", "-o", "out.png", "--preview", "{}"), ".png"),
    "harden --reference": (("harden", "a.png", "--n", "20", "--reference", "-o", "{}"), ".png.dsref"),
    "attack -o": (("attack", "a.png", "b.png", "--n", "20", "-o", "{}"), ".png"),
    "attack --preview": (("attack", "a.png", "b.png", "--n", "20", "--preview", "{}"), ".png"),
    "calibrate --out": (
        *(
            (
                "calibrate",
                "--data",
                "photos",
                "--grid",
                "32:0.5",
                "-q",
                "--images",
                "2",
                "--variant-images",
                "1",
                "--draws",
                "20",
                "-o",
                "{}",
            ),
        ),
        ".json",
    ),
    "evaluate --out": (
        *(("evaluate", "--data", "photos", "--parts", "collisions", "--variants", "original", "-j", "1", "-o", "{}"),),
        "",
    ),
    "redteam --out": (("redteam", "a.png", "--method", "collision", "--n", "20", "-o", "{}"), ""),
    "report --out": (("report", "run", "--out", "{}"), ""),
}
FOLDERS = ("evaluate --out", "redteam --out", "report --out")


def kinds() -> Iterator[Kind]:
    """All of this group."""
    for command in COMMANDS:
        for what, make in _places().items():
            yield _kind(f"{command}: {what}", command, make, _expected(command, what))
    for overwrite in ("match --save-reference", "harden -o", "harden --preview", "attack -o", "attack --preview"):
        for what in ("the input itself", "a link to the input", "a folder", "the device null", "a pipe"):
            yield _kind(f"{overwrite} --overwrite: {what}", overwrite, _places()[what], "failure", ("--overwrite",))
    yield Kind(GROUP, "harden: a backup that exists already", "failure", _backup)
    yield Kind(GROUP, "harden: two outputs of one name", "failure", _twice)


def _expected(command: str, what: str) -> Expected:
    if command == "calibrate --out" and what == "a file that exists":
        return "either"  # a profile is measured again
    if what == "a folder that must not be written" and is_privileged():
        return "either"
    if command in FOLDERS and what in ("a folder", "a folder that is not there", "a link that leads nowhere"):
        return "either"
    return "failure"


def _places() -> dict[str, Callable[[Path, str], str]]:
    def link(sandbox: Path, suffix: str, target: str) -> str:
        (sandbox / f"link{suffix}").symlink_to(target)
        return f"link{suffix}"

    def in_folder(sandbox: Path, suffix: str) -> str:
        (sandbox / "closed").mkdir(mode=0o555)
        return f"closed/new{suffix}"

    def made(sandbox: Path, suffix: str, make: Callable[[Path], object]) -> str:
        make(sandbox / f"it{suffix}")
        return f"it{suffix}"

    return {
        "a file that exists": lambda sandbox, suffix: put(sandbox, f"there{suffix}", "dear"),
        "the input itself": lambda sandbox, suffix: _input(suffix),
        "a link to the input": lambda sandbox, suffix: link(sandbox, suffix, _input(suffix)),
        "a folder": lambda sandbox, suffix: made(sandbox, suffix, lambda path: path.mkdir()),
        "a folder with files": lambda sandbox, suffix: put(sandbox, f"full{suffix}/dear", "dear")[: -len("/dear")],
        "a folder that is not there": lambda sandbox, suffix: f"missing/new{suffix}",
        "a file as its folder": lambda sandbox, suffix: f"a.png/new{suffix}",
        "a folder that must not be written": in_folder,
        "the device null": lambda sandbox, suffix: link(sandbox, suffix, device(sandbox, "null")),
        "the device full": lambda sandbox, suffix: link(sandbox, suffix, device(sandbox, "full")),
        "a pipe": lambda sandbox, suffix: made(sandbox, suffix, os.mkfifo),
        "a link to itself": lambda sandbox, suffix: link(sandbox, suffix, f"link{suffix}"),
        "a link that leads nowhere": lambda sandbox, suffix: link(sandbox, suffix, "nowhere/new"),
        "a name of 300 letters": lambda sandbox, suffix: "x" * 300 + suffix,
        "an empty name": lambda sandbox, suffix: "",
    }


def _input(suffix: str) -> str:
    """What the command reads; that of calibrate is a folder."""
    return "photos/0.png" if suffix == ".json" else "a.png"


def _kind(
    name: str, command: str, make: Callable[[Path, str], str], expected: Expected, extra: tuple[str, ...] = ()
) -> Kind:
    def arrange(sandbox: Path) -> Call:
        # Too small to be hardened, which is found out behind all that is wrong with the output.
        put(sandbox, "a.png", photo(1, 20 if command.startswith("harden") else 80))
        put(sandbox, "b.png", photo(2))
        photos(sandbox)
        put(sandbox, "run/config.json", "{}")
        put(sandbox, "run/results.jsonl", "")
        arguments, suffix = COMMANDS[command]
        place = make(sandbox, suffix)
        given = place.removesuffix(".dsref") if command == "harden --reference" else place
        # What is told where the place is fine: a pair that cannot be attacked, a run without results.
        names: tuple[str, ...] = ("nowhere", "holds no results", "a collision needs", "too small", "nothing to evade")
        names += (given[:60],) if place else ("''", "empty", " .", "a.png")
        allowed = (place, f"{place}.journal", "missing", "nowhere") if expected == "either" and place != "a.png" else ()
        return Call((*(part.replace("{}", given) for part in arguments), *extra), names, allowed)

    return Kind(GROUP, name, expected, arrange)


def _backup(sandbox: Path) -> Call:
    put(sandbox, "a.png", photo(1))
    put(sandbox, "a.png.original", "dear")
    return Call(("harden", "a.png", "--in-place", "--overwrite"), ("a.png",))


def _twice(sandbox: Path) -> Call:
    put(sandbox, "a.png", photo(1))
    return Call(("harden", "a.png", "-o", "out.png", "--preview", "./out.png"), ("out.png",))
