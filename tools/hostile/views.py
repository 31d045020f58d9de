"""Files of ``--views``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from tools.hostile.kind import FEW, Call, Kind, device, photo, put

GROUP = "views"
TEXTS: dict[str, str | bytes] = {
    "an empty file": "",
    "no JSON": "mirror",
    "a list": "[]",
    "a number": "7",
    "one side only": '{"reference": [{}]}',
    "a third side": '{"reference": [{}], "query": [{}], "more": []}',
    "no views": '{"reference": [], "query": []}',
    "sides that are text": '{"reference": "all", "query": "all"}',
    "a view that is a number": '{"reference": [{}, 3], "query": [{}]}',
    "a view with an unknown field": '{"reference": [{}, {"run": "id"}], "query": [{}]}',
    "the identity second": '{"reference": [{"mirror": true}, {}], "query": [{}]}',
    "the same view twice": '{"reference": [{}, {"turn": 1}, {"turn": 1}], "query": [{}]}',
    "an impossible trim": '{"reference": [{}, {"top": 0.9}], "query": [{}]}',
    "trims that leave nothing": '{"reference": [{}], "query": [{}, {"left": 0.5, "right": 0.5}]}',
    "a negative trim": '{"reference": [{}, {"top": -0.1}], "query": [{}]}',
    "a trim of text": '{"reference": [{}, {"top": "half"}], "query": [{}]}',
    "a trim that is true": '{"reference": [{}, {"top": true}], "query": [{}]}',
    "a trim that is no number": '{"reference": [{}, {"top": NaN}], "query": [{}]}',
    "a trim without end": '{"reference": [{}, {"top": 1e999}], "query": [{}]}',
    "a trim of 400 digits": '{"reference": [{}, {"top": ' + "9" * 400 + '}], "query": [{}]}',
    "a turn of a half": '{"reference": [{}, {"turn": 0.5}], "query": [{}]}',
    "a turn of 2.0": '{"reference": [{}, {"turn": 2.0}], "query": [{}]}',
    "a turn of 7": '{"reference": [{}, {"turn": 7}], "query": [{}]}',
    "a mirror of 1": '{"reference": [{}, {"mirror": 1}], "query": [{}]}',
    "a rotation of 10,000 degrees": '{"reference": [{}, {"rotation": 10000}], "query": [{}]}',
    "a rotated view of the query": '{"reference": [{}], "query": [{}, {"rotation": 5}]}',
    "a turned view of the query": '{"reference": [{}], "query": [{}, {"turn": 1}]}',
    "1,000 views of the query": '{"reference": [{}], "query": [' + ",".join(["{}"] * 1000) + "]}",
    "1,000 views of the reference": '{"reference": [' + ",".join(["{}"] * 1000) + '], "query": [{}]}',
    "nesting without end": "[" * 100_000,
    "2 MB": " " * 2_000_000,
    "zeros": bytes(1000),
    "no UTF-8": b'{"reference": \xff}',
    "escape sequences": '{"\x1b[31m": 1}',
    "an image": photo(),
}


def kinds() -> Iterator[Kind]:
    """All of this group."""
    for what, text in TEXTS.items():
        yield _kind(what, lambda sandbox, t=text: put(sandbox, "views.json", t))  # type: ignore[misc]
    yield _kind("nothing there", lambda sandbox: "views.json")
    yield _kind("a folder", lambda sandbox: (sandbox / "views.json").mkdir() or "views.json")  # type: ignore[func-returns-value]
    yield _kind("a pipe", lambda sandbox: os.mkfifo(sandbox / "views.json") or "views.json")  # type: ignore[func-returns-value]
    yield _kind("a device without end", lambda sandbox: f"{device(sandbox, 'zero')}.json")


def _kind(name: str, make: Callable[[Path], str]) -> Kind:
    def arrange(sandbox: Path) -> Call:
        for number, file in enumerate(("a.png", "b.png")):
            put(sandbox, file, photo(number))
        views = make(sandbox)
        return Call(("match", "a.png", "b.png", *FEW, "--views", views), (views, "views"))

    return Kind(GROUP, name, "failure", arrange)
