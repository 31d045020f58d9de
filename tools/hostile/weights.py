"""Checkpoints to import that are no weights, or try to run something, and a damaged store of weights."""

from __future__ import annotations

import io
import os
import pickle
import struct
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tools.hostile.kind import Call, Kind, device, photo, put

GROUP = "weights"
# One name for each way of reading a file.
NAMES = ("sscd", "sscd-torchscript", "c-pdq", "dinohash-pca", "dinohash-onnx", "simdino-projection", "hybridhash")
RECORDS: dict[str, str] = {
    "no JSON": "hello",
    "a list": "[]",
    "a number as its file": '{"file": 7, "sha256": "0"}',
    "a path as its file": '{"file": "../../../../etc/passwd", "sha256": "0"}',
    "a file that is not there": '{"file": "sscd-0.pt", "sha256": "0"}',
    "100,000 brackets": "[" * 100_000,
    "escape sequences": '{"file": "\\u001b[31m", "sha256": "0"}',
    "a zero byte in its file": '{"file": "a\\u0000b", "sha256": "0"}',
    "a sha256 that is no text": '{"file": "a.pt", "sha256": 7}',
}


class Runs:
    """Would run a program when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.system, ("touch owned",)


def kinds() -> Iterator[Kind]:
    """All of this group."""
    for weights in NAMES:
        for what, make in _contents().items():
            yield _import(f"{weights}: {what}", weights, make)
    for what, place in _places().items():
        yield Kind(GROUP, what, "failure", lambda sandbox, p=place: _call("sscd", p(sandbox)))  # type: ignore[misc]
    for what, text in RECORDS.items():
        yield Kind(GROUP, f"a record that is {what}", "failure", lambda sandbox, t=text: _damaged(sandbox, t))  # type: ignore[misc]
        yield Kind(GROUP, f"verify: a record that is {what}", "either", lambda s, t=text: _verify(s, t))  # type: ignore[misc]


@cache
def _contents() -> dict[str, bytes]:
    return {
        "an empty file": b"",
        "text": b"hello",
        "an image": photo(),
        "a pickle that runs a program": pickle.dumps(Runs()),
        "a checkpoint that runs a program": _saved({"weight": Runs()}),
        "a checkpoint of other tensors": _saved({"weight": torch.zeros(2)}),
        "a checkpoint of NaN": _saved({"weight": torch.full((2,), torch.nan)}),
        "a checkpoint of no tensors": _saved({"weight": "text"}),
        "an empty checkpoint": _saved({}),
        "a tensor that claims terabytes": _saved({"weight": torch.zeros(1).expand(2**20, 2**20)}),
        "half a checkpoint": _saved({"weight": torch.zeros(500)})[:900],
        "a zip of nothing": _zip({}),
        "a zip with paths that lead out": _zip({"../../owned": b"x", "a/data.pkl": b"", "a/constants.pkl": b""}),
        "a TorchScript archive that runs a program": _zip(
            {"a/data.pkl": pickle.dumps(Runs(), 2), "a/constants.pkl": b"", "a/version": b"3"}
        ),
        "a zip bomb": _zip({"a/data.pkl": bytes(1 << 26)}, zipfile.ZIP_DEFLATED),
        "an array of objects": _array(np.array([{"a": 1}], dtype=object)),
        "an array of another shape": _array(np.zeros((3, 5), np.float32)),
        "an array that promises 10^15 numbers": _huge_array(),
        "a model of rubbish": b"\x08\x07" + struct.pack("<Q", 2**60) * 20,
    }


def _saved(data: object) -> bytes:
    out = io.BytesIO()
    torch.save(data, out)
    return out.getvalue()


def _zip(entries: dict[str, bytes], how: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", how) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return out.getvalue()


def _array(values: np.ndarray[Any, Any]) -> bytes:
    out = io.BytesIO()
    np.save(out, values, allow_pickle=True)
    return out.getvalue()


def _huge_array() -> bytes:
    out = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (10**15,)}
    np.lib.format.write_array_header_1_0(out, header)
    return out.getvalue()


def _import(name: str, weights: str, data: bytes) -> Kind:
    return Kind(GROUP, name, "failure", lambda sandbox: _call(weights, put(sandbox, "file.bin", data)))


def _call(weights: str, file: str) -> Call:
    return Call(("weights", "import", weights, file), (file[:60] or "empty path", weights))


def _places() -> dict[str, Callable[[Path], str]]:
    return {
        "nothing there": lambda sandbox: "missing.pt",
        "an empty name": lambda sandbox: "",
        "a folder": lambda sandbox: (sandbox / "folder").mkdir() or "folder",  # type: ignore[func-returns-value]
        "a pipe": lambda sandbox: os.mkfifo(sandbox / "pipe") or "pipe",  # type: ignore[func-returns-value]
        "a device without end": lambda sandbox: device(sandbox, "zero"),
        "a link to itself": lambda sandbox: (sandbox / "loop").symlink_to("loop") or "loop",  # type: ignore[func-returns-value]
        "a path of 5000 letters": lambda sandbox: "x" * 5000,
    }


def _damaged(sandbox: Path, record: str) -> Call:
    put(sandbox, "store/sscd.json", record)
    store = {"DUALSHIELD_WEIGHTS": str(sandbox / "store")}
    return Call(("hash", put(sandbox, "a.png", photo(1)), "--hash", "sscd"), ("sscd",), environment=store)


def _verify(sandbox: Path, record: str) -> Call:
    call = _damaged(sandbox, record)
    return Call(("weights", "verify", "--json"), complaints=0, environment=call.environment)
