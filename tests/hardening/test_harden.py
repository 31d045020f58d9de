"""From file to published file, with the real PDQ and its shipped profile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

import dualshield as ds
from dualshield.errors import InputError
from dualshield.hardening.batch import JOURNAL, Destination, expand, harden_files
from dualshield.hardening.harden import Hardener, Radii, deployed_config, harden
from dualshield.images.quality import compare
from dualshield.smoothing.matcher import SmoothedMatcher
from dualshield.smoothing.noise import GaussianSource


@pytest.fixture(scope="module")
def hardener() -> Hardener:
    return Hardener(["pdq"], n=1000, source=GaussianSource.from_seed(1))


@pytest.fixture(scope="module")
def photo(photo_files: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A landscape JPEG that is not of canonical size."""
    file = tmp_path_factory.mktemp("photos") / "cat.jpg"
    with Image.open(photo_files[1]) as image:
        image.convert("RGB").resize((640, 420)).save(file, quality=92)
    return file


def test_the_file_as_written_has_the_radius_reported(hardener: Hardener, photo: Path, tmp_path: Path) -> None:
    image = hardener.harden(photo)
    out = tmp_path / "out.jpg"
    out.write_bytes(image.data)
    report = image.report
    assert report.radius_after > 1.3 * report.radius_before > 0
    assert report.ssim > 0.96
    with Image.open(out) as written:
        assert (written.format, written.size) == ("JPEG", (640, 420))
    published = ds.load_image(out)
    quality = compare(ds.load_image(photo).pixels, published.pixels)
    assert (report.ssim, report.psnr, report.linf, report.l2) == (
        quality.ssim,
        quality.psnr,
        quality.linf,
        quality.l2,
    )
    matcher = SmoothedMatcher(ds.get_hash("pdq"), deployed_config("pdq"), source=GaussianSource.from_seed(4))
    assert matcher.match(matcher.enroll(published), published).radius > 1.2 * report.radius_before


def test_a_radius_that_cannot_grow_is_told_from_one_that_did_not(photo: Path) -> None:
    few = Hardener(["pdq"], n=8, source=GaussianSource.from_seed(1))  # so few votes agree easily
    capped = few.harden(photo).report
    grown = replace(capped, radii={"pdq": Radii(1.0, 2.0, ceiling=2.1)})
    assert capped.radii["pdq"].after == few.matchers["pdq"].config.radius_ceiling
    assert capped.radius_change.endswith(f"-> {capped.radius_after:.3f}, the most these draws can prove")
    assert grown.radius_change.endswith(f"-> {grown.radius_after:.3f}")


def test_the_gain_survives_another_jpeg(hardener: Hardener, photo: Path, tmp_path: Path) -> None:
    image = hardener.harden(photo)
    (tmp_path / "hardened.jpg").write_bytes(image.data)
    with Image.open(tmp_path / "hardened.jpg") as published:
        published.save(tmp_path / "again.jpg", quality=85)
    again = ds.load_image(tmp_path / "again.jpg")
    matcher = hardener.matchers["pdq"]
    radius = matcher.match(matcher.enroll(again), again).radius
    assert radius - image.report.radius_before > 0.7 * (image.report.radius_after - image.report.radius_before)


def test_separation_is_kept(hardener: Hardener, photo: Path, photos: list[ds.CanonicalImage]) -> None:
    image = hardener.harden(photo, certify=False)
    matcher = hardener.matchers["pdq"]
    reference = matcher.enroll(image.hardened)
    for other in (photos[0], photos[2]):
        assert matcher.match(reference, other).decision == "no_match"
    # At the default sigma an unhardened copy of the picture is still recognised.
    default = SmoothedMatcher(ds.get_hash("pdq"), ds.default_config("pdq"), source=GaussianSource.from_seed(5))
    assert default.match(default.enroll(image.hardened), image.original).decision == "match"
    assert image.report.radii == {}


def test_several_hashes_share_one_perturbation(photo: Path) -> None:
    """Two hashes: the gradient method takes over; two steps show that it runs, not what it gains."""
    hardener = Hardener(["pdq", "neuralhash"], n=50, steps=2, source=GaussianSource.from_seed(2))
    assert hardener.strategy == "gradient"
    report = hardener.harden(photo, format="png").report
    assert set(report.radii) == {"pdq", "neuralhash"}
    assert report.hash == "pdq+neuralhash"
    assert report.steps == 2
    assert report.radius_after == min(r.after for r in report.radii.values())


def test_the_paper_preset_is_run_on_the_plain_hash(photo: Path) -> None:
    hardener = Hardener(["pdq"], preset="paper", steps=2, n=200, source=GaussianSource.from_seed(3))
    report = hardener.harden(photo, format="png").report
    assert (report.preset, report.steps) == ("paper", 2)
    assert 0 < report.linf <= 3 / 255


