"""Run folders that are damaged, huge or forged, for ``report``, ``compare`` and a resumed evaluation."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tools.hostile.kind import Call, Expected, Kind, device, photos, put

GROUP = "runs"
NAMES = {
    "escape sequences": "\x1b[31mred\x1b[0m\x07",
    "HTML": "<script>alert(1)</script>",
    "a path": "../../../../owned",
    "LaTeX": "\\input{/etc/passwd}$%&#_{}~^",
    "lines": "a\nb\r\nc",
    "turned reading order": "a\u202eb",
    "a long text": "x" * 3000,
    "nothing": "",
    "half a character": "\ud800",
    "markup": "[bold]a[/bold]|b|",
}
VALUES: dict[str, Any] = {"a text": "x", "a list": [1], "a mapping": {}, "nothing": None, "a huge number": 10**400}
VALUES |= {"NaN": float("nan"), "infinity": float("inf"), "1e308": 1e308, "-1": -1, "a truth": True}
CONFIGS: dict[str, bytes] = {
    "empty": b"",
    "text": b"hello",
    "a list": b"[]",
    "100,000 brackets": b"[" * 100_000,
    "no UTF-8": b"\xff\xfe{}",
    "a number of 10,000 digits": b'{"seed": ' + b"9" * 10_000 + b"}",
}


def kinds() -> Iterator[Kind]:
    """All of this group."""
    for what, make in _places().items():
        for command in ("report", "compare"):
            yield _kind(f"{command}: {what}", command, make, "failure")
    for what, text in CONFIGS.items():
        yield _kind(f"compare: a configuration that is {what}", "compare", _with(config=text), "failure")
        yield _kind(f"compare: results that are {what}", "compare", _with(results=text), "either")
        yield Kind(GROUP, f"resume: a configuration that is {what}", "failure", _resumed(text))
    for field in ("hashes", "variants", "parts", "expected", "data", "seed", "defences", "warnings", "format"):
        for what in ("a text", "nothing", "a huge number", "NaN", "a mapping"):
            make = _with(json.dumps({**CONFIG, field: VALUES[what]}).encode())
            yield _kind(f"compare: {what} as {field}", "compare", make, "either")
    everything = dict.fromkeys(CONFIG, VALUES["a list"])
    yield _kind("report: lists all over", "report", _with(json.dumps(everything).encode()), "either")
    for field in ("radius", "decision", "evaded", "success", "budget", "l2", "ssim"):
        for what, value in VALUES.items():
            make = _with(results=_results({field: value}))
            yield _kind(f"compare: {what} as {field}", "compare", make, "either")
    for what, value in VALUES.items():
        make = _with(results=_results(dict.fromkeys(("radius", "success", "evaded", "budget", "ssim"), value)))
        yield _kind(f"report: {what} all over", "report", make, "either")
    for index, field in enumerate(("part", "hash", "variant", "dataset", "image", "detail")):
        for what, name in NAMES.items():
            make = _with(results=_results({}, {index: name}))
            yield _kind(f"compare: {what} as {field}", "compare", make, "either")
    for what, name in NAMES.items():
        make = _with(results=_results({}, {1: name, 3: name, 4: name}))
        yield _kind(f"report: {what} as names", "report", make, "either")


CONFIG: dict[str, Any] = {
    "format": 1,
    "protocol": "default",
    "hashes": ["pdq"],
    "variants": ["original", "smoothing"],
    "parts": ["certified", "whitebox", "transforms"],
    "seed": 1,
    "date": "2026-01-01",
    "expected": {},
}


def _results(values: dict[str, Any], names: dict[int, str] | None = None) -> bytes:
    """A few invented records, each with these values and names."""
    records = {
        ("certified", "identity"): {"decision": "match", "radius": 1.0, "method": "smoothing"},
        ("whitebox", "40"): {"success": True, "budget": 40, "l2": 39.0, "ssim": 0.9, "decision": "no_match"},
        ("transforms", "jpeg-80"): {"decision": "match", "evaded": False, "paper": True, "ssim": 0.9},
    }
    lines = []
    for (part, detail), result in records.items():
        for image in ("a.png", "b.png"):
            key = [part, "pdq", "smoothing", "photos", image, detail]
            for index, name in (names or {}).items():
                key[index] = name
            lines.append(json.dumps({"key": key, "result": result | values}))
    return "\n".join(lines).encode() + b"\n"


def _with(config: bytes | None = None, results: bytes | None = None) -> Callable[[Path], str]:
    def make(sandbox: Path) -> str:
        put(sandbox, "run/config.json", json.dumps(CONFIG) if config is None else config)
        put(sandbox, "run/results.jsonl", _results({}) if results is None else results)
        return "run"

    return make


def _places() -> dict[str, Callable[[Path], str]]:
    def without(name: str, instead: Callable[[Path, Path], object] | None = None) -> Callable[[Path], str]:
        def make(sandbox: Path) -> str:
            file = sandbox / _with()(sandbox) / name
            file.unlink()
            if instead is not None:
                instead(sandbox, file)
            return "run"

        return make

    return {
        "nothing there": lambda sandbox: "missing",
        "a file": lambda sandbox: put(sandbox, "file", "x"),
        "an empty folder": lambda sandbox: (sandbox / "empty").mkdir() or "empty",
        "a link to itself": lambda sandbox: (sandbox / "loop").symlink_to("loop") or "loop",
        "no configuration": without("config.json"),
        "no results": without("results.jsonl"),
        "a pipe as its configuration": without("config.json", lambda sandbox, file: os.mkfifo(file)),
        "a pipe as its results": without("results.jsonl", lambda sandbox, file: os.mkfifo(file)),
        "a folder as its results": without("results.jsonl", lambda sandbox, file: file.mkdir()),
        "a device as its results": without(
            "results.jsonl", lambda sandbox, file: file.symlink_to(sandbox / device(sandbox, "full"))
        ),
    }


def _kind(name: str, command: str, make: Callable[[Path], str], expected: Expected) -> Kind:
    def arrange(sandbox: Path) -> Call:
        run = make(sandbox)
        if command == "report":
            return Call(("report", run), (run,), ("run/report",))
        put(sandbox, "good/config.json", json.dumps(CONFIG))
        put(sandbox, "good/results.jsonl", _results({}))
        return Call(("compare", run, "good"), (run,))

    return Kind(GROUP, name, expected, arrange)


def _resumed(config: bytes) -> Callable[[Path], Call]:
    def arrange(sandbox: Path) -> Call:
        run = _with(config)(sandbox)
        data = photos(sandbox)
        return Call(
            ("evaluate", "--data", data, "-o", run, "--resume", "--parts", "collisions", "-j", "1"),
            (run,),
            ("run/.lock",),
        )

    return arrange
