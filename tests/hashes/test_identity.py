"""What a hash is called, briefly, and what tells it from others."""

from __future__ import annotations

import hashlib
import json
import re
import struct
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from dualshield.errors import InputError
from dualshield.hashes import HashState, get_hash
from dualshield.hashes.external.black_box import black_box
from dualshield.hashes.native_rule import NativeRule, l1
from dualshield.hashes.parameters import digest_of_parameters
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images import FrontEnd

OWN = NativeRule("an L1 distance below 3", lambda margins: margins, l1, 3)


def linear(seed: int, *, weights: dict[str, str] | None = None) -> PerceptualHash:
    layer = nn.Linear(64, 8)
    with torch.no_grad():
        layer.weight.normal_(generator=torch.Generator().manual_seed(seed))
        layer.bias.zero_()
    front_end = FrontEnd.identity().grey().resize(8, 8)
    network = nn.Sequential(nn.Flatten(), layer)
    return PerceptualHash("mine", "2", 8, front_end, network, weights=weights or {}, native=OWN)


def test_the_name_of_a_hash_is_short() -> None:
    pdq = get_hash("pdq")
    assert repr(pdq) == "<PerceptualHash pdq 1, 256 bits, threshold 0.2>"
    assert repr(pdq.with_lowpass(32)) == "<PerceptualHash pdq 1, 256 bits, threshold 0.2, low-pass 32>"
    mine = linear(0).with_threshold(0.25).with_rule("native")
    assert repr(mine) == "<PerceptualHash mine 2, 8 bits, threshold 0.25, rule native>"
    assert "PerceptualHash" not in repr(HashState("mine", "ready", "", None, mine))


def test_a_missing_rule_is_named_without_flags() -> None:
    with pytest.raises(InputError, match="use the rule hamming"):
        get_hash("pdq").with_rule("native")


def test_two_loads_are_the_same_hash() -> None:
    one, two = get_hash("pdq").identity, get_hash("pdq").identity
    front_end = one["front_end"]
    assert one == two
    assert one == {
        "name": "pdq",
        "version": "1",
        "bits": 256,
        "input": "1x16x16",
        "front_end": front_end,
        "calls": "",
        "weights": {},
    }
    assert re.fullmatch("[0-9a-f]{64}", front_end)
    assert json.loads(json.dumps(one)) == one


def test_other_parameters_are_another_hash() -> None:
    assert linear(0).identity == linear(0).identity
    assert linear(0).identity != linear(1).identity
    assert list(linear(0).identity["weights"]) == ["parameters"]


def test_files_say_enough() -> None:
    files = {"b.pt": "22", "a.pt": "11"}
    one, two = linear(0, weights=files).identity, linear(1, weights=files).identity
    assert one == two
    assert list(one["weights"].items()) == [("a.pt", "11"), ("b.pt", "22")]


def test_how_it_is_used_is_no_part_of_it() -> None:
    hash_ = linear(0)
    for other in (hash_.with_threshold(0.1), hash_.with_rule("native"), hash_.to("cpu")):
        assert other.identity == hash_.identity


def test_another_front_end_is_another_hash() -> None:
    hash_ = linear(0)
    fronts = [
        hash_.front_end,
        hash_.with_lowpass(4).front_end,
        hash_.with_lowpass(6).front_end,
        FrontEnd.identity().grey().resize(8, 8, "bicubic"),
        FrontEnd.identity().grey().resize(8, 8, antialias=False),
        FrontEnd.identity().mix([[1, 0, 0]]).resize(8, 8),
        FrontEnd.identity().grey().resize(8, 8).normalise(0.5, 0.5),
    ]
    assert len({replace(hash_, front_end=front).identity["front_end"] for front in fronts}) == len(fronts)
    again = FrontEnd.identity().grey().resize(8, 8)
    assert replace(hash_, front_end=again).identity == hash_.identity
    assert hash_.with_lowpass(4).identity == {**hash_.identity, "front_end": fronts[1].digest}
    assert hash_.with_lowpass(None).identity == hash_.identity


