"""Files: read only where they are what they should be, written as a whole or not at all."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from dualshield._common.files import read_limited, write_atomically
from dualshield.errors import InputError, UnusableReferenceError

LIMIT = 10
OPEN_FILES = Path("/proc/self/fd")


@pytest.mark.parametrize("size", [0, 1, LIMIT])
def test_a_file_within_the_limit_is_read_as_a_whole(size: int, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(range(size)))
    assert read_limited(file, LIMIT) == bytes(range(size))


def test_one_byte_more_is_too_much(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(LIMIT + 1))
    with pytest.raises(InputError, match="file is larger than the limit of 10 bytes"):
        read_limited(file, LIMIT)


def test_a_large_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    file = tmp_path / "file"
    with file.open("wb") as opened:
        opened.truncate(2**42)  # all holes: it takes no room, and its contents would take four terabytes
    with pytest.raises(InputError, match="limit of 1,000,000 bytes"):
        read_limited(file, 1_000_000)


def test_a_link_is_what_it_leads_to(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    link.symlink_to(file)
    with pytest.raises(InputError, match="link: no such file"):
        read_limited(link, LIMIT)
    file.write_bytes(b"here")
    assert read_limited(link, LIMIT) == b"here"
    file.unlink()
    file.symlink_to("/dev/zero")
    with pytest.raises(InputError, match="link is not a regular file"):
        read_limited(link, LIMIT)
    file.unlink()
    file.symlink_to(link)
    with pytest.raises(InputError, match="link cannot be read"):
        read_limited(link, LIMIT)


def test_pipes_are_refused_without_waiting_for_them(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="pipe is not a regular file; give a regular file"):
        read_limited(pipe, LIMIT)


def test_a_pipe_that_somebody_writes_into_is_refused_too(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = os.open(pipe, os.O_RDWR)  # as if somebody held the other end
    try:
        os.write(writer, b"12345")
        with pytest.raises(InputError, match="pipe is not a regular file"):
            read_limited(pipe, LIMIT)
    finally:
        os.close(writer)


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/full", "/dev/tty"])
def test_devices_are_refused(device: str) -> None:
    if not Path(device).exists():
        pytest.skip(f"this machine has no {device}")
    with pytest.raises(InputError, match=f"{device} "):
        read_limited(Path(device), LIMIT)


def test_standard_input_is_refused_without_waiting_for_it() -> None:
    script = "import pathlib; from dualshield._common.files import read_limited as r; r(pathlib.Path('/dev/stdin'), 10)"
    reading, writing = os.pipe()
    try:
        found = subprocess.run(
            [sys.executable, "-c", script], stdin=reading, capture_output=True, text=True, timeout=60, check=False
        )
    finally:
        os.close(reading)
        os.close(writing)
    assert "/dev/stdin is not a regular file" in found.stderr


def test_folders_and_impossible_names_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"in the way")
    for name, why in (
        ("", "is not a regular file"),
        ("gone", "gone: no such file; check the path"),
        ("gone/too", "no such file"),
        ("file/below", "cannot be read: Not a directory"),
        ("a" * 300, "cannot be read: File name too long"),
        ("nul\0byte", "cannot be read: embedded null byte"),
    ):
        with pytest.raises(InputError, match=why):
            read_limited(tmp_path / name, LIMIT)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_rights(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"secret")
    file.chmod(0)
    with pytest.raises(InputError, match="cannot be read: Permission denied; check permissions"):
        read_limited(file, LIMIT)


def test_the_kind_of_error_is_the_callers(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(LIMIT + 1))
    for name in ("gone", "file", ""):
        with pytest.raises(UnusableReferenceError):
            read_limited(tmp_path / name, LIMIT, UnusableReferenceError)


@pytest.mark.skipif(not OPEN_FILES.exists(), reason="this system does not list the files that are open")
def test_nothing_stays_open(tmp_path: Path) -> None:
    pipe, file = tmp_path / "pipe", tmp_path / "file"
    os.mkfifo(pipe)
    file.write_bytes(bytes(LIMIT + 1))
    for path in (pipe, file, tmp_path, Path("/dev/zero")):
        with pytest.raises(InputError):
            read_limited(path, LIMIT)
        assert path not in [Path(os.path.realpath(link)) for link in OPEN_FILES.iterdir()]


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "file"
    for data in (b"first", b"second", b""):
        write_atomically(file, data)
        assert read_limited(file, LIMIT) == data
        assert list(tmp_path.iterdir()) == [file]


def test_a_link_stays_and_what_it_leads_to_is_written(tmp_path: Path) -> None:
    folder, link, second = tmp_path / "folder", tmp_path / "link", tmp_path / "second"
    folder.mkdir()
    link.symlink_to("folder/file")
    second.symlink_to(link)
    for name in (link, second):  # the first time, the file is made
        write_atomically(name, name.name.encode())
        assert (folder / "file").read_bytes() == name.name.encode()
        assert link.is_symlink()
        assert second.is_symlink()
    assert [file.name for file in folder.iterdir()] == ["file"]


def test_only_regular_files_are_replaced(tmp_path: Path) -> None:
    pipe, device, folder, loop = (tmp_path / name for name in ("pipe", "device", "folder", "loop"))
    os.mkfifo(pipe)
    device.symlink_to("/dev/null")
    folder.mkdir()
    loop.symlink_to(loop)
    for node in (pipe, device, folder, loop):
        with pytest.raises(InputError, match=f"cannot write {node}: "):
            write_atomically(node, b"data")
    assert pipe.is_fifo()
    assert device.is_symlink()
    assert not os.path.lexists(f"{tmp_path}/.pipe.{os.getpid()}.partial")


def test_a_device_stays_one(tmp_path: Path) -> None:
    node = tmp_path / "node"
    try:
        os.mknod(node, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except OSError:
        pytest.skip("only root can make devices, and not everywhere")
    with pytest.raises(InputError, match="it is not a regular file; choose another name"):
        write_atomically(node, b"data")
    assert node.is_char_device()


def test_standard_output_is_no_file_to_replace(tmp_path: Path) -> None:
    link = tmp_path / "stdout"  # like /dev/stdout, which a failure of this test would destroy
    link.symlink_to("/proc/self/fd/1")
    script = (
        "import pathlib; from dualshield._common.files import write_atomically as write; "
        f"write(pathlib.Path({str(link)!r}), b'')"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert f"cannot write {link}: it is not a regular file" in found.stderr
    assert link.is_symlink()
