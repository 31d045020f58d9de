"""The folder of weights: what gets in, what stays in, what is said when something is missing or wrong."""

from __future__ import annotations

import hashlib
import http.server
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest
import torch

from dualshield._common.folders import weights_folder
from dualshield.errors import ExitCode, InputError, MissingWeightsError, WeightsError
from dualshield.hashes import get_hash, list_hashes, registry
from dualshield.hashes.import_weights import fetch_weights, import_weights
from dualshield.weights import CATALOGUE, StoredWeights, WeightFile, store, weight_file
from tests.helpers import toy_weights
from tests.helpers.toy_weights import WEIGHT, synthetic_state, toy_home


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return toy_home(tmp_path, monkeypatch)


def checkpoint(folder: Path, seed: int = 0, name: str = "mine.pt") -> Path:
    path = folder / name
    torch.save(synthetic_state(seed), path)
    return path


def contents(home: Path) -> list[str]:
    return sorted(path.name for path in home.iterdir())


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# -- the catalogue ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_every_entry_is_complete(name: str) -> None:
    weight = CATALOGUE[name]
    assert weight.name == name
    assert re.fullmatch(r"[a-z0-9][a-z0-9-]*", name)
    assert weight.hash in registry.BUILT_IN
    assert weight.file
    assert Path(weight.file).name == weight.file
    assert weight.licence
    assert weight.address is None or weight.address.startswith("https://")
    assert weight.sha256 is None or re.fullmatch(r"[0-9a-f]{64}", weight.sha256)
    assert (weight.command or f"dualshield weights import {name} FILE") in weight.how_to_get


def test_unknown_weights() -> None:
    with pytest.raises(InputError, match="unknown weights 'nope': use one of sscd, "):
        weight_file("nope")


# -- the folder ------------------------------------------------------------------------------------


