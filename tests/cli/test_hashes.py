"""``dualshield hashes``."""

from __future__ import annotations

import pytest

from dualshield.hashes import hash_names
from tests.helpers.command_line import json_lines, run


def test_json_describes_every_hash(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("hashes", "--json") == 0
    rows = json_lines(capsys)
    assert [row["hash"] for row in rows] == hash_names()
    pdq = rows[0]
    assert pdq["ready"] is True
    assert (pdq["bits"], pdq["input"], pdq["threshold"]) == (256, "1x16x16", 0.2)


def test_text_has_a_row_per_hash(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("hashes") == 0
    out, err = capsys.readouterr()
    assert err == ""
    rows = {words[1]: words for line in out.splitlines() if len(words := line.split()) > 2}
    assert set(hash_names()) <= set(rows)
    assert "ready" in rows["pdq"]
    assert "256" in rows["pdq"]


@pytest.mark.usefixtures("no_neuralhash")
def test_a_missing_hash_is_listed_with_what_to_install(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("hashes", "--json") == 0
    rows = {row["hash"]: row for row in json_lines(capsys)}
    assert rows["pdq"]["ready"] is True
    assert rows["neuralhash"]["ready"] is False
    assert "pip install 'dualshield[neuralhash]'" in rows["neuralhash"]["detail"]
    assert "bits" not in rows["neuralhash"]
    assert run("hashes") == 0
    out = capsys.readouterr().out
    assert "missing" in next(line for line in out.splitlines() if "neuralhash" in line)
    assert "'dualshield[neuralhash]'" in out


def test_hashes_without_weights_say_which_and_how(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("hashes") == 0
    out = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "sscd needs weights sscd or sscd-torchscript or sscd-classy: 'dualshield weights list' says where" in out
    assert "c-pdq needs weights c-pdq: 'dualshield weights list' says where" in out
    assert run("hashes", "--json") == 0
    rows = {row["hash"]: row for row in json_lines(capsys)}
    assert rows["c-pdq"]["state"] == "needs weights"
    assert "https://drive.google.com" in rows["c-pdq"]["detail"]
    assert "dualshield weights import sscd FILE" in rows["sscd"]["detail"]
