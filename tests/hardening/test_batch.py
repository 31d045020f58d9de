"""Hardening many files: what is written where, what is never overwritten, and how a run is resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from dualshield.errors import InputError
from dualshield.hardening.batch import JOURNAL, Destination, expand, harden_files, reference_file
from dualshield.hardening.harden import HardenedImage, Hardener
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.reference import Reference
from dualshield.smoothing.statistics import Decision
from tests.helpers.noise import seeded


def test_a_batch_survives_a_bad_file_and_resumes(quick: Hardener, photo: Path, tmp_path: Path) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    (folder / "a.jpg").write_bytes(photo.read_bytes())
    (folder / "b.jpg").write_bytes(photo.read_bytes()[:500])
    (folder / "c.jpg").write_bytes(photo.read_bytes())
    files = expand([folder])
    first = list(harden_files(quick, files[:2], Destination(out, folder=True)))
    assert [outcome.error is None for outcome in first] == [True, False]
    assert "b.jpg" in str(first[1].error)
    (folder / "b.jpg").write_bytes(photo.read_bytes())
    second = list(harden_files(quick, files, Destination(out, folder=True)))
    assert [outcome.skipped for outcome in second] == [True, False, False]
    assert second[0].report == first[0].report
    assert sorted(p.name for p in out.iterdir()) == [JOURNAL, "a.jpg", "b.jpg", "c.jpg"]


def test_a_changed_source_is_not_taken_for_finished(quick: Hardener, photo: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.jpg"
    file.write_bytes(photo.read_bytes())
    destination = Destination(tmp_path / "out", folder=True)
    list(harden_files(quick, [file], destination))
    with Image.open(photo) as image:
        image.transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(file)
    (outcome,) = harden_files(quick, [file], destination)
    assert outcome.error is not None  # an output of another source is there: never overwritten silently
    assert "allow overwriting" in outcome.error
    (outcome,) = harden_files(quick, [file], Destination(tmp_path / "out", overwrite=True, folder=True))
    assert outcome.error is None
    assert not outcome.skipped


def test_other_settings_do_not_mix_in_one_folder(quick: Hardener, photo: Path, tmp_path: Path) -> None:
    list(harden_files(quick, [photo], Destination(tmp_path, folder=True)))
    with pytest.raises(InputError, match="other settings"):
        list(harden_files(quick, [photo], Destination(tmp_path, folder=True), format="png"))


def test_results_for_another_matcher_do_not_mix_in_one_folder(quick: Hardener, photo: Path, tmp_path: Path) -> None:
    list(harden_files(quick, [photo], Destination(tmp_path, folder=True)))
    other = Hardener(deploy("pdq", n=21), preset="paper", steps=1)
    with pytest.raises(InputError, match="other settings"):
        list(harden_files(other, [photo], Destination(tmp_path, folder=True)))


def test_references_are_kept_beside_the_published_files(quick: Hardener, photo: Path, tmp_path: Path) -> None:
    out = tmp_path / "published.jpg"
    (outcome,) = harden_files(quick, [photo], Destination(out), keep_references=True)
    assert outcome.report is not None
    assert outcome.report.reference == str(reference_file(out)) == f"{out}.dsref"
    kept = Reference.load(reference_file(out))
    assert kept.name == "published.jpg"
    assert kept.fingerprint == outcome.report.reference_fingerprint
    assert quick.deployment.match(kept, out, noise=seeded()).decision is Decision.MATCH
    (without,) = harden_files(quick, [photo], Destination(tmp_path / "other.jpg"))
    assert without.report is not None
    assert without.report.reference is None
    assert not reference_file(tmp_path / "other.jpg").exists()


def test_a_reference_that_is_there_is_not_replaced_unasked(quick: Hardener, photo: Path, tmp_path: Path) -> None:
    out = tmp_path / "published.jpg"
    reference_file(out).write_text("precious")
    (outcome,) = harden_files(quick, [photo], Destination(out), keep_references=True)
    assert outcome.error is not None
    assert "published.jpg.dsref exists already" in outcome.error
    assert reference_file(out).read_text() == "precious"
    assert not out.exists()
    (outcome,) = harden_files(quick, [photo], Destination(out, overwrite=True), keep_references=True)
    assert outcome.error is None
    assert quick.deployment.enroll(out).fingerprint == Reference.load(reference_file(out)).fingerprint


def test_in_place_keeps_the_original_beside(quick: Hardener, photo: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.jpg"
    file.write_bytes(photo.read_bytes())
    (outcome,) = harden_files(quick, [file], Destination(None, in_place=True))
    assert outcome.error is None
    assert (tmp_path / "a.jpg.original").read_bytes() == photo.read_bytes()
    assert file.read_bytes() != photo.read_bytes()
    (outcome,) = harden_files(quick, [file], Destination(None, in_place=True))
    assert outcome.error is not None
    assert (tmp_path / "a.jpg.original").read_bytes() == photo.read_bytes()


def test_an_original_that_is_a_link_stays_one(quick: Hardener, photo: Path, tmp_path: Path) -> None:
    file, link = tmp_path / "a.jpg", tmp_path / "link.jpg"
    file.write_bytes(photo.read_bytes())
    link.symlink_to(file)
    (outcome,) = harden_files(quick, [link], Destination(None, in_place=True))
    assert outcome.error is None
    assert link.is_symlink()
    assert (tmp_path / "link.jpg.original").read_bytes() == photo.read_bytes() != file.read_bytes()


def test_what_is_read_is_never_written(quick: Hardener, photo: Path, tmp_path: Path) -> None:
    other, card = tmp_path / "other.jpg", tmp_path / "card.yaml"
    other.write_bytes(photo.read_bytes())
    card.write_text("card")
    destination = Destination(tmp_path / "out.jpg", overwrite=True)
    for preview in (other, card):
        (outcome,) = harden_files(quick, [other], destination, preview=preview, reads=[card])
        assert outcome.error == (
            f"cannot write {preview}: it is the same file as the input {preview}; choose another name"
        )
    (outcome,) = harden_files(quick, [other], Destination(None, in_place=True, overwrite=True), preview=other)
    assert "the same file as the input" in str(outcome.error)
    assert other.read_bytes() == photo.read_bytes()
    assert card.read_text() == "card"
    assert not (tmp_path / "out.jpg").exists()


def test_an_output_that_appeared_during_the_work_is_kept(
    quick: Hardener, photo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, work = tmp_path / "out.jpg", quick.harden

    def meanwhile(*arguments: Any, **options: Any) -> HardenedImage:
        out.write_text("precious")
        return work(*arguments, **options)

    monkeypatch.setattr(quick, "harden", meanwhile)
    (outcome,) = harden_files(quick, [photo], Destination(out))
    assert outcome.error == f"{out} exists already; allow overwriting, or choose another name"
    assert out.read_text() == "precious"


def test_a_preview_shows_one_image(quick: Hardener, photo: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a preview shows one image, not 2; give a single image"):
        list(harden_files(quick, [photo, photo], Destination(tmp_path, folder=True), preview=tmp_path / "p.png"))


def test_an_interruption_leaves_no_half_file(
    quick: Hardener, photo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    out = tmp_path / "out.jpg"
    with pytest.raises(KeyboardInterrupt):
        list(harden_files(quick, [photo], Destination(out)))
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_now_wants_references_makes_them(quick: Hardener, photo: Path, tmp_path: Path) -> None:
    destination = Destination(tmp_path, folder=True)
    list(harden_files(quick, [photo], destination))
    (outcome,) = harden_files(quick, [photo], destination, keep_references=True)
    assert outcome.error is not None  # the image is there, and is not replaced unasked; but it is not called finished
    again = Destination(tmp_path, overwrite=True, folder=True)
    (outcome,) = harden_files(quick, [photo], again, keep_references=True)
    assert outcome.error is None
    assert reference_file(tmp_path / photo.name).exists()
    (outcome,) = harden_files(quick, [photo], destination, keep_references=True)
    assert outcome.skipped


def test_a_record_that_is_not_whole_counts_as_not_done(quick: Hardener, photo: Path, tmp_path: Path) -> None:
    destination = Destination(tmp_path, folder=True)
    list(harden_files(quick, [photo], destination))
    journal = tmp_path / JOURNAL
    journal.write_text(journal.read_text().replace('"radius_detected"', '"radius_of_old"'))
    (outcome,) = harden_files(quick, [photo], Destination(tmp_path, overwrite=True, folder=True))
    assert outcome.error is None
    assert not outcome.skipped


def test_a_seeded_run_that_is_resumed_writes_what_an_uninterrupted_one_writes(
    quick: Hardener, photo: Path, tmp_path: Path
) -> None:
    files = []
    for name in ("a.jpg", "b.jpg"):
        files.append(tmp_path / name)
        files[-1].write_bytes(photo.read_bytes())
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    list(harden_files(quick, files, Destination(whole, folder=True), seed=4))
    list(harden_files(quick, files[:1], Destination(parts, folder=True), seed=4))
    list(harden_files(quick, files, Destination(parts, folder=True), seed=4))
    for file in files:
        assert (whole / file.name).read_bytes() == (parts / file.name).read_bytes()
