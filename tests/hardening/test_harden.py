"""From file to published file, with the real PDQ and its shipped profile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import dualshield as ds
from dualshield._common.rounding import down
from dualshield.errors import InputError
from dualshield.hardening.batch import JOURNAL, Destination, expand, harden_files, reference_file
from dualshield.hardening.harden import HardenedImage, Hardener, Radii, harden
from dualshield.images.quality import compare
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.reference import Reference
from dualshield.smoothing.statistics import Decision


def seeded(seed: int = 1) -> GaussianSource:
    return GaussianSource.from_seed(seed)


@pytest.fixture(scope="module")
def hardener() -> Hardener:
    """For a matcher that gives each reference the widest noise it bears, so that a gain shows in the radius."""
    return Hardener(deploy("pdq", sigma="auto", n=1000))


@pytest.fixture(scope="module")
def quick() -> Hardener:
    """For tests of everything but the gain."""
    return Hardener(deploy("pdq", n=20), preset="paper", steps=1)


@pytest.fixture(scope="module")
def hardened(hardener: Hardener, photo: Path) -> HardenedImage:
    return hardener.harden(photo, noise=seeded())


@pytest.fixture(scope="module")
def photo(photo_files: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A landscape JPEG that is not of canonical size."""
    file = tmp_path_factory.mktemp("photos") / "cat.jpg"
    with Image.open(photo_files[1]) as image:
        image.convert("RGB").resize((640, 420)).save(file, quality=92)
    return file


