"""Kept references (.dsref) that are damaged or forged, and bare codes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import dualshield
from tools.hostile.kind import FEW, Call, Expected, Kind, device, photo, put

GROUP = "references"
WRONG: dict[str, Any] = {"nothing": None, "a text": "x", "a list": [], "a mapping": {}, "a truth": True, "-1": -1}
WRONG |= {"NaN": float("nan"), "a huge number": 10**400}
CODES = {
    "no digits": "",
    "too few digits": "0123",
    "too many digits": "0" * 65,
    "no hexadecimal": "g" * 64,
    "digits of other scripts": "٣" * 64,
    "spaces in it": "0 " * 32,
    "a prefix of its own": "0x" + "0" * 62,
    "a million digits": "0" * 1_000_000,
    "escape sequences": "\x1b[31m" + "0" * 59,
    "lines": "0\n" * 32,
    "bytes that are not UTF-8": os.fsdecode(b"\xff") * 64,
}
TEXTS: dict[str, bytes] = {
    "an empty file": b"",
    "text": b"hello",
    "an image": b"\x89PNG\r\n\x1a\n",
    "a list": b"[]",
    "an empty object": b"{}",
    "100,000 brackets": b'{"format": ' + b"[" * 100_000,
    "a pickle": b"cos\nsystem\n(S'touch owned'\ntR.",
    "20 MB": b" " * 20_000_000,
    "a number of 10,000 digits": b'{"version": ' + b"9" * 10_000 + b"}",
    "escape sequences": b'{"format": "\x1b[31m"}',
}


def kinds() -> Iterator[Kind]:
    """All of this group."""
    for field in ("format", "version", "name", "fingerprint", "members"):
        yield from _wrong(field, lambda data: data)
    for field in ("terms", "plain", "levels", "bank", "pixels", "bare"):
        yield from _wrong(field, lambda data: data["members"][0])
    for field in ("sigma", "threshold", "codes"):
        yield from _wrong(field, _level, " of its level")
    for field in ("hash", "rule", "boundary", "lowpass", "noise", "sigmas", "mode", "draws", "views"):
        yield from _wrong(field, lambda data: data["members"][0]["terms"])
    for field in ("second", "probes"):  # which may be nothing
        wrong = _wrong(field, lambda data: data["members"][0]["terms"])
        yield from (kind for kind in wrong if not kind.name.startswith("nothing"))
    for field in ("name", "bits", "weights", "front_end"):
        yield from _wrong(field, lambda data: data["members"][0]["terms"]["hash"], " of its hash")
    yield from (_json(name, change) for name, change in _forgeries().items())
    for name, change in _exact_forgeries().items():
        yield Kind(GROUP, f"an exact reference with {name}", "failure", lambda sandbox, c=change: _exact(sandbox, c))  # type: ignore[misc]
    for what, text in TEXTS.items():
        yield Kind(GROUP, what, "failure", lambda sandbox, t=text: _call(put(sandbox, "it.dsref", t), sandbox))  # type: ignore[misc]
    for what, make in _places().items():
        yield Kind(GROUP, what, "failure", lambda sandbox, m=make: _call(m(sandbox), sandbox))  # type: ignore[misc]
    yield Kind(GROUP, "a reference as the query", "failure", _as_query)
    yield _json(
        "a reference of this hash, used with another", lambda data: None, extra=("--hash", "pdq", "--sigma", "9")
    )
    for what, code in CODES.items():
        yield Kind(GROUP, f"a bare code with {what}", "failure", lambda sandbox, c=code: _bare(sandbox, c))  # type: ignore[misc]


def _wrong(field: str, where: Callable[[Any], Any], of: str = "") -> Iterator[Kind]:
    for what, value in WRONG.items():
        name = f"{what} as {field}{of}"
        expected: Expected = "failure"
        if (field, what, of) in (
            ("name", "a text", ""),
            ("bank", "nothing", ""),
            ("pixels", "nothing", ""),
            ("weights", "a mapping", " of its hash"),
        ):
            expected = "either"  # as it was, or no part of what the fingerprint is of
        yield _json(name, lambda data, v=value: where(data).update({field: v}), expected)  # type: ignore[misc]
    yield _json(f"no {field}{of}", lambda data: where(data).pop(field))


def _level(data: Any) -> Any:
    return data["members"][0]["levels"][0]


def _forgeries() -> dict[str, Callable[[Any], object]]:
    def member(data: Any) -> Any:
        return data["members"][0]

    def other_digit(data: Any) -> None:
        code = member(data)["plain"]
        member(data)["plain"] = code[:-1] + ("0" if code[-1] != "0" else "1")

    return {
        "another fingerprint": lambda data: data.update(fingerprint="0" * 64),
        "another code under the same fingerprint": other_digit,
        "100 members": lambda data: data.update(members=data["members"] * 100),
        "two members, both the same": lambda data: data.update(members=data["members"] * 2),
        "a hash that is not installed": lambda data: member(data)["terms"]["hash"].update(name="../../evil.yaml"),
        "a field too many": lambda data: member(data).update(more=1),
        "a code that says 10^9 bits": lambda data: _level(data).update(codes=["999999999:00"]),
        "a code of numbers that unfolds": lambda data: _level(data).update(codes=["f4:4000000:eJw="]),
        "a code of no base64": lambda data: _level(data).update(codes=["f4:4:????"]),
        "a code of a shape without end": lambda data: _level(data).update(codes=["f4:2x2x2x2x2:eJw="]),
        "a hundred levels": lambda data: member(data).update(levels=member(data)["levels"] * 100),
        "a threshold above its configuration": lambda data: _level(data).update(threshold=0.49),
        "a view that trims everything": lambda data: member(data)["terms"]["views"].update(
            reference=[{}, {"top": 0.9}]
        ),
        "1,000 views of the query": lambda data: member(data)["terms"]["views"].update(query=[{}] * 1000),
        "a bank beside a code": lambda data: member(data).update(bank=["256:" + "0" * 64]),
        "a name of a million letters": lambda data: data.update(name="x" * 1_000_000),
        "escape sequences as its name": lambda data: data.update(name="\x1b[31m", fingerprint=""),
        "10,000 sigmas": lambda data: member(data)["terms"].update(sigmas=[1.0] * 10_000),
        "version 1": lambda data: data.update(version=1),
    }


def _exact_forgeries() -> dict[str, Callable[[Any], object]]:
    def terms(data: Any) -> Any:
        return data["members"][0]["terms"]

    changes: dict[str, Callable[[Any], object]] = {
        "no thresholds": lambda data: terms(data).pop("thresholds"),
        "a threshold too many": lambda data: terms(data)["thresholds"].append(0.3),
        "thresholds of one half": lambda data: terms(data).update(thresholds=[0.5] * len(terms(data)["sigmas"])),
        "negative thresholds": lambda data: terms(data).update(thresholds=[-0.1] * len(terms(data)["sigmas"])),
        "a bank": lambda data: data["members"][0].update(bank=["256:" + "0" * 64]),
        "the mode bank": lambda data: terms(data).update(mode="bank"),
        "a sigma of its own": lambda data: _level(data).update(sigma=0.123),
        "a native rule": lambda data: terms(data).update(rule="native: none"),
        "a code of 255 bits": lambda data: _level(data).update(codes=["255:" + "0" * 64]),
        "another code": lambda data: _level(data).update(codes=["256:" + "0" * 64]),
        "votes for its noise": lambda data: terms(data).update(noise="linear"),
    }
    for what, value in WRONG.items():
        changes[f"{what} as thresholds"] = lambda data, v=value: terms(data).update(thresholds=v)  # type: ignore[misc]
    return changes


def _exact(sandbox: Path, change: Callable[[Any], object]) -> Call:
    data = json.loads(_kept("exact"))
    change(data)
    put(sandbox, "a.png", photo(1))
    return Call(("match", put(sandbox, "it.dsref", json.dumps(data)), "a.png"), ("dsref", "reference a.png"))


@cache
def _kept(method: Literal["votes", "exact"] = "votes") -> str:
    with TemporaryDirectory() as folder:
        put(Path(folder), "a.png", photo(1))
        file = Path(folder) / "it.dsref"
        deployment = dualshield.deploy("pdq", method=method)
        deployment.enroll(str(Path(folder) / "a.png")).save(file)
        return file.read_text(encoding="utf-8")


def _json(
    name: str, change: Callable[[Any], object], expected: Expected = "failure", extra: tuple[str, ...] = ()
) -> Kind:
    def arrange(sandbox: Path) -> Call:
        data = json.loads(_kept())
        change(data)
        return _call(put(sandbox, "it.dsref", json.dumps(data)), sandbox, extra)

    return Kind(GROUP, name, expected, arrange)


def _call(reference: str, sandbox: Path, extra: tuple[str, ...] = ()) -> Call:
    put(sandbox, "a.png", photo(1))
    return Call(("match", reference, "a.png", *FEW, *extra), ("dsref", "reference a.png"))


def _as_query(sandbox: Path) -> Call:
    put(sandbox, "a.png", photo(1))
    return Call(("match", "a.png", put(sandbox, "it.dsref", _kept()), *FEW), ("it.dsref",))


def _places() -> dict[str, Callable[[Path], str]]:
    def link(sandbox: Path, target: str) -> str:
        (sandbox / "it.dsref").symlink_to(target)
        return "it.dsref"

    return {
        "nothing there": lambda sandbox: "missing.dsref",
        "a folder": lambda sandbox: (sandbox / "it.dsref").mkdir() or "it.dsref",  # type: ignore[func-returns-value]
        "a pipe": lambda sandbox: os.mkfifo(sandbox / "it.dsref") or "it.dsref",  # type: ignore[func-returns-value]
        "a device without end": lambda sandbox: link(sandbox, device(sandbox, "zero")),
        "a link to itself": lambda sandbox: link(sandbox, "it.dsref"),
        "nothing but the suffix": lambda sandbox: ".dsref",
    }


def _bare(sandbox: Path, code: str) -> Call:
    put(sandbox, "a.png", photo(1))
    return Call(("match", f"code:{code}", "a.png", *FEW), ("code",))
