"""Manifests of ``evaluate --manifest``; none where there is no such option."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from dualshield.cli.evaluate import evaluate
from tools.hostile.kind import Call, Kind, device, photo, photos, put

GROUP = "manifests"
HEAD = "dataset,file,sha256\n"
DIGEST = hashlib.sha256(photo(0)).hexdigest()
TEXTS: dict[str, str | bytes] = {
    "an empty file": "",
    "nothing but its head": HEAD,
    "no head": f"photos,0.png,{DIGEST}\n",
    "a column missing": "dataset,file\nphotos,0.png\n",
    "a field missing": HEAD + "photos,0.png\n",
    "no digest": HEAD + "photos,0.png,\n",
    "a digest of no hex": HEAD + f"photos,0.png,{'g' * 64}\n",
    "a digest that is too short": HEAD + "photos,0.png,00\n",
    "a digest of another file": HEAD + f"photos,0.png,{'0' * 64}\n",
    "a file twice": HEAD + f"photos,0.png,{DIGEST}\n" * 2,
    "a file that is not there": HEAD + f"photos,missing.png,{DIGEST}\n",
    "a path as a file": HEAD + f"photos,../../etc/passwd,{DIGEST}\n",
    "another dataset": HEAD + f"other,0.png,{DIGEST}\n",
    "no dataset": HEAD + f",0.png,{DIGEST}\n",
    "escape sequences": HEAD + f"\x1b[31m,\x1b[2J.png,{DIGEST}\n",
    "a quotation that does not end": HEAD + f'"photos,0.png,{DIGEST}\n',
    "a field of a million letters": HEAD + "x" * 1_000_000 + f",0.png,{DIGEST}\n",
    "zeros": bytes(1000),
    "UTF-16": (HEAD + f"photos,0.png,{DIGEST}\n").encode("utf-16"),
    "no UTF-8": b"dataset,file,sha256\n\xff,\xfe,0\n",
    "an image": photo(),
    "JSON": '{"photos": []}',
    "100,000 lines of nothing": HEAD + ",,\n" * 100_000,
}


def kinds() -> Iterator[Kind]:
    """All of this group."""
    if all(param.name != "manifest" for param in evaluate.params):
        return
    for what, text in TEXTS.items():
        yield _kind(what, lambda sandbox, t=text: put(sandbox, "list.csv", t))  # type: ignore[misc]
    yield _kind("nothing there", lambda sandbox: "list.csv")
    yield _kind("a folder", lambda sandbox: (sandbox / "list.csv").mkdir() or "list.csv")  # type: ignore[func-returns-value]
    yield _kind("a pipe", lambda sandbox: os.mkfifo(sandbox / "list.csv") or "list.csv")  # type: ignore[func-returns-value]
    yield _kind("a device without end", lambda sandbox: device(sandbox, "zero"))


def _kind(name: str, make: Callable[[Path], str]) -> Kind:
    def arrange(sandbox: Path) -> Call:
        data, manifest = photos(sandbox), make(sandbox)
        arguments = ("evaluate", "--data", data, "-o", "run", "--parts", "collisions", "--variants", "original")
        return Call((*arguments, "-j", "1", "--manifest", manifest), (manifest,))

    return Kind(GROUP, name, "failure", arrange)
