"""``dualshield harden``."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from PIL import Image

from dualshield.smoothing.reference import Reference
from tests.helpers.command_line import complaint, run

FIELDS = {"file", "output", "hash", "preset", "ssim", "psnr", "linf", "l2", "radius_before", "radius_after", "steps"}
FIELDS |= {"deployment", "noise_source", "radius_detected", "reference", "reference_fingerprint", "seconds"}
# Where the gain is of no interest.
FAST = ("--n", "200", "--preset", "paper", "--steps", "1")


@pytest.fixture
def photo(photo_files: list[Path], tmp_path: Path) -> Path:
    file = tmp_path / "cat.jpg"
    with Image.open(photo_files[1]) as image:
        image.convert("RGB").resize((300, 200)).save(file, quality=90)
    return file


def test_json_per_image(photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("harden", photo, "-o", f"{tmp_path}/out/", "--hash", "pdq", "--json", "--n", 200, "--sigma", "auto")
    assert run(*arguments) == 0
    out, err = capsys.readouterr()
    record = json.loads(out)
    assert err == ""
    assert record.keys() >= FIELDS
    assert (record["noise_source"], record["reference"]) == ("secret", None)
    assert record["output"] == str(tmp_path / "out" / "cat.jpg")
    assert record["radius_after"] > record["radius_before"]
    with Image.open(record["output"]) as image:
        assert image.size == (300, 200)
    assert run(*arguments) == 0
    assert json.loads(capsys.readouterr().out) == record


def test_several_hashes_in_one_name(
    photo: Path, network_name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("harden", photo, "-o", f"{tmp_path}/out/", "--steps", 2, "--n", 20, "--json")
    assert run(*arguments, "--hash", f"pdq+{network_name}") == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["hash"], set(record["radii"])) == ("pdq+network", {"pdq", "network"})
    # The same as repeating the option, and so the same run: nothing is done again.
    assert run(*arguments, "--hash", "pdq", "--hash", network_name) == 0
    assert json.loads(capsys.readouterr().out) == record
    for names, message in ((("pdq+pdq",), "different"), (("pdq+nope",), "nope"), (("pdq+network", "pdq"), "different")):
        options = [part for name in names for part in ("--hash", name)]
        assert run(*arguments, *options) == 2, names
        assert message in complaint(capsys), names


def test_text_and_preview(photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    preview = tmp_path / "preview.png"
    assert run("harden", photo, "-o", tmp_path / "out.png", "--format", "png", "--preview", preview, *FAST) == 0
    assert "certified radius" in capsys.readouterr().out
    with Image.open(preview) as image:
        assert image.width > 3 * 300
        assert image.height > 200
    with Image.open(tmp_path / "out.png") as image:
        assert image.format == "PNG"


def test_a_seed_makes_everything_repeatable_and_is_told(
    photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told, files = [], []
    for name in ("a.jpg", "b.jpg"):
        assert run("harden", photo, "-o", tmp_path / name, "--seed", 3, "--json", *FAST) == 0
        record = json.loads(capsys.readouterr().out)
        told.append({**record, "output": None, "seconds": None, "seconds_certifying": None})
        files.append((tmp_path / name).read_bytes())
    assert files[0] == files[1]
    assert told[0] == told[1]
    assert told[0]["noise_source"] == "seeded"


# -- the reference of what was published ---------------------------------------------------------------


def test_the_reference_that_is_kept_is_the_one_whose_radius_was_told(
    photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the same options 'match' has the same matcher, and where all votes agree, the same radius."""
    out = tmp_path / "out.jpg"
    assert run("harden", photo, "-o", out, "--hash", "pdq", "--reference", "--json", *FAST) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["reference"] == f"{out}.dsref"
    options = ("--hash", "pdq", "--n", 200)
    for reference in (f"{out}.dsref", out):  # kept, or enrolled anew
        assert run("match", reference, out, *options, "--json") == 0
        found = json.loads(capsys.readouterr().out)
        assert found["decision"] == "match"
        assert found["reference_fingerprint"] == record["reference_fingerprint"]
        assert found["deployment"] == record["deployment"]
        assert (found["radius"], found["radius_detected"]) == (record["radius_after"], record["radius_detected"])
        assert found["votes"] == found["draws"] == 200


