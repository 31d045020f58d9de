"""The listing of hashes: imported networks are loaded once, and again only when their files changed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from dualshield._common.folders import cache_folder
from dualshield.errors import InputError
from dualshield.hashes import HashState, PerceptualHash, list_hashes, registry
from dualshield.hashes.import_weights import import_weights
from dualshield.weights import CATALOGUE, store
from tests.helpers import toy_weights
from tests.helpers.command_line import run
from tests.helpers.toy_weights import WEIGHT, synthetic_state


class Loads:
    """Counts them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        load = toy_weights.load

        def counted() -> PerceptualHash:
            self.count += 1
            return load()

        monkeypatch.setattr(toy_weights, "load", counted)


@pytest.fixture
def loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Loads:
    """Of a hash whose weights are imported; nothing is cached yet."""
    monkeypatch.setenv("DUALSHIELD_WEIGHTS", str(tmp_path / "weights"))
    monkeypatch.setenv("DUALSHIELD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(CATALOGUE, "toy-file", WEIGHT)
    monkeypatch.setitem(registry.BUILT_IN, "toy", "tests.helpers.toy_weights")
    import_toy(tmp_path)
    return Loads(monkeypatch)


def import_toy(folder: Path, seed: int = 0) -> Path:
    torch.save(synthetic_state(seed), folder / "mine.pt")
    return import_weights("toy-file", folder / "mine.pt").path


def toy() -> HashState:
    return next(state for state in list_hashes() if state.name == "toy")


def note() -> Path:
    return cache_folder() / "hashes" / "toy.json"


def test_the_second_listing_loads_nothing(loads: Loads, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = toy(), toy()
    assert loads.count == 1
    assert first.hash is not None
    assert second.hash is None
    assert first.ready
    assert second.ready
    assert first.description == second.description == first.hash.describe()
    assert first.detail == second.detail
    note().unlink()
    for options in ((), ("--json",)):
        texts = []
        for _ in range(2):
            assert run("hashes", *options) == 0
            texts.append(capsys.readouterr().out)
        assert texts[0] == texts[1]
    assert loads.count == 2


def test_another_file_is_loaded(loads: Loads, tmp_path: Path) -> None:
    toy()
    import_toy(tmp_path, seed=1)
    assert toy().hash is not None
    assert toy().hash is None
    assert loads.count == 2


def test_a_changed_or_lost_file_is_noticed(loads: Loads) -> None:
    toy()
    stored = store.find("toy-file").path
    data = stored.read_bytes()
    stored.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    os.utime(stored, ns=(1, 1))
    state = toy()
    assert (state.state, state.description) == ("needs weights", None)
    assert "has changed since it was imported" in state.detail
    stored.unlink()
    assert "cannot read" in toy().detail
    (stored.parent / "toy-file.json").write_text("{}")
    assert toy().state == "needs weights"


def test_another_version_looks_again(loads: Loads, monkeypatch: pytest.MonkeyPatch) -> None:
    toy()
    monkeypatch.setattr("dualshield.hashes.available.__version__", "99")
    assert toy().hash is not None


@pytest.mark.parametrize(
    "change",
    [
        b"",
        b"\xff",
        b"[]",
        b"null",
        b'{"version": 1}',
        {"description": []},
        {"description": {}},
        {"files": None},
        {"bits": "16"},
        {"threshold": None},
    ],
)
def test_a_damaged_note_is_as_good_as_none(change: Any, loads: Loads) -> None:
    expected = toy().description
    good = json.loads(note().read_text())
    if isinstance(change, bytes):
        note().write_bytes(change)
    elif change.keys() <= good.keys():
        note().write_text(json.dumps({**good, **change}))
    else:
        note().write_text(json.dumps({**good, "description": {**good["description"], **change}}))
    state = toy()
    assert state.hash is not None
    assert state.description == expected
    assert toy().hash is None


def test_nothing_can_be_written(loads: Loads) -> None:
    cache_folder().write_bytes(b"a file where the folder should be")
    assert toy().hash is not None
    assert toy().hash is not None
    assert loads.count == 2


def test_a_hash_that_does_not_load_is_not_remembered(loads: Loads, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> PerceptualHash:
        raise InputError("hash toy: broken")

    with monkeypatch.context() as patch:
        patch.setattr(toy_weights, "load", broken)
        assert toy().state == "broken"
    assert not note().exists()
    assert toy().ready
