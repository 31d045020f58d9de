"""C-PDNA and C-PDQ: layers, key layout, binarisation and the authors' own matching rules."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from dualshield.errors import InputError, WeightsError
from dualshield.hashes import PerceptualHash, get_hash
from dualshield.hashes.zoo import c_pdna, c_pdq
from dualshield.images import FrontEnd
from dualshield.testing import HashContract, natural_image
from tests.helpers.synthetic_cnn import c_pdna_net, c_pdq_net, imported


def from_store(name: str, state: dict[str, torch.Tensor]) -> PerceptualHash:
    with tempfile.TemporaryDirectory() as folder:
        return imported(name, name, Path(folder), lambda file: torch.save(state, file))


class TestCPdqSynthetic(HashContract):
    def load(self) -> PerceptualHash:
        return from_store("c-pdq", c_pdq_net().state_dict())


class TestCPdnaSynthetic(HashContract):
    def load(self) -> PerceptualHash:
        return from_store("c-pdna", c_pdna_net().state_dict())


def test_c_pdq_has_the_authors_keys_and_shapes() -> None:
    state = c_pdq.CPdqNet().state_dict()
    layers = {key.rsplit(".", 1)[0]: tuple(value.shape) for key, value in state.items() if key.endswith("weight")}
    assert layers == {
        "0": (16, 1, 3, 3),
        "2.Ws.0": (16, 16, 3, 3),
        "4.Ws.0": (16, 16, 1, 1),
        "4.Ws.2": (16, 16, 3, 3),
        "6.Ws.0": (16, 16, 3, 3),
        "8.Ws.0": (16, 16, 1, 1),
        "8.Ws.2": (16, 16, 3, 3),
        "10.Ws.0": (32, 16, 4, 4),
        "12.Ws.0": (32, 16, 2, 2),
        "12.Ws.2": (32, 32, 3, 3),
        "14.Ws.0": (64, 32, 4, 4),
        "16.Ws.0": (64, 32, 2, 2),
        "16.Ws.2": (64, 64, 3, 3),
        "19": (1000, 4096),
        "21": (256, 1000),
    }
    assert set(state) == {f"{layer}.{part}" for layer in layers for part in ("weight", "bias")}
    assert sum(value.numel() for value in state.values()) == 4_460_808


def test_c_pdna_has_the_authors_keys_and_shapes() -> None:
    net = c_pdna.CPdnaNet()
    convolutions = {key: tuple(value.shape) for key, value in net.state_dict().items() if value.ndim == 4}
    expected = {"conv1.weight": (32, 3, 3, 3)}
    for layer, inside in (("layer1", 32), ("layer2", 64)):
        for i in range(3):
            expected[f"{layer}.{i}.conv1.weight"] = (64, inside if i == 0 else 64, 3, 3)
            expected[f"{layer}.{i}.conv2.weight"] = (64, 64, 3, 3)
        expected[f"{layer}.0.shortcut.0.weight"] = (64, inside, 1, 1)
    assert convolutions == expected
    assert not any(key.endswith("bias") and "conv" in key for key in net.state_dict())
    assert net.linear1.weight.shape == (512, 4096)
    assert net.linear2.weight.shape == (144, 512)
    assert sum(parameter.numel() for parameter in net.parameters()) == 2_604_336


@torch.no_grad()
def test_c_pdq_computes_what_its_keys_say() -> None:
    net = c_pdq_net(seed=3)
    s = net.state_dict()

    def conv(x: torch.Tensor, key: str, stride: int = 1, padding: int = 0) -> torch.Tensor:
        return F.conv2d(x, s[f"{key}.weight"], s[f"{key}.bias"], stride, padding)

    x = torch.rand(2, 1, 28, 28)
    h = conv(x, "0", padding=3).relu()
    assert h.shape == (2, 16, 32, 32)
    for i, stride in ((2, 1), (6, 1), (10, 2), (14, 2)):
        inner = conv(h, f"{i}.Ws.0", stride, 1).relu()
        h = (conv(inner, f"{i + 2}.Ws.2", 1, 1) + conv(h, f"{i + 2}.Ws.0", stride)).relu()
    h = F.linear(h.flatten(1), s["19.weight"], s["19.bias"]).relu()
    y = F.linear(h, s["21.weight"], s["21.bias"])
    torch.testing.assert_close(net(x), y - 0.5)


@torch.no_grad()
def test_c_pdna_computes_what_its_keys_say() -> None:
    net = c_pdna_net(seed=3)
    s = net.state_dict()

    def norm(x: torch.Tensor, key: str) -> torch.Tensor:
        scale = s[f"{key}.weight"] / (s[f"{key}.running_var"] + 1e-5).sqrt()
        shift = s[f"{key}.bias"] - s[f"{key}.running_mean"] * scale
        return torch.addcmul(shift[:, None, None], x, scale[:, None, None])

    x = torch.randn(2, 3, 64, 64)
    h = norm(F.conv2d(x, s["conv1.weight"], stride=2), "bn1").relu()
    assert h.shape[2:] == (31, 31)
    for layer in ("layer1", "layer2"):
        for i in range(3):
            key, stride = f"{layer}.{i}", 2 if i == 0 else 1
            inner = norm(F.conv2d(h, s[f"{key}.conv1.weight"], stride=stride, padding=1), f"{key}.bn1").relu()
            inner = norm(F.conv2d(inner, s[f"{key}.conv2.weight"], padding=1), f"{key}.bn2")
            if i == 0:
                h = norm(F.conv2d(h, s[f"{key}.shortcut.0.weight"], stride=2), f"{key}.shortcut.1")
            h = inner + h
    assert float(h.min()) < 0, "nothing follows the sum"
    h = F.linear(h.flatten(1), s["linear1.weight"], s["linear1.bias"])
    torch.testing.assert_close(net(x), F.linear(h, s["linear2.weight"], s["linear2.bias"]), rtol=1e-4, atol=1e-3)


def test_preprocessing() -> None:
    pixels = natural_image(1).pixels
    small = F.interpolate(pixels[None], (28, 28), mode="bilinear", antialias=True)[0]
    grey = 0.299 * small[0] + 0.587 * small[1] + 0.114 * small[2]
    hash_ = from_store("c-pdq", c_pdq_net().state_dict())
    torch.testing.assert_close(hash_.front_end(pixels)[0], grey, atol=1e-5, rtol=0)
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    small = F.interpolate(pixels[None], (64, 64), mode="bilinear", antialias=True)[0]
    hash_ = from_store("c-pdna", c_pdna_net().state_dict())
    torch.testing.assert_close(
        hash_.front_end(pixels), (small - mean[:, None, None]) / std[:, None, None], atol=1e-4, rtol=0
    )


# -- bits and native rules -------------------------------------------------------------------------


def entries(seed: int, spread: float = 60) -> torch.Tensor:
    return 100 + spread * torch.randn(40, 144, generator=torch.Generator().manual_seed(seed))


def test_the_thermometer_code_keeps_the_l1_distance() -> None:
    thermometer = c_pdna.Thermometer()
    one, two = entries(1), entries(2)
    assert float(one.min()) < 0
    assert float(one.max()) > 255
    codes = [thermometer(y) > 0 for y in (one, two)]
    rounded = [y.round().clamp(0, 255) for y in (one, two)]
    hamming = (codes[0] ^ codes[1]).sum(1)
    assert torch.equal(hamming, (rounded[0] - rounded[1]).abs().sum(1).long())
    assert codes[0].shape == (40, c_pdna.BITS)
    torch.testing.assert_close(c_pdna.entries_of(thermometer(one)), one, rtol=0, atol=1e-4)


def test_c_pdna_decides_alike_by_bits_and_by_bytes() -> None:
    hash_ = PerceptualHash(
        "x", "1", c_pdna.BITS, FrontEnd.identity(), c_pdna.Thermometer(), 1799 / c_pdna.BITS, native=c_pdna.NATIVE
    )
    base = entries(3)[:1].clamp(5, 250)
    decisions = []
    # L1 distances around the limit: 1799 matches, 1800 does not.
    for total in (0, 1000, 1799, 1800, 1801, 5000):
        other = base.round()
        other[0, : total % 144] += 1
        other += total // 144
        margins = [c_pdna.Thermometer()(y) for y in (base.round(), other)]
        by_bits = hash_.matches(*(hash_.encode(m) for m in margins))
        native = hash_.with_rule("native")
        by_bytes = native.matches(*(native.encode(m) for m in margins))
        clipped = float((base.round() - other.clamp(0, 255)).abs().sum())
        assert bool(by_bits) == bool(by_bytes) == (clipped < 1800)
        decisions.append(bool(by_bits))
    assert True in decisions
    assert False in decisions


@pytest.mark.parametrize(("flips", "matches"), [(0, True), (89, True), (90, False), (256, False)])
def test_the_native_rule_of_c_pdq(flips: int, matches: bool) -> None:
    margins = torch.randn(256, generator=torch.Generator().manual_seed(0))
    other = margins.clone()
    other[:flips] *= -1
    rule = c_pdq.NATIVE
    assert bool(rule.matches(rule.values(margins), rule.values(other))) is matches


def test_a_bit_is_an_output_above_one_half() -> None:
    net = c_pdq_net()
    with torch.no_grad():
        state = net.state_dict()
        state["21.weight"].zero_()
        state["21.bias"].copy_(torch.linspace(-1, 2, 256))
    hash_ = from_store("c-pdq", net.state_dict())
    assert torch.equal(hash_.code(natural_image(1).pixels), torch.linspace(-1, 2, 256).relu() > 0.5)
    assert hash_.with_rule("native").code(natural_image(1).pixels).sum() == (torch.linspace(-1, 2, 256) > 0.5).sum()


def test_only_some_hashes_have_a_rule_of_their_own() -> None:
    with pytest.raises(InputError, match="hash pdq has no native rule"):
        get_hash("pdq").with_rule("native")
    with pytest.raises(InputError, match="unknown rule 'cosine': use one of hamming, native"):
        get_hash("pdq").with_rule("cosine")


# -- wrong checkpoints -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "other"),
    [("c-pdq", c_pdna.CPdnaNet), ("c-pdna", c_pdq.CPdqNet)],
)
def test_the_other_model_is_refused(name: str, other: type[torch.nn.Module]) -> None:
    with pytest.raises(WeightsError, match=rf"hash {name}: synthetic\.pt: not the weights of this model; missing"):
        from_store(name, other().state_dict())


def test_single_wrong_keys_are_named() -> None:
    good = c_pdq.CPdqNet().state_dict()
    lacking = {key: value for key, value in good.items() if key != "12.Ws.2.bias"}
    with pytest.raises(WeightsError, match=r"missing keys: 12\.Ws\.2\.bias"):
        from_store("c-pdq", lacking)
    with pytest.raises(WeightsError, match=r"unexpected keys: 22\.weight"):
        from_store("c-pdq", {**good, "22.weight": torch.ones(1)})
    with pytest.raises(WeightsError, match=r"wrong shapes: 21\.bias \(100,\) instead of \(256,\)"):
        from_store("c-pdq", {**good, "21.bias": torch.ones(100)})
    with pytest.raises(WeightsError, match=r"key '0\.bias' holds NaN"):
        from_store("c-pdq", {**good, "0.bias": torch.full((16,), torch.nan)})
