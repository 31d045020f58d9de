"""SimDINO from synthetic training checkpoints, and the projection fitted to it."""

from __future__ import annotations

import argparse
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from dualshield.errors import InputError, MissingWeightsError, WeightsError
from dualshield.hashes import PerceptualHash, get_hash
from dualshield.hashes.import_weights import import_weights
from dualshield.hashes.networks.vit import ViTShape
from dualshield.hashes.zoo import simdino, simdino_fit
from dualshield.hashes.zoo.simdino import DEPTHS, Projection
from dualshield.testing import HashContract, natural_image
from dualshield.weights import find, states
from dualshield.weights import numpy_files as arrays
from tests.helpers.command_line import complaint, run
from tests.helpers.synthetic_transformers import State, dino_layout, imported, keep, synthetic, zeros

BITS = 32
V1 = ViTShape(128, 2, 16, side=64)
V2 = replace(V1, layer_scale=True, registers=4)


def checkpoint(shape: ViTShape, seed: int = 1) -> dict[str, Any]:
    """As the authors save it: v1 with everything the training knows, v2 the teacher alone, its blocks in chunks."""
    backbone = synthetic(dino_layout(shape), seed)
    if not shape.layer_scale:
        teacher = {f"_orig_mod.backbone.{key}": value for key, value in backbone.items()}
        teacher["_orig_mod.head.mlp.0.weight"] = torch.zeros(3, shape.width)
        student = {f"_orig_mod.module.backbone.{key}": -value for key, value in backbone.items()}
        return {"student": student, "teacher": teacher, "epoch": 100, "args": argparse.Namespace(arch="vit_base")}
    return {"teacher": chunked(backbone) | {"dino_head.mlp.0.weight": torch.zeros(3, shape.width)}}


def chunked(backbone: State) -> State:
    """Blocks in chunks of one: the chunk's number, then the block's own."""
    return {"backbone." + re.sub(r"^blocks\.(\d+)", r"blocks.\1.\1", key): value for key, value in backbone.items()}


