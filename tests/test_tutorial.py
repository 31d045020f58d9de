"""The tutorial and the notebook, from the first line to the last."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools import cli_reference, run_notebook

ROOT = Path(__file__).parent.parent
NOTEBOOK = ROOT / "examples" / "tour.ipynb"


def test_the_tutorial(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    printed = cli_reference.with_output(text, tmp_path)
    assert cli_reference.same(printed) == cli_reference.same(text), "run: python -m tools.cli_reference"
    answers = cli_reference.CONSOLE.findall(text)[-1].splitlines()[1:]
    assert [line.split(",")[0] for line in answers] == [
        "attacked.png: chelsea.png",
        "edited.jpg: coffee.png",
        "unrelated.png: nothing",
    ]
    assert len(list((tmp_path / "published").glob("*.dsref"))) == 3


def test_every_script_of_the_tutorial_is_used() -> None:
    text = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    scripts = [name for name, _ in cli_reference.SCRIPT.findall(text)]
    assert len(scripts) == text.count("```python\n") == 3
    assert all(f"$ python {name}\n" in text for name in scripts)


def test_the_notebook_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names = run_notebook.run(NOTEBOOK)
    assert names["same"].decision == "match"
    assert names["other"].decision == "no_match"
    assert names["plain"].success
    assert not names["both"].success
    assert names["decisions"] == {"jpeg_60": "match", "darker": "match", "blurred": "match", "cropped": "match"}
    assert "certified radius" in capsys.readouterr().out


def test_the_notebook_is_kept_without_output() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert all(not cell.get("outputs") and cell.get("execution_count") is None for cell in cells)
