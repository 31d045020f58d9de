"""DINOHash from synthetic files in the authors' formats."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dualshield.engines.choose import make_engine
from dualshield.errors import CardError, DualShieldError, MissingWeightsError, WeightsError
from dualshield.hashes import PerceptualHash, get_hash
from dualshield.hashes.external.onnx import OnnxModule
from dualshield.hashes.networks.vit import ViTShape
from dualshield.hashes.networks.vit_checkpoints import resized_positions
from dualshield.hashes.zoo import dinohash
from dualshield.hashes.zoo.dinohash import BASE, SMALL, Components, Exported, Variant
from dualshield.testing import HashContract, natural_image
from tests.helpers.synthetic_onnx import dinohash_onnx
from tests.helpers.synthetic_transformers import State, dino_layout, imported, keep, synthetic, zeros

TINY = Variant("dinohash", 96, ViTShape(128, 2, 14, side=56, registers=4, layer_scale=True, stored_grid=7))


def npy(array: Any, **options: Any) -> bytes:
    file = BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def tiny_state() -> State:
    return synthetic(dino_layout(TINY.shape), seed=3)


def projection() -> tuple[torch.Tensor, torch.Tensor]:
    """Orthonormal rows, and the mean of the features of some images, so that bits are about as often 1 as 0."""
    vit = TINY.vit(tiny_state(), "synthetic.pth")
    pixels = torch.stack([natural_image(seed).pixels for seed in range(1, 7)])
    with torch.no_grad():
        means = vit(dinohash.front_end(56)(pixels)).mean(0)
    rows, _ = torch.linalg.qr(torch.randn(128, 128, generator=torch.Generator().manual_seed(4)))
    return rows, means


def tiny_files() -> dict[str, Any]:
    rows, means = projection()
    # As the authors save them: float64 in Fortran order with more components than are used, and means as a row.
    return {
        "dinohash_state": tiny_state(),
        "dinohash_pca": npy(np.asfortranarray(rows.double().numpy())),
        "dinohash_means": npy(means[None].numpy()),
    }


def tiny_onnx(*, dynamic: bool) -> bytes:
    rows, means = projection()
    return dinohash_onnx(tiny_state(), TINY.shape, rows[:96], means, dynamic=dynamic)


def loaded(**files: Any) -> PerceptualHash:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dinohash, "SMALL", TINY)
        with imported(**files):
            return get_hash("dinohash")


class TestFromState(HashContract):
    def load(self) -> PerceptualHash:
        return loaded(**tiny_files())


class TestFromOnnx(HashContract):
    def load(self) -> PerceptualHash:
        return loaded(dinohash_onnx=tiny_onnx(dynamic=True))

    def test_runs_on_the_fast_engine(self) -> None:
        assert make_engine(self.hash).name == "openvino"


@pytest.mark.parametrize("dynamic", [False, True])
def test_onnx_is_the_state_with_aliased_positions(dynamic: bool, tmp_path: Path) -> None:
    """onnxruntime, our executor and our transformer agree; antialias alone makes the difference to the state_dict."""
    ort = pytest.importorskip("onnxruntime")
    file = tmp_path / "synthetic.onnx"
    file.write_bytes(tiny_onnx(dynamic=dynamic))
    x = torch.randn(3, 3, 56, 56, generator=torch.Generator().manual_seed(0))
    session = ort.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    expected = np.concatenate([session.run(None, {"input": image.numpy()})[0] for image in x[:, None]])
    with torch.no_grad():
        found = Exported(OnnxModule(file))(x)
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-4)
        rows, means = projection()
        vit = TINY.vit(tiny_state(), "synthetic.pth")
        smooth = Components(vit, rows[:96], means)(x)
        vit.pos_embed.copy_(resized_positions(tiny_state()["pos_embed"], 4, antialias=False))
        torch.testing.assert_close(Components(vit, rows[:96], means)(x), found, atol=1e-4, rtol=0)
    assert float((smooth - found).abs().max()) > 0.05
    assert OnnxModule(file).batched


def test_bits_are_the_first_components_in_order() -> None:
    hash_ = loaded(**tiny_files())
    assert hash_.bits == 96
    rows, means = projection()
    pixels = natural_image(1).pixels
    with torch.no_grad():
        features = TINY.vit(tiny_state(), "x")(dinohash.front_end(56)(pixels[None]))[0]
    expected = np.array([float(row.double() @ (features - means).double()) for row in rows[:96]])
    np.testing.assert_allclose(hash_.margins(pixels[None])[0].numpy(), expected, atol=1e-4)
    assert hash_.code(pixels).tolist() == [value >= 0 for value in expected]


def test_a_margin_of_zero_is_a_one() -> None:
    """The authors compare with >=, and this is where it shows."""
    state = tiny_state()
    # A network that gives the same features for every image, and means equal to them.
    state["norm.weight"], state["norm.bias"] = torch.zeros(128), torch.linspace(-1, 1, 128)
    hash_ = loaded(**tiny_files() | {"dinohash_state": state, "dinohash_means": npy(state["norm.bias"].numpy())})
    pixels = natural_image(1).pixels
    assert hash_.code(pixels).all()
    cores = hash_.front_end.core(pixels)[None]
    assert all((next(iter(make_engine(hash_, name).run([cores]))) > 0).all() for name in ("torch", "openvino"))


@pytest.mark.parametrize("variant", [SMALL, BASE], ids=lambda variant: variant.name)
def test_the_real_layout_is_taken(variant: Variant) -> None:
    layout = dino_layout(variant.shape)
    assert layout["pos_embed"] == (1, 1370, variant.shape.width)
    vit = variant.vit(zeros(layout), "synthetic.pth")
    assert vit.pos_embed.shape == (1, 257, variant.shape.width)
    assert variant.shape.side == 224
    del layout["blocks.11.ls2.gamma"]
    with pytest.raises(WeightsError, match=r"missing keys: blocks\.11\.ls2\.gamma$"):
        variant.vit(zeros(layout), "synthetic.pth")


def test_the_two_sizes_are_not_exchanged() -> None:
    with pytest.raises(WeightsError, match=r"dinohash-512: x: .*pos_embed \(1, 1370, 384\)"):
        BASE.vit(zeros(dino_layout(SMALL.shape)), "x")


def test_what_is_missing_is_named() -> None:
    with imported(), pytest.raises(MissingWeightsError, match=r"96bit\.onnx from https:.* import dinohash-onnx FILE"):
        get_hash("dinohash")
    with imported(), pytest.raises(MissingWeightsError, match="weights import dinohash-512-state FILE"):
        get_hash("dinohash-512")
    files = tiny_files()
    for absent in ("dinohash_pca", "dinohash_means"):
        rest = {name: content for name, content in files.items() if name != absent}
        with pytest.raises(MissingWeightsError, match=f"weights import {absent.replace('_', '-')} FILE"):
            loaded(**rest)


BAD_ARRAYS = {
    "an object": npy(np.array([{"a": 1}], dtype=object), allow_pickle=True),
    "text": npy(np.full((96, 128), "one")),
    "NaN": npy(np.full((96, 128), np.nan)),
    "no array": b"\x93NUMPY\x01\x00 and nothing",
    "empty": b"",
    "cut off": npy(np.zeros((96, 128)))[:-5],
    "too few components": npy(np.zeros((95, 128))),
    "of another network": npy(np.zeros((96, 384))),
    "one dimension": npy(np.zeros(96 * 128)),
}


@pytest.mark.parametrize("what", BAD_ARRAYS)
def test_bad_components(what: str) -> None:
    with pytest.raises(WeightsError, match=r"^hash dinohash: synthetic\.bin: "):
        loaded(dinohash_pca=BAD_ARRAYS[what])


@pytest.mark.parametrize("array", [np.zeros(127), np.zeros((2, 128)), np.zeros((1, 1, 128)), np.full(128, np.inf)])
def test_bad_means(array: Any) -> None:
    with pytest.raises(WeightsError, match=r"^hash dinohash: synthetic\.bin: "):
        loaded(dinohash_means=npy(array))


def test_bad_onnx() -> None:
    rows, means = projection()
    other = replace(TINY.shape, side=70)
    cases: list[tuple[bytes, type[DualShieldError], str]] = [
        (dinohash_onnx(tiny_state(), TINY.shape, rows[:95], means, dynamic=True), WeightsError, r"\(1, 95\) for one"),
        (dinohash_onnx(tiny_state(), other, rows[:96], means, dynamic=False), WeightsError, r"shape \(3, 70, 70\)"),
        (b"no model", CardError, "synthetic"),
        (tiny_onnx(dynamic=True)[:-100], CardError, "synthetic"),
    ]
    for content, kind, match in cases:
        with pytest.raises(kind, match=match):
            loaded(dinohash_onnx=content)


def test_a_bad_file_does_not_replace_a_good_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dinohash, "SMALL", TINY)
    with imported(**tiny_files()):
        before = get_hash("dinohash").weights
        with pytest.raises(WeightsError):
            keep("dinohash-state", {**tiny_state(), "extra": torch.zeros(1)}, tmp_path)
        assert get_hash("dinohash").weights == before
        assert set(before) == {
            "dinov2_0.0001_500.0_20000_10.pth",
            "dinov2_vits14_reg_PCA.npy",
            "dinov2_vits14_reg_means.npy",
        }
