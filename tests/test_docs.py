"""What the documents show works as it is printed there."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import dualshield
from dualshield.hashes import PerceptualHash
from dualshield.testing import HashContract

ROOT = Path(__file__).parent.parent


def python_blocks(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(encoding="utf-8"), re.DOTALL)


def test_the_library_examples_of_the_readme(
    photo_files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(photo_files[0], tmp_path / "reference.png")
    shutil.copy(photo_files[0], tmp_path / "upload.jpg")
    monkeypatch.chdir(tmp_path)
    one_line, deployed = python_blocks("README.md")
    exec(one_line, {})
    decision, radius = capsys.readouterr().out.split()
    assert decision == "match"
    assert float(radius) > 10
    exec(deployed, {})
    decision, certified, detected, fingerprint = capsys.readouterr().out.split()
    assert decision == "match"
    assert float(certified) > float(detected) > 2
    assert dualshield.Reference.load("reference.dsref").fingerprint == fingerprint


class TestTheHashOfContributing(HashContract):
    def load(self) -> PerceptualHash:
        names: dict[str, Any] = {}
        exec(python_blocks("CONTRIBUTING.md")[0], names)
        hash_: PerceptualHash = names["load"]()
        return hash_


def test_the_architecture_names_every_room() -> None:
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rooms = [path.name for path in (ROOT / "src" / "dualshield").iterdir() if (path / "__init__.py").exists()]
    assert rooms
    for room in rooms:
        assert f"`{room}/`" in text, f"docs/ARCHITECTURE.md does not know {room}/"


def test_the_public_surface_is_complete_and_sorted() -> None:
    assert all(hasattr(dualshield, name) for name in dualshield.__all__)
    assert len(set(dualshield.__all__)) == len(dualshield.__all__)


def test_no_torchvision_is_needed() -> None:
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert "torchvision" not in constraints
    assert "torch==2.13.0" in constraints.splitlines()


def test_errors_of_the_library_do_not_speak_of_command_line_flags() -> None:
    """Whoever calls a function has no flags; messages with a whole command to run are another matter."""
    flag = re.compile(r'"[^"\n]*(?<![\w-])(?:use|choose|give|leave|with|and|or|another) (?:another )?--[a-z]')
    for file in sorted((ROOT / "src" / "dualshield").rglob("*.py")):
        if "cli" not in file.parts:
            found = [line.strip() for line in file.read_text(encoding="utf-8").splitlines() if flag.search(line)]
            assert not found, f"{file.name}: {found}"


def test_statistics_are_free_of_torch() -> None:
    """So that they can be tested exactly, and read by whoever checks them."""
    program = (
        "import sys; import dualshield.smoothing.statistics, dualshield.smoothing.sequential, "
        "dualshield.smoothing.detection; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
