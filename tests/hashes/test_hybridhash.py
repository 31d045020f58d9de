"""HybridHash from synthetic checkpoints in the authors' layout, against a second implementation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from dualshield.errors import MissingWeightsError, WeightsError
from dualshield.hashes import PerceptualHash, get_hash
from dualshield.hashes.networks.nest import NestShape, WholeImageAttention, attend
from dualshield.hashes.zoo import hybridhash
from dualshield.images import FrontEnd
from dualshield.images.frontend import IMAGENET_MEAN, IMAGENET_STD
from dualshield.testing import HashContract, natural_image
from tests.helpers import reference_transformers as reference
from tests.helpers.synthetic_transformers import Small, State, hybridhash_layout, imported, parameters, synthetic, zeros

TINY = NestShape(widths=(16, 32, 64), depths=(1, 1, 2), heads=(2, 4, 8))
SMALL = Small("hybridhash", hybridhash, TINY)
BITS = 48


def checkpoint() -> State:
    """Its bias is such that the bits of a few images are about as often 1 as 0."""
    state = synthetic(hybridhash_layout(TINY, BITS), seed=2, scale=0.5)
    net = SMALL.build(state | {"hashlayer_train.conv2.bias": torch.zeros(BITS)})
    pixels = torch.stack([natural_image(seed).pixels for seed in range(1, 7)])
    resized = FrontEnd.identity().resize(256, 256).centre_crop(224, 224).normalise(IMAGENET_MEAN, IMAGENET_STD)
    with torch.no_grad():
        return state | {"hashlayer_train.conv2.bias": -net(resized(pixels)).mean(0)}


class TestHybridHash(HashContract):
    def load(self) -> PerceptualHash:
        return SMALL.load(checkpoint())


def test_margins() -> None:
    state = synthetic(hybridhash_layout(TINY, 16), seed=1)
    image = torch.randn(3, 224, 224, generator=torch.Generator().manual_seed(1))
    expected = reference.hybridhash(reference.arrays(state), image.double().numpy(), TINY.heads, TINY.depths)
    with torch.no_grad():
        found = SMALL.build(state)(torch.stack([image, -image]))
    assert found.shape == (2, 16)
    np.testing.assert_allclose(found[0].numpy(), expected, atol=1e-4)


def test_heads_are_merged_channel_major() -> None:
    """One token: attention is the identity on v, so its order can be read off."""
    qkv = torch.cat([torch.zeros(1, 1, 16), torch.arange(8.0).reshape(1, 1, 8)], -1)
    assert attend(qkv, heads=2)[0, 0].tolist() == [0, 4, 1, 5, 2, 6, 3, 7]


def test_tokens_of_the_interaction_are_runs_in_memory() -> None:
    """Four averages of eight channels: the first token holds both channels 0 and 1, at all four places."""
    module = WholeImageAttention(8, block=2, side=2)
    seen = []
    module.qkv.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    values = torch.arange(8.0)[:, None, None] * 10 + torch.tensor([[0.0, 1.0], [2.0, 3.0]])
    with torch.no_grad():
        module(values.repeat_interleave(2, 1).repeat_interleave(2, 2)[None])
    assert seen[0][0, 0].tolist() == [0, 1, 2, 3, 10, 11, 12, 13]
    assert seen[0].shape == (1, 4, 8)


def test_the_real_layout_is_taken() -> None:
    shape = hybridhash.SHAPE
    assert shape.side == 224
    # What the authors' log says of 16 bits.
    assert round(parameters(hybridhash_layout(shape, 16)) / 1e6, 2) == 55.57
    for bits in (16, 32, 48, 64):
        layout = hybridhash_layout(shape, bits)
        net = hybridhash.build(zeros(layout), "synthetic.pt")
        assert net.hashlayer_train.conv2.out_channels == bits
        own = {key: tuple(value.shape) for key, value in net.state_dict().items()}
        assert own == {key: value for key, value in layout.items() if not key.startswith("FcLayer.")}


def test_a_whole_network_of_the_real_size_runs() -> None:
    layout = hybridhash_layout(hybridhash.SHAPE, 64)
    net = hybridhash.build(synthetic(layout), "synthetic.pt")
    with torch.no_grad():
        margins = net(torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(0)))
    assert margins.shape == (1, 64)
    assert torch.isfinite(margins).all()


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda s: s.pop("hashlayer_train.conv2.weight"), "wrong or missing key: hashlayer_train.conv2.weight"),
        (lambda s: s.update({"hashlayer_train.conv2.weight": torch.zeros(48)}), "wrong or missing key"),
        (lambda s: s.pop("levels.2.pool.conv_glo.weight"), "missing keys: levels.2.pool.conv_glo.weight;"),
        (
            lambda s: s.update({"levels.2.pool.conv_glo.bias": torch.zeros(64)}),
            "unexpected keys: levels.2.pool.conv_glo",
        ),
        (lambda s: s.update({"levels.0.pos_embed": torch.zeros(1, 4, 196, 16)}), r"pos_embed \(1, 4, 196, 16\)"),
        (lambda s: s.update({"levels.2.transformer_encoder.2.norm1.weight": torch.zeros(64)}), "unexpected keys"),
    ],
)
def test_other_checkpoints_are_refused(change: Callable[[State], object], match: str) -> None:
    state = synthetic(hybridhash_layout(TINY, BITS))
    change(state)
    SMALL.refuses(state, match)


def test_the_nest_it_starts_from_is_not_a_hash() -> None:
    """The published ImageNet NesT has a classifier and no hash layer."""
    state = {k: v for k, v in synthetic(hybridhash_layout(TINY, BITS)).items() if not k.startswith("hashlayer_train")}
    with pytest.raises(WeightsError, match="hashlayer_train"):
        SMALL.build(state)


def test_what_is_missing_is_named() -> None:
    with imported(), pytest.raises(MissingWeightsError, match=r"shuaichaochao/HybridHash.* import hybridhash FILE$"):
        get_hash("hybridhash")