def test_transparent_parts_are_left_alone(hardener: Hardener, photo_files: list[Path], tmp_path: Path) -> None:
    with Image.open(photo_files[0]) as opened:
        image = opened.convert("RGBA")
        image.putalpha(Image.linear_gradient("L").resize(image.size))
        image.save(tmp_path / "alpha.png")
    found = hardener.harden(tmp_path / "alpha.png", certify=False)
    (tmp_path / "out.png").write_bytes(found.data)
    with Image.open(tmp_path / "out.png") as written:
        assert written.mode == "RGBA"
        assert written.getchannel("A").tobytes() == image.getchannel("A").tobytes()
    change = (found.hardened.pixels - found.original.pixels).abs()
    assert change[:, :40].mean() < 0.3 * change[:, 300:].mean()


def test_the_library_call(photo: Path) -> None:
    assert harden(photo, "pdq", strength=0.3).report.strength == 0.3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"hashes": []}, "hashes"),
        ({"hashes": ["pdq", "pdq"]}, "hashes"),
        ({"preset": "strong"}, "preset"),
        ({"strength": 0.0}, "strength"),
        ({"steps": 0}, "steps"),
        ({"hashes": ["nothing"]}, "nothing"),
    ],
)
def test_bad_parameters(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Hardener(**{"hashes": ["pdq"], **arguments})  # type: ignore[arg-type]


# -- many files --------------------------------------------------------------------------------------


def test_a_batch_survives_a_bad_file_and_resumes(hardener: Hardener, photo: Path, tmp_path: Path) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    (folder / "a.jpg").write_bytes(photo.read_bytes())
    (folder / "b.jpg").write_bytes(photo.read_bytes()[:500])
    (folder / "c.jpg").write_bytes(photo.read_bytes())
    files = expand([folder])
    first = list(harden_files(hardener, files[:2], Destination(out, folder=True)))
    assert [outcome.error is None for outcome in first] == [True, False]
    assert "b.jpg" in str(first[1].error)
    (folder / "b.jpg").write_bytes(photo.read_bytes())
    second = list(harden_files(hardener, files, Destination(out, folder=True)))
    assert [outcome.skipped for outcome in second] == [True, False, False]
    assert second[0].report == first[0].report
    assert sorted(p.name for p in out.iterdir()) == [JOURNAL, "a.jpg", "b.jpg", "c.jpg"]


def test_a_changed_source_is_not_taken_for_finished(hardener: Hardener, photo: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.jpg"
    file.write_bytes(photo.read_bytes())
    destination = Destination(tmp_path / "out", folder=True)
    list(harden_files(hardener, [file], destination))
    with Image.open(photo) as image:
        image.transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(file)
    (outcome,) = harden_files(hardener, [file], destination)
    assert outcome.error is not None  # an output of another source is there: never overwritten silently
    assert "--overwrite" in outcome.error
    (outcome,) = harden_files(hardener, [file], Destination(tmp_path / "out", overwrite=True, folder=True))
    assert outcome.error is None
    assert not outcome.skipped


def test_other_settings_do_not_mix_in_one_folder(hardener: Hardener, photo: Path, tmp_path: Path) -> None:
    list(harden_files(hardener, [photo], Destination(tmp_path, folder=True)))
    with pytest.raises(InputError, match="other settings"):
        list(harden_files(hardener, [photo], Destination(tmp_path, folder=True), format="png"))


def test_in_place_keeps_the_original_beside(hardener: Hardener, photo: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.jpg"
    file.write_bytes(photo.read_bytes())
    (outcome,) = harden_files(hardener, [file], Destination(None, in_place=True))
    assert outcome.error is None
    assert (tmp_path / "a.jpg.original").read_bytes() == photo.read_bytes()
    assert file.read_bytes() != photo.read_bytes()
    (outcome,) = harden_files(hardener, [file], Destination(None, in_place=True))
    assert outcome.error is not None
    assert (tmp_path / "a.jpg.original").read_bytes() == photo.read_bytes()


def test_an_interruption_leaves_no_half_file(
    hardener: Hardener, photo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    out = tmp_path / "out.jpg"
    with pytest.raises(KeyboardInterrupt):
        list(harden_files(hardener, [photo], Destination(out)))
    assert list(tmp_path.iterdir()) == []


def test_perturbation_alone(hardener: Hardener, photos: list[ds.CanonicalImage]) -> None:
    delta, steps = hardener.perturb(photos[0])
    assert steps == 1
    assert delta.shape == (3, 512, 512)
    assert torch.isfinite(delta).all()