@contextmanager
def tiny(**files: Any) -> Iterator[Path]:
    """Small networks at a small size are known, and these files are imported."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(DEPTHS, 128, 2)
        patch.setattr(simdino, "SIDE", 64)
        patch.setattr(simdino, "RESIZED", 72)
        with imported(**files) as folder:
            yield folder


def photos(count: int = 40) -> Iterator[torch.Tensor]:
    return (photo(seed) for seed in range(1, count + 1))


@lru_cache
def photo(seed: int) -> torch.Tensor:
    return natural_image(seed).pixels


class TestSimDino(HashContract):
    def load(self) -> PerceptualHash:
        with tiny(simdino_vitb=checkpoint(V1)):
            simdino_fit.fit("simdino", photos(), BITS)
            return get_hash("simdino")


class TestSimDinoV2(HashContract):
    def load(self) -> PerceptualHash:
        with tiny(simdino_v2_vitl=checkpoint(V2)):
            simdino_fit.fit("simdino-v2", photos(), BITS)
            return get_hash("simdino-v2")


def test_margins_are_rotated_components() -> None:
    """R V^T (f - mean) by hand, and what V and R have to be."""
    with tiny(simdino_v2_vitb=checkpoint(V2)):
        stored = simdino_fit.fit("simdino-v2", photos(), BITS, seed=5)
        hash_, projection = get_hash("simdino-v2"), Projection.read(stored.path, "simdino-v2")
        vit = simdino.build(checkpoint(V2)["teacher"], "simdino-v2", "synthetic.pth")
        front_end = simdino.front_end()
    assert (projection.bits, projection.seed, projection.images) == (BITS, 5, 40)
    with torch.no_grad():
        features = torch.cat([vit(front_end(pixels)[None]) for pixels in photos()]).double()
    centred = features - features.mean(0)
    torch.testing.assert_close(projection.mean.double(), features.mean(0), atol=1e-5, rtol=0)
    eye = torch.eye(BITS, dtype=torch.float64)
    v, r = projection.components.double(), projection.rotation.double()
    torch.testing.assert_close(v.T @ v, eye, atol=1e-5, rtol=0)
    torch.testing.assert_close(r @ r.T, eye, atol=1e-5, rtol=0)
    # The directions of most variance, the largest first.
    found, best = (centred @ v).square().sum(0), torch.linalg.svdvals(centred).square()[:BITS]
    assert (found[:-1] >= found[1:] * (1 - 1e-3)).all()
    assert found.sum() > 0.99 * best.sum()
    expected = r @ (v.T @ centred[0])
    margins = hash_.margins(natural_image(1).pixels[None])[0].double()
    torch.testing.assert_close(margins, expected, atol=1e-4, rtol=0)
    assert torch.equal(hash_.code(natural_image(1).pixels), margins > 0)


def test_a_margin_of_zero_is_a_zero(tmp_path: Path) -> None:
    state = checkpoint(V2)
    state["teacher"]["backbone.norm.weight"] = torch.zeros(128)
    with tiny(simdino_v2_vitb=state):
        features = state["teacher"]["backbone.norm.bias"]
        simple = Projection(find("simdino-v2-vitb").sha256, 8, 0, 9, features, torch.eye(128)[:, :8], torch.eye(8))
        simdino_fit.write(simple, tmp_path / "synthetic.npz")
        import_weights("simdino-v2-projection", tmp_path / "synthetic.npz")
        assert not get_hash("simdino-v2").code(natural_image(1).pixels).any()


def test_the_seed_decides() -> None:
    features = torch.randn(50, 16, generator=torch.Generator().manual_seed(0))
    one, same, other = (simdino_fit.project(features, 8, seed, "0") for seed in (1, 1, 2))
    for name in ("mean", "components", "rotation"):
        assert torch.equal(getattr(one, name), getattr(same, name))
    assert not torch.allclose(one.rotation, other.rotation)
    before = torch.random.get_rng_state()
    simdino_fit.project(features, 8, 1, "0")
    assert torch.equal(torch.random.get_rng_state(), before)


def test_the_projection_belongs_to_its_network(tmp_path: Path) -> None:
    with tiny(simdino_vitb=checkpoint(V1)):
        simdino_fit.fit("simdino", photos(9), 8)
        assert get_hash("simdino").bits == 8
        keep("simdino-vitb", checkpoint(V1, seed=2), tmp_path)
        with pytest.raises(MissingWeightsError, match=r"another network .*weights fit simdino --images DIR"):
            get_hash("simdino")


@pytest.mark.parametrize("name", ["simdino", "simdino-v2"])
def test_what_is_missing_is_named(name: str) -> None:
    with tiny(), pytest.raises(MissingWeightsError, match=f"weights import {name}-vitb FILE.*import {name}-vitl FILE"):
        get_hash(name)
    files = {f"{name.replace('-', '_')}_vitb": checkpoint(V1 if name == "simdino" else V2)}
    with tiny(**files), pytest.raises(MissingWeightsError, match=f"run: dualshield weights fit {name} --images DIR$"):
        get_hash(name)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("simdino", ViTShape(768, 12, 16)),
        ("simdino-v2", ViTShape(768, 12, 16, layer_scale=True, registers=4)),
        ("simdino-v2", ViTShape(768, 12, 16, layer_scale=True)),
    ],
)
def test_the_real_layout_is_taken(name: str, shape: ViTShape) -> None:
    teacher = {f"backbone.{key}": value for key, value in zeros(dino_layout(shape)).items()}
    vit = simdino.build(teacher, name, "synthetic.pth")
    assert len(vit.blocks) == 12
    assert vit.has_registers == bool(shape.registers)


def test_the_large_network_has_24_blocks_of_1024() -> None:
    """Only looked at, not built: it has 300 million numbers."""
    shape = ViTShape(1024, 24, 16, layer_scale=True, registers=4)
    teacher = {f"backbone.{key}": value for key, value in zeros(dino_layout(shape)).items()}
    del teacher["backbone.blocks.23.norm1.weight"]
    with pytest.raises(WeightsError, match=r"missing keys: blocks\.23\.norm1\.weight$"):
        simdino.build(teacher, "simdino-v2", "synthetic.pth")


def test_networks_are_not_mistaken_for_each_other() -> None:
    v1, v2 = checkpoint(V1), checkpoint(V2)
    without = {"teacher": {key: value for key, value in v2["teacher"].items() if ".1.1." not in key}}
    cases: list[tuple[str, Any, str]] = [
        ("simdino-v2", v1, r"missing keys: blocks\.0\.ls1\.gamma"),
        ("simdino", v2, "unexpected keys: register_tokens, mask_token"),
        ("simdino-v2", without, r"missing keys: blocks\.1\.norm1\.weight"),
        ("simdino-v2", v2["teacher"], "expected a checkpoint with an entry 'teacher'"),
        ("simdino-v2", {"teacher": {"x": torch.zeros(1)}}, "backbone.cls_token of width 768 or 1024"),
        ("simdino-v2", {"teacher": {"backbone.cls_token": torch.zeros(1, 1, 384)}}, r"found shape \(1, 1, 384\)"),
        ("simdino-v2", {"teacher": {**v2["teacher"], "backbone.register_tokens": torch.zeros(4)}}, "register_tokens"),
    ]
    for name, content, match in cases:
        with pytest.raises(WeightsError, match=match), tiny(**{f"{name.replace('-', '_')}_vitb": content}):
            pass


GOOD = Projection("0" * 64, 8, 1, 20, torch.zeros(128), torch.zeros(128, 8), torch.eye(8))


def fields(**changes: Any) -> dict[str, Any]:
    values = {name: np.asarray(getattr(GOOD, name)) for name in Projection.__dataclass_fields__}
    return {name: value for name, value in {**values, **changes}.items() if value is not None}


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"rotation": None}, "expected the arrays backbone, .*, found"),
        ({"extra": np.zeros(3)}, "extra"),
        ({"mean": np.array([{"code": 1}], dtype=object)}, "not a readable .npz file .*allow_pickle"),
        ({"mean": np.full(128, np.nan, np.float32)}, "finite"),
        ({"mean": np.zeros(127, np.float32)}, "do not give 8 bits"),
        ({"mean": np.zeros(128)}, "holds float64"),
        ({"bits": np.asarray(9)}, "do not give 9 bits"),
        ({"bits": np.asarray(0)}, "do not give 0 bits"),
        ({"bits": np.asarray("8")}, "'bits' holds str"),
        ({"backbone": np.asarray(8)}, "'backbone' holds int"),
        ({"seed": np.zeros(3, np.float32)}, "'seed' holds Tensor"),
        ({"rotation": np.asarray(1.5)}, "'rotation' holds float"),
    ],
)
def test_bad_projections(changes: dict[str, Any], match: str, tmp_path: Path) -> None:
    file = tmp_path / "synthetic.npz"
    np.savez(file, **fields(**changes))
    with tiny(), pytest.raises(WeightsError, match=match) as caught:
        import_weights("simdino-projection", file)
    assert "synthetic.npz" in str(caught.value)


def test_damaged_projections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "MAX_ARCHIVE_BYTES", 1 << 20)
    file = tmp_path / "synthetic.npz"
    np.savez(file, **fields())
    good = file.read_bytes()
    with tiny():
        import_weights("simdino-projection", file)
        for content in (b"", b"no archive", good[: len(good) // 2], good.replace(b"NUMPY", b"NUMPX")):
            file.write_bytes(content)
            with pytest.raises(WeightsError, match=r"not a readable \.npz file"):
                import_weights("simdino-projection", file)
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in Projection.__dataclass_fields__:
                archive.writestr(f"{name}.npy", bytes(1 << 18))
        with pytest.raises(WeightsError, match="would expand to"):
            import_weights("simdino-projection", file)
        assert [state.weight.name for state in states() if state.stored] == ["simdino-projection"]


def test_too_few_images_or_bits() -> None:
    with tiny(simdino_vitb=checkpoint(V1)):
        for count, bits, match in ((8, 8, "too few"), (0, 8, "0 images"), (3, 129, "128"), (3, 0, "0 bits")):
            with pytest.raises(InputError, match=match):
                simdino_fit.fit("simdino", photos(count), bits)


def test_fit_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(1)
    for i in range(12):
        Image.fromarray(rng.integers(0, 256, (24, 24, 3), np.uint8)).save(tmp_path / f"{i:02}.png")
    (tmp_path / "broken.png").write_bytes(b"no image")
    fit = ("weights", "fit", "simdino", "--images")
    with tiny(simdino_vitb=checkpoint(V1)):
        assert run(*fit, tmp_path, "--bits", 8, "--seed", 3) == 0
        out, err = capsys.readouterr()
        assert "skipped" in err
        assert "use it with --hash simdino" in out
        assert get_hash("simdino").bits == 8
        projection = Projection.read(find("simdino-projection").path, "simdino")
        assert (projection.images, projection.seed) == (12, 3)
        assert run(*fit, tmp_path / "nowhere") == 2
        assert "no such folder" in complaint(capsys)
        assert run(*fit, tmp_path, "--bits", 16) == 2
        capsys.readouterr()
        assert run("weights", "fit", "simdino-v2", "--images", tmp_path) == 3
        assert "weights import simdino-v2-vitb FILE" in complaint(capsys)
        for wrong in (("weights", "fit", "pdq", "--images", tmp_path), (*fit, tmp_path, "--seed", -1)):
            assert run(*wrong) == 2
            complaint(capsys)
        assert run("weights", "list") == 0
        assert "dualshield weights fit simdino-v2 --images DIR" in capsys.readouterr().out
        # What was fitted before is still there.
        assert get_hash("simdino").bits == 8