def test_black_boxes_have_only_their_files() -> None:
    class Inside(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(1, 1)

        def forward(self, pixels: object) -> list[int]:
            return [0, 1] * 4

    box = black_box(Inside(), name="box", bits=8, side=8, takes="array")
    assert next(box.network.parameters(), None) is not None
    assert box.identity["weights"] == {}


class Parts(nn.Module):
    def __init__(self, **tensors: torch.Tensor) -> None:
        super().__init__()
        for name, tensor in tensors.items():
            self.register_parameter(name, nn.Parameter(tensor, requires_grad=False))


def test_digests_of_parameters() -> None:
    tensor = torch.arange(6.0).view(2, 3)
    known = digest_of_parameters(Parts(a=tensor))
    written = b"'a' torch.float32 [2, 3]\n" + struct.pack("<6f", *range(6))
    assert known == hashlib.sha256(written).hexdigest()
    others = [
        Parts(b=tensor),
        Parts(a=tensor.view(3, 2)),
        Parts(a=tensor.view(torch.int32)),
        Parts(a=tensor, b=torch.empty(0)),
        Parts(a=-tensor),
    ]
    assert len({known, *map(digest_of_parameters, others)}) == 6
    # Order in memory and of registration are no part of it.
    assert digest_of_parameters(Parts(a=tensor.T.contiguous().T)) == known
    scalar = torch.tensor(2.0)
    assert digest_of_parameters(Parts(a=tensor, b=scalar)) == digest_of_parameters(Parts(b=scalar, a=tensor))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.complex64, torch.bool])
def test_every_type_has_a_digest(dtype: torch.dtype) -> None:
    one, two = (digest_of_parameters(Parts(a=torch.tensor([0, x]).to(dtype))) for x in (0, 1))
    assert one != two


def test_buffers_count_but_not_their_last_digits() -> None:
    """Statistics of a batch norm are part of the function; cosines that were computed may be rounded elsewhere."""

    def digest(values: torch.Tensor) -> str | None:
        network = nn.Module()
        network.register_buffer("computed", values)
        return digest_of_parameters(network)

    values = torch.rand(300, generator=torch.Generator().manual_seed(3))
    assert digest(values) == digest(values * (1 + 1e-15 * torch.ones(300, dtype=torch.float64)))
    assert digest(values) != digest(values + 1e-3)
    assert digest(torch.zeros(3)) != digest(torch.ones(3))
    assert digest(torch.tensor([1, 2])) != digest(torch.tensor([1, 3]))
    assert digest_of_parameters(nn.Module()) is None


def test_black_boxes_that_ask_somebody_else_are_others(tmp_path: Path) -> None:
    """Arguments of a program, and how an image is handed over, are part of the hash."""
    script = tmp_path / "hash.sh"
    script.write_text("#!/bin/sh\necho 0f\n")
    script.chmod(0o755)

    def card(name: str, command: str) -> PerceptualHash:
        file = tmp_path / name
        file.write_text(f"name: their\nbits: 8\nside: 8\ncommand: {command}\n")
        return get_hash(str(file))

    one, two, three = (card(f"{i}.yaml", c) for i, c in enumerate(("[./hash.sh, a]", "[./hash.sh, b]", "[echo, 0f]")))
    assert len({str(hash_.identity) for hash_ in (one, two, three)}) == 3
    assert str(tmp_path) not in str(one.identity)
    boxes = [black_box(lambda pixels: "0f", name="box", bits=8, side=8, takes=takes) for takes in ("image", "array")]
    assert boxes[0].identity != boxes[1].identity


def test_files_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    class Half(nn.Module):
        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            return pixels.flatten(1)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated for new models, and still what existing ones are shipped in
        torch.jit.trace(Half(), torch.rand(2, 1, 2, 2)).save(str(tmp_path / "m.pt"))  # type: ignore[no-untyped-call]
    identities = set()
    for seed in (1, 2):
        for folder in ("matrix", "mean"):
            (tmp_path / folder).mkdir(exist_ok=True)
        rng = np.random.default_rng(seed)
        np.save(tmp_path / "matrix" / "p.npy", rng.normal(size=(8, 4)).astype(np.float32))
        np.save(tmp_path / "mean" / "p.npy", np.zeros(4, np.float32))  # the same in both
        (tmp_path / "card.yaml").write_text(
            "name: their\nbits: 8\nmodel: m.pt\ninput: {size: [2, 2], colour: grey}\n"
            "projection: {matrix: matrix/p.npy, mean: mean/p.npy}\n"
        )
        identities.add(str(get_hash(str(tmp_path / "card.yaml")).identity))
    assert len(identities) == 2
