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
from dualshield.hardening.harden import HardenedImage, Hardener, harden
from dualshield.hardening.report import Radii
from dualshield.images.quality import compare
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.statistics import Decision
from tests.helpers.matchers import voting
from tests.helpers.noise import seeded


@pytest.fixture(scope="module")
def hardener() -> Hardener:
    """For a matcher that gives each reference the widest noise it bears, so that a gain shows in the radius."""
    return Hardener(deploy("pdq", sigma="auto", n=1000))


@pytest.fixture(scope="module")
def hardened(hardener: Hardener, photo: Path) -> HardenedImage:
    return hardener.harden(photo, noise=seeded())


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
    ceiling = voting(deployment).config.radius_ceiling
    assert report.radii["pdq"].ceiling == ceiling
    assert report.radius_before <= report.radius_after <= ceiling
    reference = deployment.enroll(photo)
    assert reference.sigma in deployment.members[0].config.sigmas
    again = deployment.match(reference, photo, noise=seeded(6))
    assert again.radius == pytest.approx(report.radius_before, rel=0.05)


def test_a_radius_that_cannot_grow_is_told_from_one_that_did_not(photo: Path) -> None:
    few = deploy("pdq", sigma="auto", n=8)  # so few votes agree easily
    capped = Hardener(few).harden(photo, noise=seeded()).report
    grown = replace(capped, radii={"pdq": Radii(1.0, 2.0, ceiling=2.1)})
    assert capped.radii["pdq"].after == voting(few).config.radius_ceiling
    limit = f"-> {down(capped.radius_after, 3)}, the most that these draws can prove"
    assert limit in capped.radius_change
    found = capped.radii["pdq"]
    assert found.distance_before is not None
    assert found.distance_after is not None
    assert found.distance_after < found.distance_before < few.hashes[0].threshold
    gain = f"(mean distance of votes {found.distance_before:.3f} -> {found.distance_after:.3f}, threshold "
    assert gain in capped.radius_change
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
    # With default parameters an unhardened copy of the picture is still recognised.
    for default in (deploy("pdq"), deploy("pdq", method="votes")):
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
        assert matcher.config.alpha == (0.0 if matcher.config.method == "exact" else deployment.alpha)


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


def test_perturbation_alone(hardener: Hardener, photos: list[ds.CanonicalImage]) -> None:
    delta, steps = hardener.perturb(photos[0], noise=seeded())
    assert steps == 1
    assert delta.shape == (3, 512, 512)
    assert torch.isfinite(delta).all()


def test_an_unchanged_image_has_no_psnr_in_json(hardened: HardenedImage) -> None:
    assert replace(hardened.report, psnr=float("inf")).to_dict()["psnr"] is None
    assert hardened.report.to_dict()["psnr"] == hardened.report.psnr


def test_bytes_are_named_by_their_format(quick: Hardener, photo: Path) -> None:
    assert quick.harden(photo.read_bytes(), certify=False, noise=seeded()).suffix == ".jpg"
    with Image.open(photo) as image:
        assert quick.harden(image.convert("RGB"), certify=False, noise=seeded()).suffix in (".png", ".jpg")
