"""The journal: begun with the first record, read with suspicion, and never written into anything but a file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from dualshield._common import journal as module
from dualshield._common.journal import Journal
from dualshield.errors import InputError

SETTINGS = {"hash": "pdq", "seed": 5}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def test_what_was_appended_is_read_again(file: Path) -> None:
    first = Journal(file, SETTINGS)
    for record in ({"key": 1}, [2, 3]):
        first.append(record)
    second = Journal(file, SETTINGS)
    second.append({"key": 4})
    assert list(second.records()) == [{"key": 1}, [2, 3]]
    assert list(Journal(file, SETTINGS).records()) == [{"key": 1}, [2, 3], {"key": 4}]


def test_a_run_that_finishes_nothing_leaves_nothing_and_blocks_nobody(file: Path) -> None:
    Journal(file, SETTINGS)
    assert not file.exists()
    Journal(file, {"hash": "other"}).append({"key": 1})
    assert list(Journal(file, {"hash": "other"}).records()) == [{"key": 1}]


@pytest.mark.parametrize("content", ["", "{}\n", '{"hash": "pdq"', "\0\0"])
def test_a_file_of_something_else_is_refused_by_name_and_kept(content: str, file: Path) -> None:
    file.write_text(content)
    with pytest.raises(InputError, match=f"{file} belongs to .* other settings; remove it, or choose another journal"):
        Journal(file, SETTINGS)
    assert file.read_text() == content


def test_a_journal_that_another_run_began_meanwhile_is_not_mixed_with(file: Path) -> None:
    first, second, third = (Journal(file, settings) for settings in (SETTINGS, SETTINGS, {"hash": "other"}))
    first.append({"key": 1})
    second.append({"key": 2})  # the same settings: their work adds up
    with pytest.raises(InputError, match="other settings"):
        third.append({"key": 3})
    assert list(Journal(file, SETTINGS).records()) == [{"key": 1}, {"key": 2}]


def test_a_journal_that_was_removed_meanwhile_is_begun_again(file: Path) -> None:
    journal = Journal(file, SETTINGS)
    journal.append({"key": 1})
    file.unlink()
    journal.append({"key": 2})
    assert list(Journal(file, SETTINGS).records()) == [{"key": 2}]


def test_lines_that_are_no_whole_record_are_passed_over(file: Path) -> None:
    journal = Journal(file, SETTINGS)
    journal.append({"key": 1})
    with file.open("a") as opened:
        opened.write('{"key": 2, "res\n12\nnull\n"text"\n' + "[" * 100_000 + "\n\0\n" + '{"key": 3, "resu')
    journal.append({"key": 4})
    assert list(Journal(file, SETTINGS).records()) == [{"key": 1}, {"key": 4}]


@pytest.mark.parametrize("device", ["/dev/full", "/dev/zero", "/dev/null"])
def test_devices_are_refused_also_behind_links(device: str, file: Path) -> None:
    file.symlink_to(device)
    for path in (Path(device), file):
        with pytest.raises(InputError, match=r"cannot use the journal: .* is not a regular file"):
            Journal(path, SETTINGS)


def test_pipes_and_folders_are_refused_without_waiting(file: Path, tmp_path: Path) -> None:
    os.mkfifo(file)
    for path in (file, tmp_path):
        with pytest.raises(InputError, match=r"cannot use the journal: .* is not a regular file"):
            Journal(path, SETTINGS)


@pytest.mark.parametrize("begun", [False, True])
def test_what_took_the_place_of_the_file_is_not_written_into(begun: bool, file: Path, tmp_path: Path) -> None:
    journal = Journal(file, SETTINGS)
    if begun:
        journal.append({"key": 1})
        file.unlink()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # with a reader, a writer would get through
    try:
        for target in (pipe, Path("/dev/null")):
            file.unlink(missing_ok=True)
            file.symlink_to(target)
            with pytest.raises(InputError, match="not a regular file"):
                journal.append({"key": 2})
        assert os.read(reader, 1) == b""
    finally:
        os.close(reader)


def test_a_link_to_a_journal_is_that_journal_and_one_to_nothing_is_refused(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(file)
    with pytest.raises(InputError, match="link: no such file"):
        Journal(link, SETTINGS)
    Journal(file, SETTINGS).append({"key": 1})
    Journal(link, SETTINGS).append({"key": 2})
    assert link.is_symlink()
    assert list(Journal(file, SETTINGS).records()) == [{"key": 1}, {"key": 2}]


def test_a_journal_that_is_too_large_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 100)
    file.write_text(json.dumps(SETTINGS, sort_keys=True) + "\n" * 100)
    with pytest.raises(InputError, match=r"cannot use the journal: .*limit of 100 bytes"):
        Journal(file, SETTINGS)


def test_a_journal_that_could_not_be_written_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for name in ("gone/journal", "file/journal", "long" * 100, "nul\0byte"):
        with pytest.raises(InputError, match="cannot use the journal"):
            Journal(tmp_path / name, SETTINGS)
