"""docs/cli.md is what the commands say of themselves, and pages show what the program prints."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from dualshield.cli.main import cli
from tools import cli_reference

AGAIN = "; run: python -m tools.cli_reference"


def test_the_reference_is_up_to_date() -> None:
    assert cli_reference.PAGE.read_text(encoding="utf-8") == cli_reference.reference(), f"docs/cli.md is old{AGAIN}"


def test_every_command_and_option_is_in_it() -> None:
    page = cli_reference.PAGE.read_text(encoding="utf-8")
    found = list(cli_reference.commands(cli, "dualshield"))
    assert len(found) > 15
    for name, command, _ in found:
        part = re.split(rf"^#+ {name}$", page, flags=re.MULTILINE)
        assert len(part) == 2, name
        text = re.split(r"^#+ dualshield", part[1], flags=re.MULTILINE)[0]
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert all(spelling in text for spelling in parameter.opts), f"{name} {parameter.opts}"


def test_the_reference_does_not_depend_on_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    before = cli_reference.reference()
    monkeypatch.setenv("DUALSHIELD_HASH", "neuralhash")
    monkeypatch.setenv("COLUMNS", "40")
    assert cli_reference.reference() == before


# The tutorial has a test of its own.
SHOWN = [page for page in cli_reference.pages() if page.name != "tutorial.md"]


@pytest.mark.parametrize("page", SHOWN, ids=[page.name for page in SHOWN])
def test_pages_show_what_the_program_prints(page: Path, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert cli_reference.same(cli_reference.with_output(text, tmp_path)) == cli_reference.same(text), (
        f"{page.name} shows other output{AGAIN}"
    )


def test_the_readme_and_the_tasks_show_output() -> None:
    names = {page.name for page in cli_reference.pages()}
    assert names >= {"README.md", "tutorial.md", "certificate.md", "harden.md", "protect.md"}


def test_only_what_differs_from_run_to_run_is_masked() -> None:
    assert cli_reference.same("3.0 s, and 0.2 s to certify, sigma 1") == "T s, and T s to certify, sigma 1"
    assert cli_reference.same("votes 0.121 -> 0.092, threshold 0.2") == "votes V -> V, threshold 0.2"
    assert cli_reference.same("votes 5000 of 5000, radius 2.9931") == "votes 5000 of 5000, radius 2.9931"
