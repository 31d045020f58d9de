"""ViT2Hash from synthetic checkpoints in the layout of the authors' full state_dict."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from dualshield.errors import MissingWeightsError
from dualshield.hashes import PerceptualHash, get_hash
from dualshield.hashes.networks.vit import ViTShape
from dualshield.hashes.zoo import vit2hash
from dualshield.images import FrontEnd
from dualshield.testing import HashContract, natural_image
from tests.helpers.synthetic_transformers import (
    Small,
    State,
    google_layout,
    imported,
    linear,
    parameters,
    synthetic,
    vit2hash_layout,
    zeros,
)

TINY = ViTShape(128, 2, 16, side=64)
SMALL = Small("vit2hash", vit2hash, TINY)
BITS = 32


def checkpoint() -> State:
    """Its bias is such that the bits of a few images are about as often 1 as 0."""
    state = synthetic(vit2hash_layout(TINY, BITS), seed=2)
    net = SMALL.build(state | {"encoder.bias": torch.zeros(BITS)})
    pixels = torch.stack([natural_image(seed).pixels for seed in range(1, 7)])
    with torch.no_grad():
        return state | {"encoder.bias": -net(front_end(64)(pixels)).mean(0)}


def front_end(side: int) -> FrontEnd:
    return FrontEnd.identity().resize(side, side).normalise((0.5,) * 3, (0.5,) * 3)


class TestViT2Hash(HashContract):
    def load(self) -> PerceptualHash:
        return SMALL.load(checkpoint())


def test_margins_are_the_encoder_of_the_student() -> None:
    """Neither the teacher nor the batch norm nor the classifier has a say."""
    state = checkpoint()
    pixels = natural_image(1).pixels
    hash_ = SMALL.load(state)
    assert hash_.bits == BITS
    with torch.no_grad():
        features = SMALL.build(state).vit(front_end(64)(pixels[None]))[0]
    expected = state["encoder.weight"] @ features + state["encoder.bias"]
    torch.testing.assert_close(hash_.margins(pixels[None])[0], expected, atol=1e-5, rtol=0)
    unused = ("teacher.", "hash_norm.", "vit.head.")
    assert sum(key.startswith(unused) for key in state) > 40
    without = {key: value for key, value in state.items() if not key.startswith(unused)}
    assert torch.equal(SMALL.load(without).margins(pixels[None]), hash_.margins(pixels[None]))


def test_the_real_layout_is_taken() -> None:
    shape = vit2hash.SHAPE
    assert parameters(google_layout(shape, "")) == 86_567_656  # ViT-B/16 with 1000 classes, as published
    for bits in (16, 64):
        net = vit2hash.build(zeros(vit2hash_layout(shape, bits)), "synthetic.pt")
        assert net.encoder.out_features == bits


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda s: s.pop("encoder.weight"), "wrong or missing key: encoder.weight"),
        (lambda s: s.pop("encoder.bias"), "missing keys: encoder.bias;"),
        (lambda s: s.update({"encoder.weight": torch.zeros(BITS)}), "wrong or missing key: encoder.weight"),
        (lambda s: s.update({"encoder.weight": torch.zeros(BITS, 64)}), r"encoder.weight \(32, 64\) instead of"),
        (lambda s: s.pop("vit.transformer.encoder.layer.1.attn.key.bias"), "encoder.layer.1.attn.key.bias;"),
        (lambda s: s.update({"vit.extra": torch.zeros(1)}), "unexpected keys: vit.extra;"),
        (lambda s: s.update(linear("classifier", 3, 4)), "holds tuple"),
        (
            lambda s: s.update({"vit.transformer.encoder.layer.0.attn.query.weight": torch.zeros(384, 128)}),
            r"attn.query.weight \(384, 128\) instead of \(128, 128\)",
        ),
        (lambda s: s["encoder.weight"].fill_(torch.nan), "'encoder.weight' holds NaN"),
    ],
)
def test_other_checkpoints_are_refused(change: Callable[[State], object], match: str) -> None:
    state = synthetic(vit2hash_layout(TINY, BITS))
    change(state)
    SMALL.refuses(state, match)


def test_what_is_missing_is_named() -> None:
    with imported(), pytest.raises(MissingWeightsError, match=r"AKAGB/IPHash.* weights import vit2hash FILE$"):
        get_hash("vit2hash")