def test_the_file_as_written_has_the_radius_reported(
    hardener: Hardener, hardened: HardenedImage, photo: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.jpg"
    out.write_bytes(hardened.data)
    report = hardened.report
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
    result = hardener.deployment.match(hardener.deployment.enroll(published), published, noise=seeded(4))
    assert result.radius == pytest.approx(report.radius_after, rel=0.05)


def test_the_radius_reported_is_that_of_the_reference_that_comes_with_it(
    hardener: Hardener, hardened: HardenedImage, photo: Path, tmp_path: Path
) -> None:
    """Whoever enrolls the published file gets that very reference, and the radius of no other is told."""
    deployment, report, reference = hardener.deployment, hardened.report, hardened.reference
    assert reference is not None
    out = tmp_path / "out.jpg"
    out.write_bytes(hardened.data)
    assert deployment.enroll(out).fingerprint == reference.fingerprint == report.reference_fingerprint
    result = deployment.match(reference, out, noise=seeded(5))
    assert result.reference_fingerprint == report.reference_fingerprint
    assert result.deployment == report.deployment == deployment.digest
    assert result.member.sigma == reference.sigma
    assert result.radius == pytest.approx(report.radius_after, rel=0.05)
    assert result.radius_detected == pytest.approx(report.radius_detected, rel=0.05)
    assert 0 < report.radius_detected < report.radius_after
    assert repr(hardened) == f"<HardenedImage {photo}, radius {report.radius_change}, SSIM {report.ssim:.4f}>"


def test_radii_are_those_of_the_deployment_as_it_is(photo: Path) -> None:
    """Not of a wider noise that nobody deployed."""
    deployment = deploy("pdq", n=500)
    report = Hardener(deployment).harden(photo, noise=seeded()).report
    (matcher,) = deployment.matchers
    assert report.radii["pdq"].ceiling == matcher.config.radius_ceiling
    assert report.radius_before <= report.radius_after <= matcher.config.radius_ceiling
    reference = deployment.enroll(photo)
    assert reference.sigma in deployment.members[0].config.sigmas
    again = deployment.match(reference, photo, noise=seeded(6))
    assert again.radius == pytest.approx(report.radius_before, rel=0.05)


def test_a_radius_that_cannot_grow_is_told_from_one_that_did_not(photo: Path) -> None:
    few = deploy("pdq", sigma="auto", n=8)  # so few votes agree easily
    capped = Hardener(few).harden(photo, noise=seeded()).report
    grown = replace(capped, radii={"pdq": Radii(1.0, 2.0, ceiling=2.1)})
    assert capped.radii["pdq"].after == few.matchers[0].config.radius_ceiling
    assert capped.radius_change.endswith(f"-> {down(capped.radius_after, 3)}, the most these draws can prove")
    assert grown.radius_change.endswith(f"-> {down(grown.radius_after, 3)}")


def test_the_gain_survives_another_jpeg(hardener: Hardener, hardened: HardenedImage, tmp_path: Path) -> None:
    (tmp_path / "hardened.jpg").write_bytes(hardened.data)
    with Image.open(tmp_path / "hardened.jpg") as published:
        published.save(tmp_path / "again.jpg", quality=85)
    again = ds.load_image(tmp_path / "again.jpg")
    deployment = hardener.deployment
    radius = deployment.match(deployment.enroll(again), again, noise=seeded(2)).radius
    report = hardened.report
    assert radius - report.radius_before > 0.7 * (report.radius_after - report.radius_before)


def test_separation_is_kept(hardener: Hardener, hardened: HardenedImage, photos: list[ds.CanonicalImage]) -> None:
    deployment, reference, noise = hardener.deployment, hardened.reference, seeded(2)
    assert reference is not None
    for other in (photos[0], photos[2]):
        assert deployment.match(reference, other, noise=noise).decision is Decision.NO_MATCH
    # At the default sigma an unhardened copy of the picture is still recognised.
    default = deploy("pdq")
    result = default.match(default.enroll(hardened.hardened), hardened.original, noise=noise)
    assert result.decision is Decision.MATCH


def test_without_certificates_there_is_no_reference(quick: Hardener, photo: Path) -> None:
    image = quick.harden(photo, certify=False)
    assert image.reference is None
    assert image.report.reference_fingerprint is None
    assert image.report.radii == {}


def test_several_hashes_share_one_perturbation(photo: Path) -> None:
    """Two hashes: the gradient method takes over; two steps show that it runs, not what it gains."""
    deployment = deploy(["pdq", "neuralhash"], n=50)
    hardener = Hardener(deployment, steps=2)
    assert hardener.strategy == "gradient"
    image = hardener.harden(photo, format="png", noise=seeded(2))
    report = image.report
    assert set(report.radii) == {"pdq", "neuralhash"}
    assert report.hash == "pdq+neuralhash"
    assert report.steps == 2
    assert image.reference is not None
    assert len(image.reference.members) == 2
    # A match holds as long as any member's does.
    assert report.radius_before == max(r.before for r in report.radii.values()) > 0
    assert report.radius_after == max(r.after for r in report.radii.values()) > 0
    for matcher in deployment.matchers:
        assert report.radii[matcher.hash.name].ceiling == matcher.config.radius_ceiling
        assert matcher.config.alpha == deployment.alpha / 2


def test_an_image_that_does_not_match_itself_has_no_radius(photo_files: list[Path]) -> None:
    """Noise that drowns every image: whatever the votes prove, it is no match."""
    deployment = deploy("pdq", sigma=300.0, n=200)
    report = Hardener(deployment).harden(photo_files[1], noise=seeded()).report
    image = ds.load_image(photo_files[1])
    assert deployment.match(deployment.enroll(image), image, noise=seeded()).decision is not Decision.MATCH
    assert (report.radius_before, report.radius_after, report.radius_detected) == (0, 0, 0)
    assert report.radii["pdq"].after == 0


def test_the_paper_preset_is_run_on_the_plain_hash(photo: Path) -> None:
    hardener = Hardener(deploy("pdq", n=200), preset="paper", steps=2)
    report = hardener.harden(photo, format="png", noise=seeded(3)).report
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
    deployment = deploy("pdq", n=50)
    report = harden(photo, hash="pdq", strength=0.3, n=50).report
    assert (report.strength, report.deployment) == (0.3, deployment.digest)
    assert harden(photo.read_bytes(), hash=deployment).report.deployment == deployment.digest


def test_the_noise_is_secret_unless_it_is_given(quick: Hardener, photo: Path) -> None:
    assert quick.harden(photo).report.noise_source == "secret"
    assert quick.harden(photo, noise=GaussianSource.secret()).report.noise_source == "secret"
    assert quick.harden(photo, noise=seeded()).report.noise_source == "seeded"


def test_the_same_noise_gives_the_same_file_and_report(quick: Hardener, photo: Path) -> None:
    first, again, other = (quick.harden(photo, noise=seeded(seed)) for seed in (7, 7, 8))
    assert first.data == again.data != other.data
    timeless = [replace(found.report, seconds=0, seconds_certifying=0) for found in (first, again)]
    assert timeless[0] == timeless[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"preset": "strong"}, "preset"), ({"strength": 0.0}, "strength"), ({"steps": 0}, "steps")],
)
def test_bad_parameters(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Hardener(deploy("pdq"), **arguments)


@pytest.mark.parametrize("what", ["pdq", ["pdq"], None])
def test_a_hardener_takes_a_deployment(what: Any) -> None:
    with pytest.raises(InputError, match=r"a Hardener takes a deployment, as from deploy\('pdq'\), not \w+$"):
        Hardener(what)


def test_a_hash_without_gradient_is_named(toy_hash: ds.PerceptualHash) -> None:
    box = ds.black_box(lambda image: [True] * 16, name="box", bits=16)
    deployment = deploy([toy_hash, box], config=ds.MatcherConfig(sigma=1.0))
    with pytest.raises(InputError, match="hash box has no gradient"):
        Hardener(deployment)


# -- many files --------------------------------------------------------------------------------------


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
    with pytest.raises(InputError, match="a preview shows one image, not 2; give a single one"):
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


def test_perturbation_alone(hardener: Hardener, photos: list[ds.CanonicalImage]) -> None:
    delta, steps = hardener.perturb(photos[0], noise=seeded())
    assert steps == 1
    assert delta.shape == (3, 512, 512)
    assert torch.isfinite(delta).all()


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


def test_an_unchanged_image_has_no_psnr_in_json(hardened: HardenedImage) -> None:
    assert replace(hardened.report, psnr=float("inf")).to_dict()["psnr"] is None
    assert hardened.report.to_dict()["psnr"] == hardened.report.psnr


def test_bytes_are_named_by_their_format(quick: Hardener, photo: Path) -> None:
    assert quick.harden(photo.read_bytes(), certify=False, noise=seeded()).suffix == ".jpg"
    with Image.open(photo) as image:
        assert quick.harden(image.convert("RGB"), certify=False, noise=seeded()).suffix in (".png", ".jpg")
