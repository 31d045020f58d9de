"""What the documents show works as it is printed there."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import dualshield
import dualshield.errors
import dualshield.testing
from dualshield.cli.main import cli
from dualshield.hashes import PerceptualHash
from dualshield.testing import HashContract
from tools.cli_reference import commands

ROOT = Path(__file__).parent.parent


def python_blocks(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("page", ["README.md", "docs/tasks/protect.md"])
def test_the_library_examples(
    page: str,
    photo_files: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copy(photo_files[0], tmp_path / "reference.png")
    shutil.copy(photo_files[0], tmp_path / "upload.jpg")
    monkeypatch.chdir(tmp_path)
    (block,) = python_blocks(page)
    exec(block, {})
    decision, certified, detected, *fingerprint = capsys.readouterr().out.split()
    assert decision == "match"
    assert float(certified) == float(detected) > 2  # PDQ is exact
    if fingerprint:
        assert dualshield.Reference.load("reference.dsref").fingerprint == fingerprint[0]


@pytest.mark.parametrize("page", ["docs/tasks/harden.md", "docs/tasks/redteam.md"])
def test_the_library_examples_of_tasks(
    page: str,
    photo_files: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copy(next(file for file in photo_files if file.name == "coffee.png"), tmp_path)
    monkeypatch.chdir(tmp_path)
    (block,) = python_blocks(page)
    exec(block, {})
    first = capsys.readouterr().out.split()[0]
    assert first == "True" if page.endswith("redteam.md") else float(first) > 0.97


def test_the_readme_is_short() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.split()) < 600
    assert text.index("pip install") < text.index("## Results")
    assert (ROOT / "docs" / "images" / "shields.png").stat().st_size < 300_000


def test_links_between_pages_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    for page in pages:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


def test_pages_name_files_that_exist() -> None:
    places = (ROOT, ROOT / "src" / "dualshield", ROOT / "docs", ROOT / "examples")
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "tasks").glob("*.md")]
    for page in pages:
        for name in re.findall(r"`([\w./-]+/[\w./-]+\.(?:py|md|json|toml))`", page.read_text(encoding="utf-8")):
            assert any((place / name).exists() for place in places), f"{page.relative_to(ROOT)} names {name}"


def test_the_library_page_has_every_public_name() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    shown = re.findall(r"^::: ([\w.]+)$", page, re.MULTILINE)
    objects: list[Any] = []
    for path in shown:
        module, _, name = path.rpartition(".")
        objects.append(importlib.import_module(path) if path == "dualshield.errors" else _named(module, name))
    names = {path.rpartition(".")[2] for path in shown} | set(vars(dualshield.errors)) | {"attacks", "transforms"}
    packages = (dualshield, dualshield.attacks, dualshield.transforms, dualshield.testing)
    for package in packages:
        missing = [name for name in package.__all__ if name not in names]
        assert not missing, f"docs/api.md does not have {missing}"


def _named(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def test_commands_in_the_pages_exist() -> None:
    """Every option that a page shows after ``dualshield COMMAND`` is one of that command."""
    known = {name.removeprefix("dualshield "): command for name, command, _ in commands(cli, "dualshield")}
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "tasks").glob("*.md")]:
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        for line in re.findall(r"^(?:\$ )?dualshield (.*)$", text, re.MULTILINE) if page.name != "cli.md" else []:
            words = line.split("#")[0].split()
            name = " ".join(words[:2]) if words[0] == "weights" else words[0]
            assert name in known, f"{page.name}: dualshield {line}"
            spellings = {spelling for parameter in known[name].params for spelling in parameter.opts}
            unknown = [word for word in words if re.match(r"--?[a-z]", word) and word not in spellings]
            assert not unknown, f"{page.name}: dualshield {line}"


def test_the_site_builds_and_loads_nothing_from_the_net(tmp_path: Path) -> None:
    pytest.importorskip("material")
    pytest.importorskip("mkdocstrings")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        html = page.read_text(encoding="utf-8")
        for tag in re.findall(r"<(?:script|link|img|iframe|source|video|object|embed)\b[^>]*>", html):
            assert not re.search(r"""(?:src|href|data)=["']?(?:https?:)?//""", tag), f"{page.name}: {tag}"
        # What the theme's own script would fetch.
        assert 'class="mermaid"' not in html
        assert "data-md-component=source" not in html.replace('"', "")


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
