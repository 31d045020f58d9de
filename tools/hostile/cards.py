"""Hash cards: YAML that bombs, lies or runs something, and programs that misbehave."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from tools.hostile.kind import Call, Expected, Kind, device, photo, put

GROUP = "hash cards"
COMMAND: dict[Any, Any] = {"name": "mine", "bits": 64, "command": ["./hash.sh", "{file}"], "side": 16}
MODEL: dict[str, Any] = {"name": "mine", "bits": 64, "model": "model.onnx", "input": {"size": [8, 8]}}
WRONG: dict[str, Any] = {
    "a list": [1],
    "a mapping": {"a": 1},
    "nothing": None,
    "a truth": True,
    "a negative number": -1,
    "0": 0,
}
WRONG |= {"infinity": float("inf"), "NaN": float("nan"), "a huge number": 10**400, "a long text": "x" * 5000}
WRONG |= {"escape sequences": "\x1b[31m"}
RIGHT = "#!/bin/sh\necho 0123456789abcdef\n"
PROGRAMS = {
    "fails": "#!/bin/sh\nexit 3\n",
    "fails with escape sequences": "#!/bin/sh\nprintf '\\033[31mred\\n\\a' >&2\nexit 3\n",
    "is killed": "#!/bin/sh\nkill -9 $$\n",
    "hangs": "#!/bin/sh\nsleep 60\n",
    "hangs in the background": "#!/bin/sh\nsleep 60 &\necho 0123456789abcdef\n",
    "prints nothing": "#!/bin/sh\n",
    "prints two lines": "#!/bin/sh\necho 01; echo 02\n",
    "prints no hex": "#!/bin/sh\necho not-hexadecimal\n",
    "prints escape sequences": "#!/bin/sh\nprintf '\\033[31m\\n'\n",
    "prints too short a code": "#!/bin/sh\necho 0123\n",
    "prints too long a code": "#!/bin/sh\necho 0123456789abcdef01\n",
    "prints bytes": "#!/bin/sh\nhead -c 1000 /dev/zero\n",
    "prints without end": "#!/bin/sh\nyes\n",
    "complains without end": "#!/bin/sh\nyes >&2\n",
    "prints by chance": "#!/bin/sh\nhead -c 8 /dev/urandom | od -An -tx1 | tr -d ' \\n'\n",
    "is no program": "\x7fELF nonsense",
    "has an interpreter that is not there": "#!/nowhere/sh\n",
}


def kinds() -> Iterator[Kind]:
    """All of this group."""
    yield from (_text(name, text) for name, text in _texts().items())
    for field in ("name", "version", "bits", "threshold", "about", "command", "timeout", "side"):
        for what, value in WRONG.items():
            fine = field in ("about", "version") and isinstance(value, str | int) and not isinstance(value, bool)
            fine = fine or (field, what) in (("threshold", "0"), ("timeout", "a list"))  # a list of one number
            expected: Expected = "either" if fine else "failure"
            yield _card(f"{what} as {field}", {**COMMAND, field: value}, expected)
    for field in ("model", "sha256", "input", "projection"):
        for what, value in WRONG.items():
            yield _card(f"{what} as {field}", {**MODEL, field: value}, "failure")
    for field in ("size", "resize_to", "filter", "colour", "mean", "std"):
        for what in ("a list", "a mapping", "0", "NaN", "a huge number", "escape sequences"):
            yield _card(f"{what} as {field} of its input", {**MODEL, "input": {"size": [8, 8], field: WRONG[what]}})
    for field in ("name", "bits"):
        yield _card(f"no {field}", {name: value for name, value in COMMAND.items() if name != field})
    yield from (_card(name, card) for name, card in _cards().items())
    for what, program in PROGRAMS.items():
        yield _card(f"its program {what}", {**COMMAND, "timeout": 1}, program=program)
    yield Kind(GROUP, "its program may not be run", "failure", lambda sandbox: _call(sandbox, COMMAND, mode=0o644))
    yield Kind(GROUP, "the card is a device", "failure", _device)
    yield Kind(GROUP, "the card is a link to itself", "failure", _loop)


def _cards() -> dict[str, dict[Any, Any]]:
    array = {"matrix": "m.npy"}
    return {
        "it calls itself pdq": {**COMMAND, "name": "pdq"},
        "capitals in its name": {**COMMAND, "name": "Mine"},
        "a path as its name": {**COMMAND, "name": "../../mine"},
        "an unknown field": {**COMMAND, "colour": "red"},
        "a number as a field": {**COMMAND, 7: 7},
        "a command and a model": {**COMMAND, "model": "model.onnx"},
        "an empty command": {**COMMAND, "command": []},
        "a command of one text": {**COMMAND, "command": "rm -rf /"},
        "a command with a number in it": {**COMMAND, "command": ["./hash.sh", 7]},
        "a program that is not there": {**COMMAND, "command": ["./missing.sh"]},
        "a program of no path": {**COMMAND, "command": ["no-such-program-anywhere"]},
        "a folder as its program": {**COMMAND, "command": ["./"]},
        "a zero byte in its command": {**COMMAND, "command": ["./hash.sh", "a\0b"]},
        "a model that is not there": {**MODEL, "model": "missing.onnx"},
        "a model outside of its folder": {**MODEL, "model": "../../../../../../etc/passwd"},
        "a device as its model": {**MODEL, "model": "/dev/zero"},
        "a folder as its model": {**MODEL, "model": "."},
        "text as its ONNX model": MODEL,
        "text as its TorchScript model": {**MODEL, "model": "model.pt"},
        "a sha256 of another model": {**MODEL, "sha256": "0" * 64},
        "a projection of nothing": {**MODEL, "projection": {}},
        "a projection that is not there": {**MODEL, "projection": array},
        "a pickle as its projection": {**MODEL, "projection": {"matrix": "pickle.npy"}},
        "a projection of another shape": {**MODEL, "projection": {"matrix": "wrong.npy"}},
        "a projection of NaN": {**MODEL, "projection": {"matrix": "nan.npy"}},
        "a projection that promises 10^15 numbers": {**MODEL, "projection": {"matrix": "huge.npy"}},
        "a name of 5000 letters for its model": {**MODEL, "model": "x" * 5000},
    }


def _texts() -> dict[str, str | bytes]:
    laughs = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{b}: &{b} [{','.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    return {
        "an empty card": "",
        "no YAML": "name: [unclosed",
        "a list": "- name\n- bits\n",
        "a bomb of aliases": laughs,
        "an alias of itself": "name: &a [*a]\n",
        "a tag that calls Python": "name: !!python/object/apply:os.system ['touch owned']\n",
        "a tag that makes a Python object": "!!python/object:__main__.Card {}\n",
        "an unknown tag": "name: !owned mine\n",
        "10,000 brackets": "name: " + "[" * 10000,
        "a field twice": "name: mine\nname: other\nbits: 64\n",
        "two documents": "name: mine\n---\nname: other\n",
        "a date that does not exist": "name: 2020-99-99\nbits: 64\n",
        "a number of 5000 digits": f"name: mine\nbits: {'9' * 5000}\n",
        "a base-60 number": "name: mine\nbits: 1:30:45\ncommand: [x]\n",
        "bytes that are not UTF-8": b"name: \xff\xfe\n",
        "UTF-16": "name: mine\n".encode("utf-16"),
        "zeros": bytes(100),
        "control characters": "name: a\x07b\n",
        "a megabyte of comments": "# x\n" * 260_000,
        "merge keys": "<<: {name: mine}\nbits: 64\n",
        "an image": photo(),
        "binary data as its name": "name: !!binary aGVsbG8=\nbits: 64\n",
        "a set as its name": "name: !!set {a, b}\nbits: 64\n",
    }


def _text(name: str, text: str | bytes) -> Kind:
    def arrange(sandbox: Path) -> Call:
        put(sandbox, "a.png", photo(1))
        return Call(("hash", "a.png", "--hash", put(sandbox, "card.yaml", text)), ("card.yaml", "hash mine"))

    return Kind(GROUP, name, "failure", arrange)


def _card(name: str, card: dict[Any, Any], expected: Expected = "failure", program: str = RIGHT) -> Kind:
    return Kind(GROUP, name, expected, lambda sandbox: _call(sandbox, card, program))


def _call(sandbox: Path, card: dict[Any, Any], program: str = RIGHT, mode: int = 0o755) -> Call:
    put(sandbox, "a.png", photo(1))
    put(sandbox, "hash.sh", program)
    (sandbox / "hash.sh").chmod(mode)
    for model in ("model.onnx", "model.pt"):
        put(sandbox, model, "not a model")
    np.save(sandbox / "wrong.npy", np.zeros((3, 4)))
    np.save(sandbox / "nan.npy", np.full((64, 4), np.nan))
    np.save(sandbox / "pickle.npy", np.array([{"a": 1}]), allow_pickle=True)
    whole = (sandbox / "wrong.npy").read_bytes()
    put(sandbox, "huge.npy", whole.replace(b"(3, 4), }", b"(64, 10000000000000), }")[: len(whole)])
    put(sandbox, "card.yaml", yaml.safe_dump(card, allow_unicode=True))
    return Call(("hash", "a.png", "--hash", "card.yaml"), ("card.yaml", "hash mine"))


def _device(sandbox: Path) -> Call:
    put(sandbox, "a.png", photo(1))
    (sandbox / "card.yaml").symlink_to(device(sandbox, "zero"))
    return Call(("hash", "a.png", "--hash", "card.yaml"), ("card.yaml",))


def _loop(sandbox: Path) -> Call:
    put(sandbox, "a.png", photo(1))
    (sandbox / "card.yaml").symlink_to("card.yaml")
    return Call(("hash", "a.png", "--hash", "card.yaml"), ("card.yaml",))
