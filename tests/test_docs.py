"""What the documents show works as it is printed there."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import dualshield
from dualshield.hashes import PerceptualHash
from dualshield.testing import HashContract

ROOT = Path(__file__).parent.parent


def python_blocks(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(encoding="utf-8"), re.DOTALL)


def test_the_library_example_of_the_readme(
    photo_files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(photo_files[0], tmp_path / "reference.png")
    shutil.copy(photo_files[0], tmp_path / "upload.jpg")
    monkeypatch.chdir(tmp_path)
    (example,) = python_blocks("README.md")
    exec(example, {})
    decision, radius = capsys.readouterr().out.split()
    assert decision == "match"
    assert float(radius) > 10


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
