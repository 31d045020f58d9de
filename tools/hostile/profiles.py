"""Profiles of calibrations that are damaged, or say what was never measured."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any

from tools.hostile.kind import FEW, Call, Expected, Kind, device, photo, put

GROUP = "profiles"
WRONG: dict[str, Any] = {"nothing": None, "a text": "x", "a list": [], "a mapping": {}, "a truth": True, "-1": -1}
WRONG |= {"NaN": float("nan"), "infinity": float("inf"), "a huge number": 10**400}
TEXTS: dict[str, bytes] = {
    "an empty file": b"",
    "text": b"hello",
    "an image": b"\x89PNG\r\n\x1a\n",
    "a list": b"[]",
    "nothing but null": b"null",
    "an empty object": b"{}",
    "100,000 brackets": b"[" * 100_000,
    "UTF-16": '{"hash": "pdq"}'.encode("utf-16"),
    "a byte-order mark": b"\xef\xbb\xbf{}",
    "half of a profile": b'{"hash": "pdq", "hash_ver',
    "a number of 10,000 digits": b'{"threshold": ' + b"9" * 10_000 + b"}",
    "escape sequences": b'{"hash": "\x1b[31m"}',
    "70 MB": b" " * 70_000_000,
}


def kinds() -> Iterator[Kind]:
    """All of this group."""
    fields = tuple(_shipped())
    for field in fields:
        for what, value in WRONG.items():
            expected: Expected = "either" if (field, what) in ACCEPTED else "failure"
            yield _json(f"{what} as {field}", lambda data, f=field, v=value: data.update({f: v}), expected)  # type: ignore[misc]
        missing: Expected = "either" if field in ("exact", "presets") else "failure"  # older profiles have none
        yield _json(f"no {field}", lambda data, f=field: data.pop(f), missing)  # type: ignore[misc]
    for field in _shipped()["exact"]:
        for what in ("a text", "a truth", "NaN", "-1", "a huge number"):
            value = {field: WRONG[what]}
            yield _json(f"{what} as {field} of exact", lambda data, v=value: data["exact"].update(v))  # type: ignore[misc]
        yield _json(f"an exact part without {field}", lambda data, f=field: data["exact"].pop(f))  # type: ignore[misc]
    yield _json("more thresholds than sigmas", lambda data: data["exact"]["thresholds"].append(0.3))
    yield _json("lists as sigmas", lambda data: data["exact"].update(sigmas=[[1.0]] * 12))
    yield _json("a threshold of one half", lambda data: data["exact"].update(thresholds=[0.5] * 12))
    yield _json("a sigma of zero", lambda data: data["exact"]["sigmas"].__setitem__(0, 0.0))
    yield _json("more collisions than the plain hash", lambda data: data["exact"]["deployed"].update(collisions=0.5))
    for field in ("lowpass", "sigma", "consensus", "external"):
        for what in ("a text", "a list", "NaN", "-1", "a huge number"):
            value = {field: WRONG[what]}
            yield _json(f"{what} as {field} of a point", lambda data, v=value: _first(data).update(v))  # type: ignore[misc]
        yield _json(f"a point without {field}", lambda data, f=field: _first(data).pop(f))  # type: ignore[misc]
    yield _json("a point twice", lambda data: data["grid"].append(dict(data["grid"][0])))
    yield _json("a point that is no object", lambda data: data["grid"].append(7))
    yield _json("a profile of another hash", lambda data: data.update(hash="efflite"), "either")
    yield _json("a profile of another version", lambda data: data.update(hash_version="999"), "either")
    yield _json("escape sequences as its hash", lambda data: data.update(hash="\x1b[31mred"), "either")
    yield from (_file(name, text) for name, text in TEXTS.items())
    for what, make in _places().items():
        yield Kind(GROUP, what, "failure", lambda sandbox, m=make: _call(sandbox, m(sandbox)))  # type: ignore[misc]


# What a profile may say.
ACCEPTED: tuple[tuple[str, str], ...] = (
    ("measured", "a mapping"),
    ("exact", "nothing"),
    ("presets", "nothing"),
    ("presets", "a mapping"),
    ("lowpass", "nothing"),
    ("external_lowpass", "nothing"),
)
ACCEPTED += (("hash", "a text"), ("hash_version", "a text"))


def _shipped() -> dict[str, Any]:
    text = (resources.files("dualshield") / "profiles" / "pdq.json").read_text(encoding="utf-8")
    data: dict[str, Any] = json.loads(text)
    return data


def _first(data: dict[str, Any]) -> dict[str, Any]:
    first: dict[str, Any] = data["grid"][0]
    return first


def _json(name: str, change: Callable[[dict[str, Any]], object], expected: Expected = "failure") -> Kind:
    def arrange(sandbox: Path) -> Call:
        data = _shipped()
        change(data)
        return _call(sandbox, put(sandbox, "profile.json", json.dumps(data)))

    return Kind(GROUP, name, expected, arrange)


def _file(name: str, text: bytes) -> Kind:
    return Kind(GROUP, name, "failure", lambda sandbox: _call(sandbox, put(sandbox, "profile.json", text)))


def _places() -> dict[str, Callable[[Path], str]]:
    return {
        "no profile there": lambda sandbox: "missing.json",
        "a folder": lambda sandbox: os.path.dirname(put(sandbox, "folder/a", "")),  # noqa: PTH120 - a name, not a path
        "a pipe": lambda sandbox: os.mkfifo(sandbox / "pipe") or "pipe",  # type: ignore[func-returns-value]
        "a device without end": lambda sandbox: device(sandbox, "zero"),
        "an empty device": lambda sandbox: device(sandbox, "null"),
        "an empty name": lambda sandbox: "",
        "escape sequences as its name": lambda sandbox: "\x1b[31m-missing",
    }


def _call(sandbox: Path, profile: str) -> Call:
    put(sandbox, "a.png", photo(1))
    name = "missing" if "missing" in profile else profile
    return Call(
        ("match", "a.png", "a.png", *FEW, "--profile", profile), (name, "--profile", "the profile was measured")
    )