def test_the_folder_is_the_users_unless_said_otherwise(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DUALSHIELD_WEIGHTS", str(tmp_path))
    assert weights_folder() == tmp_path
    monkeypatch.delenv("DUALSHIELD_WEIGHTS")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert weights_folder() == tmp_path / ".local" / "share" / "dualshield" / "weights"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    assert weights_folder() == tmp_path / "xdg" / "dualshield" / "weights"
    # Where version 0.1 kept them; nobody has to import them again.
    before = tmp_path / ".cache" / "dualshield" / "weights"
    before.mkdir(parents=True)
    assert weights_folder() == before


def test_without_weights_the_hash_says_what_to_get(home: Path) -> None:
    with pytest.raises(MissingWeightsError) as caught:
        get_hash("toy")
    message = str(caught.value)
    assert caught.value.exit_code == ExitCode.MISSING
    for part in ("hash toy", "toy.pt", "https://example.invalid/toy.pt", "the small one"):
        assert part in message
    assert "dualshield weights import toy-file FILE" in message
    assert "dualshield weights fetch toy-file" in message
    state = next(state for state in list_hashes() if state.name == "toy")
    assert (state.state, state.ready, state.detail) == ("needs weights", False, message)
    assert not home.exists()


def test_import_and_use(home: Path, tmp_path: Path) -> None:
    source = checkpoint(tmp_path)
    stored = import_weights("toy-file", source)
    assert stored == StoredWeights(WEIGHT, home / f"toy-file-{sha256(source)[:16]}.pt", sha256(source))
    assert stored.path.read_bytes() == source.read_bytes()
    source.unlink()
    hash_ = get_hash("toy")
    assert hash_.weights == {"toy.pt": stored.sha256}
    assert torch.equal(hash_.network.state_dict()["1.weight"], synthetic_state()["1.weight"])
    assert next(state for state in list_hashes() if state.name == "toy").state == "ready"
    assert contents(home) == [stored.path.name, "toy-file.json"]


def test_the_first_imported_alternative_is_used(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = replace(WEIGHT, name="toy-other", address=None, note="")
    monkeypatch.setitem(CATALOGUE, "toy-other", other)
    with pytest.raises(
        MissingWeightsError, match=r"import toy-file FILE; or get toy\.pt from its authors, then run: .*"
    ):
        store.find("toy-file", "toy-other")
    import_weights("toy-other", checkpoint(tmp_path))
    assert store.find("toy-file", "toy-other").weight is other
    import_weights("toy-file", checkpoint(tmp_path))
    assert store.find("toy-file", "toy-other").weight is WEIGHT


def test_a_new_import_replaces_the_old_one(home: Path, tmp_path: Path) -> None:
    old = import_weights("toy-file", checkpoint(tmp_path, seed=1))
    assert import_weights("toy-file", checkpoint(tmp_path, seed=1)) == old
    new = import_weights("toy-file", checkpoint(tmp_path, seed=2))
    assert store.find("toy-file") == new
    assert contents(home) == [new.path.name, "toy-file.json"]


@pytest.mark.parametrize("wrong", ["another model", "truncated", "garbage", "nan", "folder", "absent"])
def test_a_bad_file_does_not_get_in_and_destroys_nothing(wrong: str, home: Path, tmp_path: Path) -> None:
    kept = import_weights("toy-file", checkpoint(tmp_path))
    bad = tmp_path / "bad.pt"
    if wrong == "another model":
        torch.save({"weight": torch.ones(2)}, bad)
    elif wrong == "truncated":
        bad.write_bytes(checkpoint(tmp_path, 3).read_bytes()[:-500])
    elif wrong == "garbage":
        bad.write_bytes(b"hello")
    elif wrong == "nan":
        torch.save({**synthetic_state(), "1.bias": torch.full((16,), torch.nan)}, bad)
    elif wrong == "folder":
        bad.mkdir()
    with pytest.raises(InputError, match=r"bad\.pt|toy\.pt"):
        import_weights("toy-file", bad)
    assert store.find("toy-file") == kept
    assert contents(home) == [kept.path.name, "toy-file.json"]


def test_a_wrong_file_leaves_nothing_behind(home: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.pt"
    bad.write_bytes(b"hello")
    with pytest.raises(WeightsError):
        import_weights("toy-file", bad)
    assert contents(home) == []


def test_a_known_sha256_is_insisted_on(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right, wrong = checkpoint(tmp_path, 1, "right.pt"), checkpoint(tmp_path, 2, "wrong.pt")
    monkeypatch.setitem(CATALOGUE, "toy-file", replace(WEIGHT, sha256=sha256(right)))
    with pytest.raises(
        WeightsError, match=rf"wrong\.pt: sha256 {sha256(wrong)}, the authors' file has {sha256(right)}"
    ):
        import_weights("toy-file", wrong)
    assert import_weights("toy-file", right).sha256 == sha256(right)


def test_an_unwritable_folder(tmp_path: Path, home: Path) -> None:
    home.write_text("a file where the folder should be")
    with pytest.raises(InputError, match=r"cannot write to the weights folder .*DUALSHIELD_WEIGHTS"):
        import_weights("toy-file", checkpoint(tmp_path))


# -- what is stored and then changes ---------------------------------------------------------------


def flip_a_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda stored: flip_a_byte(stored.path), "has changed since it was imported"),
        (lambda stored: stored.path.unlink(), "cannot read"),
        (lambda stored: stored.path.with_name("toy-file.json").write_text("{"), r"toy-file\.json cannot be read"),
        (lambda stored: stored.path.with_name("toy-file.json").write_text("[]"), r"toy-file\.json cannot be read"),
        (
            lambda stored: stored.path.with_name("toy-file.json").write_text('{"file": "../../x", "sha256": "0"}'),
            r"toy-file\.json cannot be read",
        ),
    ],
)
def test_damage_is_found_and_can_be_repaired(damage: object, said: str, home: Path, tmp_path: Path) -> None:
    stored = import_weights("toy-file", checkpoint(tmp_path))
    (before,) = store.verify()
    assert (before.problem, before.stored) == (None, stored)
    damage(stored)  # type: ignore[operator]
    with pytest.raises(MissingWeightsError, match=said) as caught:
        get_hash("toy")
    assert "dualshield weights import toy-file FILE" in str(caught.value)
    (after,) = store.verify()
    assert after.problem == str(caught.value)
    import_weights("toy-file", checkpoint(tmp_path))
    assert get_hash("toy").weights == {"toy.pt": stored.sha256}


def test_states_cover_the_catalogue(home: Path, tmp_path: Path) -> None:
    assert [state.weight.name for state in store.states()] == list(CATALOGUE)
    assert all(state.stored is None for state in store.states())
    assert store.verify() == []
    import_weights("toy-file", checkpoint(tmp_path))
    assert [state.weight.name for state in store.states() if state.stored is not None] == ["toy-file"]


# -- downloads -------------------------------------------------------------------------------------


class Authors(http.server.BaseHTTPRequestHandler):
    """Answers by path; every way a download goes wrong has one."""

    data = b""

    def do_GET(self) -> None:
        if self.path == "/moved.pt":
            self.send_response(302)
            self.send_header("Location", "/toy.pt")
            self.end_headers()
            return
        if self.path == "/absent.pt":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html" if self.path == "/page" else "application/octet-stream")
        claimed = {"/short.pt": len(self.data) + 10, "/huge.pt": 10**9}.get(self.path, len(self.data))
        if self.path != "/endless.pt":
            self.send_header("Content-Length", str(claimed))
        self.end_headers()
        self.wfile.write(bytes(3_000_000) if self.path == "/endless.pt" else self.data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def authors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(Authors, "data", checkpoint(tmp_path, seed=5).read_bytes())
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = http.server.HTTPServer(("127.0.0.1", 0), Authors)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def published(monkeypatch: pytest.MonkeyPatch, address: str | None) -> WeightFile:
    weight = replace(WEIGHT, address=address)
    monkeypatch.setitem(CATALOGUE, "toy-file", weight)
    return weight


@pytest.mark.parametrize("path", ["/toy.pt", "/moved.pt"])
def test_fetch(path: str, home: Path, authors: str, monkeypatch: pytest.MonkeyPatch) -> None:
    published(monkeypatch, authors + path)
    seen: list[tuple[int, int | None]] = []
    stored = fetch_weights("toy-file", lambda done, total: seen.append((done, total)))
    assert stored.path.read_bytes() == Authors.data
    assert seen[-1] == (len(Authors.data), len(Authors.data))
    assert torch.equal(get_hash("toy").network.state_dict()["1.weight"], synthetic_state(5)["1.weight"])


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/absent.pt", "answers 404"),
        ("/page", "a web page; open it in a browser"),
        ("/short.pt", "interrupted after"),
        ("/huge.pt", "1000000000 bytes, expected at most 2000000"),
        ("/endless.pt", "more than the expected 2000000 bytes"),
    ],
)
def test_a_failed_fetch_says_what_to_do_by_hand(
    path: str, said: str, home: Path, authors: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = import_weights("toy-file", checkpoint(tmp_path))
    weight = published(monkeypatch, authors + path)
    with pytest.raises(MissingWeightsError, match=said) as caught:
        fetch_weights("toy-file")
    assert str(caught.value).endswith(weight.how_to_get)
    assert contents(home) == [kept.path.name, "toy-file.json"]


def test_what_is_fetched_must_be_the_model(home: Path, authors: str, monkeypatch: pytest.MonkeyPatch) -> None:
    published(monkeypatch, authors + "/toy.pt")
    monkeypatch.setattr(Authors, "data", b"not a checkpoint")
    with pytest.raises(WeightsError, match=r"toy\.pt"):
        fetch_weights("toy-file")
    assert contents(home) == []


def test_fetch_without_internet(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weight = published(monkeypatch, "http://127.0.0.1:9/toy.pt")
    with pytest.raises(MissingWeightsError, match=r"cannot reach 127\.0\.0\.1:9") as caught:
        fetch_weights("toy-file")
    assert caught.value.exit_code == ExitCode.MISSING
    assert weight.how_to_get in str(caught.value)


def test_fetch_what_nobody_publishes(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published(monkeypatch, None)
    with pytest.raises(MissingWeightsError, match=r"not published; get toy\.pt from its authors"):
        fetch_weights("toy-file")


def test_encryption_is_not_given_up_on_the_way() -> None:
    from urllib.request import Request

    from dualshield.weights.download import DownloadError, _NoDowngrade

    with pytest.raises(DownloadError, match=r"example\.org redirects to an address without encryption"):
        _NoDowngrade().redirect_request(
            Request("https://example.org/a"), BytesIO(), 302, "Found", {}, "http://example.org/b"
        )


def test_the_toy_is_a_hash(home: Path, tmp_path: Path) -> None:
    import_weights("toy-file", checkpoint(tmp_path))
    assert toy_weights.load().code(torch.rand(3, 512, 512)).shape == (16,)