def test_what_is_printed_is_the_reference_and_its_radius(
    photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.jpg"
    assert run("harden", photo, "-o", out, "--reference", *FAST) == 0
    said = capsys.readouterr().out
    kept = Reference.load(f"{out}.dsref")
    assert f"reference            {out}.dsref  ({kept.fingerprint[:16]})" in said
    # The kept reference knows its hash.
    assert run("match", f"{out}.dsref", out, "--n", 200) == 0
    matched = capsys.readouterr().out
    assert matched.startswith(f"MATCH   {out}  against  out.jpg\n")
    assert kept.fingerprint[:16] in matched
    told = re.search(r"certified radius +\S+ -> (\d+\.\d{3})", said)
    printed = re.search(r"certified radius +(\d+\.\d{3})", matched)
    assert told is not None
    assert printed is not None
    assert told[1] == printed[1]


def test_a_reference_is_for_the_matcher_it_was_made_for(
    photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.jpg"
    assert run("harden", photo, "-o", out, "--sigma", 0.5, "--reference", *FAST) == 0
    capsys.readouterr()
    assert run("match", f"{out}.dsref", out, "--n", 200) == 2
    assert "another configuration (sigmas [0.5], here [" in complaint(capsys)
    assert run("match", f"{out}.dsref", out, "--n", 200, "--sigma", 0.5) == 0


def test_an_existing_reference_is_kept(photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, kept = tmp_path / "out.jpg", tmp_path / "out.jpg.dsref"
    kept.write_text("precious")
    arguments = ("harden", photo, "-o", out, "--reference", *FAST)
    assert run(*arguments) == 2
    assert "out.jpg.dsref exists already" in complaint(capsys)
    assert kept.read_text() == "precious"
    assert not out.exists()
    assert run(*arguments, "--overwrite") == 0
    assert Reference.load(kept).name == "out.jpg"


def test_in_place_the_reference_is_that_of_what_took_its_place(
    photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("harden", photo, "--in-place", "--reference", *FAST) == 0
    capsys.readouterr()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["cat.jpg", "cat.jpg.dsref", "cat.jpg.original"]
    fingerprints = []
    for reference in (f"{photo}.dsref", photo, f"{photo}.original"):
        assert run("match", reference, photo, "--n", 200, "--json") == 0
        fingerprints.append(json.loads(capsys.readouterr().out)["reference_fingerprint"])
    assert fingerprints[0] == fingerprints[1] != fingerprints[2]


# -- a file that does not match itself -----------------------------------------------------------------


@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_a_published_file_that_does_not_match_itself_is_told(
    as_json: tuple[str, ...], photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("harden", photo, "-o", tmp_path / "out.jpg", "--sigma", 300, *FAST, *as_json) == 0
    out, err = capsys.readouterr()
    assert "0.000 -> 0.000" in out or json.loads(out)["radius_after"] == 0
    assert err.startswith(f"dualshield: {tmp_path / 'out.jpg'} does not certifiably match itself, so its reference ")
    assert err.count("\n") == 1


def test_one_that_does_is_not_remarked_on(photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("harden", photo, "-o", tmp_path / "out.jpg", *FAST) == 0
    assert capsys.readouterr().err == ""


# -- what is written, and what is not ------------------------------------------------------------------


def test_an_existing_preview_is_kept(photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    preview = tmp_path / "preview.png"
    preview.write_text("precious")
    arguments = ("harden", photo, "-o", tmp_path / "out.jpg", "--preview", preview, *FAST)
    assert run(*arguments) == 2
    assert "preview.png exists already; use --overwrite, or choose another name" in complaint(capsys)
    assert preview.read_text() == "precious"
    assert not (tmp_path / "out.jpg").exists()
    assert run(*arguments, "--overwrite") == 0
    with Image.open(preview) as image:
        assert image.format == "PNG"


def test_no_output_is_an_input(photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, out = photo.read_bytes(), tmp_path / "out.jpg"
    (tmp_path / "soft.jpg").symlink_to(photo)
    (tmp_path / "hard.jpg").hardlink_to(photo)
    for name in ("cat.jpg", "soft.jpg", "hard.jpg"):
        for options in (("-o", out, "--preview", tmp_path / name), ("-o", tmp_path / name)):
            assert run("harden", photo, *options, "--overwrite", *FAST) == 2
            assert f"{name}: it is the same file as the input {photo}" in complaint(capsys)
    assert photo.read_bytes() == before
    assert not out.exists()


def test_no_output_is_the_input_of_another(photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "photos" / "dog.png"
    other.parent.mkdir()
    with Image.open(photo) as image:
        image.save(other)
    before = other.read_bytes()
    (tmp_path / "dog.jpg").write_bytes(photo.read_bytes())
    arguments = ("harden", tmp_path / "dog.jpg", "-o", f"{other.parent}/", "--format", "png", "--overwrite", *FAST)
    assert run(*arguments, "--negatives", other.parent) == 2
    assert "dog.png: it is the same file as the input" in complaint(capsys)
    assert other.read_bytes() == before


def test_only_regular_files_are_replaced(photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe, device, out = tmp_path / "pipe", tmp_path / "device", tmp_path / "out.jpg"
    os.mkfifo(pipe)
    device.symlink_to("/dev/null")
    for node in (pipe, device):
        for options in (("-o", node), ("-o", out, "--preview", node)):
            assert run("harden", photo, *options, "--overwrite", *FAST) == 2
            assert f"cannot write {node}: it is not a regular file" in complaint(capsys)
    reference = tmp_path / "out.jpg.dsref"
    os.mkfifo(reference)
    assert run("harden", photo, "-o", out, "--reference", "--overwrite", *FAST) == 2
    assert f"cannot write {reference}: it is not a regular file" in complaint(capsys)
    assert pipe.is_fifo()
    assert device.is_symlink()
    assert reference.is_fifo()
    assert not out.exists()


def test_a_link_stays_and_what_it_leads_to_is_written(photo: Path, tmp_path: Path) -> None:
    link, file = tmp_path / "link.jpg", tmp_path / "elsewhere" / "file.jpg"
    file.parent.mkdir()
    file.write_text("old")
    link.symlink_to(file)
    assert run("harden", photo, "-o", link, *FAST) == 2
    assert file.read_text() == "old"
    assert run("harden", photo, "-o", link, "--overwrite", *FAST) == 0
    assert link.is_symlink()
    with Image.open(file) as image:
        assert image.format == "JPEG"


def test_the_output_and_its_preview_are_two_files(
    photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.jpg"
    assert run("harden", photo, "-o", out, "--preview", out, "--overwrite", *FAST) == 2
    assert "two outputs are the same file" in complaint(capsys)


def test_a_folder_of_images_has_no_preview(photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "second.jpg").write_bytes(photo.read_bytes())
    assert run("harden", tmp_path, "-o", tmp_path / "out", "--preview", tmp_path / "preview.png") == 2
    assert "--preview shows one image; give a single image" in complaint(capsys)
    assert not (tmp_path / "preview.png").exists()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("p.png", (), "cannot write JPEG data as {}: its suffix says PNG; ask for the format png, or choose another"),
        ("p.PNG", (), "its suffix says PNG"),
        ("p.jpg", ("--format", "png"), "cannot write PNG data as {}: its suffix says JPEG; ask for the format jpeg"),
        ("p.webp", (), "cannot write JPEG data as {}: its suffix says WEBP; choose another name"),
        ("p.heic", (), "its suffix says HEIF"),
    ],
)
def test_a_name_does_not_promise_another_format(
    name: str,
    options: tuple[str, ...],
    message: str,
    photo: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("harden", photo, "-o", tmp_path / name, *options, *FAST) == 2
    assert message.format(tmp_path / name) in complaint(capsys)
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("name", ["plain", "photo.of.2026", "p.JPEG", "p.jfif"])
def test_a_name_that_promises_nothing_or_the_same_is_as_good(name: str, photo: Path, tmp_path: Path) -> None:
    assert run("harden", photo, "-o", tmp_path / name, *FAST) == 0
    with Image.open(tmp_path / name) as image:
        assert image.format == "JPEG"


# -- what goes wrong -------------------------------------------------------------------------------------


def test_dry_run_writes_nothing(photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("harden", photo, "-o", tmp_path / "out.jpg", "--dry-run", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["images"] == 1
    assert found["seconds"] > 0
    assert [p.name for p in tmp_path.iterdir()] == ["cat.jpg"]


def test_a_batch_with_a_bad_file_fails_at_the_end(
    photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.jpg").write_bytes(photo.read_bytes()[:300])
    assert run("harden", tmp_path / "broken.jpg", photo, "-o", tmp_path / "out", "--json", *FAST) == 2
    out, err = capsys.readouterr()
    assert json.loads(out)["file"] == str(photo)
    assert "broken.jpg" in err
    assert "1 of 2 images failed" in err


def test_bad_usage(photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    tiny = tmp_path / "tiny.png"
    Image.new("RGB", (63, 200)).save(tiny)
    alpha = tmp_path / "alpha.png"
    Image.new("RGBA", (100, 100), (200, 10, 10, 100)).save(alpha)
    gif = tmp_path / "a.gif"
    Image.new("P", (100, 100)).save(gif)
    out = tmp_path / "o.jpg"
    for arguments, message in (
        ((photo,), "give either -o OUT or --in-place"),
        ((photo, "-o", out, "--in-place"), "give either -o OUT or --in-place"),
        ((photo, "-o", photo), "the same file"),
        ((photo, "-o", tmp_path / "no" / "o.jpg"), "does not exist"),
        ((photo, "-o", f"{photo}/x/"), "as a folder"),
        ((empty, "-o", out), "holds no images"),
        ((tmp_path / "missing.jpg", "-o", out), "no such file"),
        ((tiny, "-o", out), "too small"),
        ((alpha, "-o", out, "--format", "jpeg"), "png"),
        ((gif, "-o", out), "use the format png"),
        ((photo, "-o", out, "--quality", "0"), "quality"),
        ((photo, "-o", out, "--quality", "80", "--format", "png"), "quality"),
        ((photo, "-o", out, "--strength", "-1"), "strength"),
        ((photo, "-o", out, "--hash", "nope"), "nope"),
        ((photo, "-o", out, "--steps", "0"), "steps"),
        ((photo, "-o", out, "--preset", "x"), "preset"),
        ((photo, "-o", out, "--negatives", empty, "--preset", "paper"), "holds no images"),
        ((photo, photo, "-o", tmp_path / "many"), "two inputs"),
        ((photo, alpha, "-o", tmp_path / "many", "--preview", out), "single"),
    ):
        assert run("harden", *arguments) == 2, arguments
        assert message in complaint(capsys), arguments
    assert not out.exists()


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_unwritable_output(photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    assert run("harden", photo, "-o", locked) == 2
    assert "no permission" in complaint(capsys)


def test_an_existing_output_is_kept(photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.jpg"
    out.write_text("precious")
    assert run("harden", photo, "-o", out, *FAST) == 2
    assert "out.jpg exists already; use --overwrite, or choose another name" in complaint(capsys)
    assert out.read_text() == "precious"
    assert run("harden", photo, "-o", out, "--overwrite", *FAST) == 0
    with Image.open(out) as image:
        assert image.format == "JPEG"


def test_a_full_disk_is_one_line(
    photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    assert run("harden", photo, "-o", tmp_path / "out.jpg", *FAST) == 2
    assert "No space left on device" in complaint(capsys)
    assert not (tmp_path / "out.jpg").exists()
