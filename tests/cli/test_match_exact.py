"""``dualshield match`` with an exact matcher, which is the default for PDQ."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from tests.helpers.command_line import complaint, run


def answer(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, object]:
    assert run("match", *arguments, "--json") == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_the_fields_of_an_exact_answer(photo_files: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, photo_files[0], photo_files[0], "--hash", "pdq")
    assert (found["method"], found["alpha"], found["draws"], found["decision"]) == ("exact", 0, 0, "match")
    assert found["soft_distance"] < found["threshold"]  # type: ignore[operator]
    assert found["radius"] > 3  # type: ignore[operator]
    assert found["noise_source"] is None


def test_votes_on_request(photo_files: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    for option in (("--method", "votes"), ("--matcher", "votes"), ("--n", 200)):
        found = answer(capsys, photo_files[0], photo_files[0], "--hash", "pdq", "--n0", 20, "--n", 200, *option)
        assert (found["method"], found["soft_distance"]) == ("votes", None)
    assert run("match", photo_files[0], photo_files[0], "--hash", "pdq", "--method", "exact", "--n", 200) == 2
    assert "belongs to votes" in complaint(capsys)


def test_the_words_of_a_match_and_of_a_non_match(photo_files: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("match", photo_files[0], photo_files[0], "--hash", "pdq") == 0
    text = capsys.readouterr().out
    assert text.startswith("MATCH")
    assert "at most the threshold" in text
    assert "any shorter change is still answered MATCH: proven, not sampled" in text
    assert "nothing has to be secret or random" in text
    assert "alpha" not in text
    assert "votes" not in text
    assert run("match", photo_files[0], photo_files[1], "--hash", "pdq", "--fail-on-no-match") == 1
    text = capsys.readouterr().out
    assert text.startswith("NO MATCH")
    assert "above the threshold" in text
    assert "any shorter change is still answered NO MATCH" in text


def test_a_flat_reference_is_refused_and_a_flat_query_explained(
    photo_files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    black = tmp_path / "black.png"
    Image.new("RGB", (64, 64)).save(black)
    assert run("match", black, black, "--hash", "pdq") == 2
    said = complaint(capsys)
    assert "black.png" in said
    assert "too little structure to be protected" in said
    assert run("match", photo_files[0], black, "--hash", "pdq") == 0
    text = capsys.readouterr().out
    assert text.startswith("NO MATCH")
    assert "no structure" in text


def test_a_bare_code_and_a_saved_reference(
    photo_files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("hash", photo_files[0], "--hash", "pdq") == 0
    code = capsys.readouterr().out.split()[0]
    found = answer(capsys, f"code:{code}", photo_files[0], "--hash", "pdq")
    assert (found["decision"], found["method"]) == ("match", "exact")
    kept = tmp_path / "photo.dsref"
    first = answer(capsys, photo_files[0], photo_files[0], "--hash", "pdq", "--save-reference", kept)
    second = answer(capsys, kept, photo_files[0])
    assert first["radius"] == second["radius"]
    assert run("match", "code:" + "0" * 64, photo_files[0], "--hash", "pdq") == 2
    assert "all zeros" in complaint(capsys)


def test_an_exact_match_starts_without_torch(photo_files: list[Path]) -> None:
    program = (
        "import sys\n"
        "from dualshield.cli.main import main\n"
        "try:\n"
        "    main(sys.argv[1:])\n"
        "except SystemExit as stop:\n"
        "    assert stop.code in (0, None), stop.code\n"
        "heavy = {'torch', 'openvino', 'matplotlib', 'scipy.stats', 'rich', 'cryptography'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    command = ["match", str(photo_files[0]), str(photo_files[1]), "--hash", "pdq", "--threads", "1"]
    subprocess.run([sys.executable, "-c", program, *command], check=True, capture_output=True, timeout=60)
