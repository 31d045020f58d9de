"""Data flows one way: no room imports a later one, nothing is imported in a circle, private modules stay at home."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import dualshield

PACKAGE = Path(dualshield.__file__).parent
ROOT = PACKAGE.parents[1]
# In the order of the data. A room may use those before it.
ROOMS = (
    "_version",
    "errors",
    "_common",
    "images",
    "transforms",
    "weights",
    "hashes",
    "engines",
    "smoothing",
    "hardening",
    "attacks",
    "verification",
    "calibration",
    "evaluation",
    "testing",
    "cli",
    "__main__",
)


def name_of(file: Path) -> str:
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(file): file for file in PACKAGE.rglob("*.py")}


def imported(module: str) -> Iterator[str]:
    """The modules of this package that a module imports anywhere, inside functions too."""
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            assert not node.level, f"{module} has a relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in MODULES else node.module


GRAPH = {module: set(imported(module)) - {module} for module in MODULES}


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def test_every_room_has_its_place() -> None:
    assert {room(module) for module in MODULES} - {""} == set(ROOMS)


@pytest.mark.parametrize("module", sorted(MODULES.keys() - {"dualshield"}))
def test_no_module_reaches_back(module: str) -> None:
    place = ROOMS.index(room(module))
    later = [other for other in GRAPH[module] if other == "dualshield" or ROOMS.index(room(other)) > place]
    assert not later, f"{module} imports {', '.join(sorted(later))}, which comes after it"


def test_no_module_imports_itself_by_a_detour() -> None:
    try:
        TopologicalSorter(GRAPH).prepare()
    except CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


def test_a_cycle_would_be_found() -> None:
    with pytest.raises(CycleError):
        TopologicalSorter({**GRAPH, "dualshield.errors": {"dualshield.cli.main"}}).prepare()


def test_private_modules_are_imported_in_their_own_room_only() -> None:
    for module, used in GRAPH.items():
        for other in used:
            package, _, last = other.rpartition(".")
            if last.startswith("_") and package != "dualshield":
                assert module.startswith(package), f"{module} imports the private module {other}"


def test_the_architecture_page_names_every_room_and_no_file_that_does_not_exist() -> None:
    page = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    for name in ROOMS:
        if (PACKAGE / name).is_dir():
            assert f"`{name}/`" in page, f"docs/ARCHITECTURE.md does not know {name}/"
    for path in re.findall(r"`([\w./-]+(?:/|\.py|\.md|\.json|\.toml))`", page):
        places = (PACKAGE, ROOT, ROOT / "docs")
        assert any((place / path).exists() for place in places), (
            f"docs/ARCHITECTURE.md names {path}, which is not there"
        )
    lines = page.splitlines()
    assert len(lines) <= 80, "one page"
