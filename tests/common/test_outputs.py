"""What may be written: regular files, no inputs, and nothing that exists unless that was allowed."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from dualshield._common.outputs import Outputs, check_output
from dualshield.cli.options import outputs_of
from dualshield.errors import InputError


def test_a_new_file_may_be_written(tmp_path: Path) -> None:
    check_output(tmp_path / "new")
    Outputs((tmp_path / "input",)).write(tmp_path / "new", b"data")
    assert (tmp_path / "new").read_bytes() == b"data"


def test_an_existing_file_needs_leave(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old")
    with pytest.raises(InputError, match=r"file exists already; allow overwriting, or choose another name$"):
        check_output(file)
    with pytest.raises(InputError, match=r"file exists already; use --overwrite, or choose another name$"):
        outputs_of([], overwrite=False).write(file, b"new")
    assert file.read_bytes() == b"old"
    outputs_of([], overwrite=True).write(file, b"new")
    assert file.read_bytes() == b"new"


def test_an_input_is_never_written_under_whatever_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "input"
    file.write_bytes(b"precious")
    (tmp_path / "soft").symlink_to(file)
    (tmp_path / "hard").hardlink_to(file)
    (tmp_path / "folder").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    outputs = outputs_of([None, "code:00", file], overwrite=True)
    for name in ("input", "./input", "soft", "hard", "folder/input", "folder/soft"):
        with pytest.raises(InputError, match=f"cannot write .*: it is the same file as the input {file}; choose"):
            outputs.write(Path(name), b"data")
    assert file.read_bytes() == b"precious"


def test_an_input_may_be_a_link_to_the_output(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_bytes(b"precious")
    link.symlink_to(file)
    with pytest.raises(InputError, match="the same file as the input"):
        check_output(file, overwrite=True, inputs=[link])


def test_an_input_that_is_missing_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the same file as the input"):
        check_output(tmp_path / "missing", inputs=[tmp_path / "missing"])


@pytest.mark.parametrize("overwrite", [False, True])
def test_only_regular_files_are_written(overwrite: bool, tmp_path: Path) -> None:
    pipe, device, link = tmp_path / "pipe", tmp_path / "device", tmp_path / "link"
    os.mkfifo(pipe)
    device.symlink_to("/dev/null")
    link.symlink_to(pipe)
    nodes = [pipe, device, link]
    if os.geteuid() == 0:
        nodes.append(tmp_path / "node")
        os.mknod(nodes[-1], stat.S_IFCHR | 0o600, os.makedev(1, 3))
    for node in nodes:
        with pytest.raises(InputError, match=f"cannot write {node}: it is not a regular file; choose another name"):
            Outputs((), overwrite).write(node, b"data")
    assert pipe.is_fifo()
    assert all(node.is_char_device() for node in (device, *nodes[3:]))
    assert sorted(tmp_path.iterdir()) == sorted(nodes)


def test_a_link_to_nothing_yet_is_followed(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "file")
    Outputs(()).write(link, b"data")
    assert link.is_symlink()
    assert (tmp_path / "file").read_bytes() == b"data"
    with pytest.raises(InputError, match="link exists already"):
        check_output(link)


def test_places_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "astray").symlink_to(tmp_path / "gone" / "file")
    for name, why in (
        ("", "it is a folder; give the name of a file"),
        ("gone/file", "the folder .*gone does not exist"),
        ("astray", "the folder .*gone does not exist"),
        ("file/below", "Not a directory"),
        ("loop", "symbolic links"),
        ("a" * 300, "File name too long"),
        ("nul\0byte", "null byte"),
    ):
        with pytest.raises(InputError, match=f"cannot write .*: .*{why}"):
            check_output(tmp_path / name, overwrite=True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_rights(tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    with pytest.raises(InputError, match="no permission to write into"):
        check_output(locked / "file")


def test_two_outputs_are_two_files(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    outputs = Outputs((), overwrite=True)
    outputs.check(tmp_path / "file", None, tmp_path / "other", None)
    for other in ("file", "link"):
        with pytest.raises(InputError, match="two outputs are the same file; choose another name"):
            outputs.check(tmp_path / "file", tmp_path / other)
