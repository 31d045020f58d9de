"""``dualshield harden``."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from PIL import Image

from command_line import complaint, run
from dualshield.smoothing.reference import Reference

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
    assert "allow overwriting" in complaint(capsys)
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
