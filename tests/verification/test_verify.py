"""Deterministic certificates: no attack inside the radius succeeds, and nothing is certified that should not be."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from dualshield.errors import InputError
from dualshield.hashes import PerceptualHash, registry
from dualshield.hashes.zoo import c_pdna, c_pdq
from dualshield.images import FrontEnd, load_image
from dualshield.testing import natural_image
from dualshield.verification import verify
from dualshield.verification.bounds import bound
from dualshield.verification.program import Program, program_of
from dualshield.verification.region import region_of
from dualshield.verification.relaxation import Interval
from dualshield.verification.verify import _entries, worst_distance
from tests.helpers.command_line import complaint, run
from tests.helpers.small_networks import climb, directions, outputs, small_c_pdna, small_c_pdq
from tests.helpers.synthetic_cnn import c_pdq_net, calm, spread


def small_hash(name: str) -> PerceptualHash:
    """A small network with limits in proportion: a third of the bits, an L1 of 12.5 per entry."""
    network, front_end = {"c-pdq": small_c_pdq, "c-pdna": small_c_pdna}[name]()
    if name == "c-pdq":
        last = network[-1]  # type: ignore[index]
        assert isinstance(last, nn.Linear)
        spread(network, last, front_end, 0.5, 0.5)
        return PerceptualHash(name, "1", 16, front_end, network, native=replace(c_pdq.NATIVE, limit=6))
    spread(network, network[0].linear2, front_end, 100, 60)  # type: ignore[index]
    native = replace(c_pdna.NATIVE, limit=150)
    return PerceptualHash(name, "1", 12 * 255, front_end, network, 149 / (12 * 255), native=native)


HASHES = ["c-pdq", "c-pdna"]


@pytest.mark.parametrize(("norm", "space"), [("l2", "canonical"), ("linf", "canonical"), ("l2", "input")])
@pytest.mark.parametrize("name", HASHES)
def test_nothing_inside_the_radius_evades(name: str, norm: str, space: str) -> None:
    hash_, image = small_hash(name), natural_image(1)
    result = verify(image, hash_, norm=norm, space=space, tolerance=1.2)
    assert 0 < result.radius < result.next_radius <= 1.2 * result.radius * (1 + 1e-9)
    assert result.distance_bound < result.limit == hash_.native.limit  # type: ignore[union-attr]
    program = program_of(hash_.network, hash_.front_end.shape)
    region = region_of(hash_.front_end, image.pixels, norm, space).at(result.radius)
    reference = hash_.native.values(hash_.margins(image.pixels[None]))[0].double()  # type: ignore[union-attr]
    start = outputs(hash_.network, region.centre[None])[0]
    # An attacker who pushes every entry away from where it is, and one with random wishes.
    away = torch.where(reference > 0.5, -1.0, 1.0) if name == "c-pdq" else torch.where(start > 100, -1.0, 1.0)
    generator = torch.Generator().manual_seed(0)
    wishes = torch.randint(0, 2, (40, len(away)), generator=generator).double() * 2 - 1
    tried = [climb(hash_.network, region, torch.cat([away[None].double(), wishes]), steps=20)]
    tried.append(region.centre + result.radius * directions(region, 100, 1))
    distances = (program.post(outputs(hash_.network, torch.cat(tried))) - reference).abs().sum(1)
    assert float(distances.max()) <= result.distance_bound
    assert float(distances.max()) > 0, "the attack does something"


@pytest.mark.parametrize("name", HASHES)
def test_smaller_radii_are_certified_and_larger_ones_end(name: str) -> None:
    hash_, image = small_hash(name), natural_image(2)
    result = verify(image, hash_, tolerance=1.2)
    program = program_of(hash_.network, hash_.front_end.shape)
    region = region_of(hash_.front_end, image.pixels, "l2", "canonical")
    reference = hash_.native.values(hash_.margins(image.pixels[None]))[0].double()  # type: ignore[union-attr]
    found = [
        worst_distance(program, bound(program, region.at(factor * result.radius)).output, reference)
        for factor in (0.01, 0.3, 0.6, 0.9, 1.0)
    ]
    assert found == sorted(found)
    assert found[-1] == result.distance_bound
    far = worst_distance(program, bound(program, region.at(result.next_radius)).output, reference)
    assert far >= result.limit


def test_entries_may_move_in_opposite_directions() -> None:
    """The example on which the published rule fails: (0.6 - x, 0.4 + x) for |x| <= 0.2 flips both bits."""
    program = Program((1, 1, 1), lambda y: (y > 0.5).double())
    layer = nn.Linear(1, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[-1.0], [1.0]]))
        layer.bias.copy_(torch.tensor([0.6, 0.4]))
    program.conv(layer)
    outputs_ = Interval(torch.tensor([0.4, 0.2]).double(), torch.tensor([0.8, 0.6]).double())
    reference = torch.tensor([1.0, 0.0]).double()
    assert worst_distance(program, outputs_, reference) == 2
    at_once = [(program.post(end) - reference).abs().sum() for end in (outputs_.low, outputs_.high)]
    assert max(at_once) == 1


def test_bytes_are_rounded_and_cut_off() -> None:
    hash_ = small_hash("c-pdna")
    program = program_of(hash_.network, hash_.front_end.shape)
    low = torch.tensor([-40.0, 10.4, 250.0] + [0.0] * 9).double()
    high = torch.tensor([-3.0, 10.6, 400.0] + [0.0] * 9).double()
    reference = torch.tensor([0.0, 10.0, 252.0] + [0.0] * 9).double()
    assert worst_distance(program, Interval(low, high), reference) == 0 + 1 + 3


def test_the_stricter_rule_has_the_smaller_radius() -> None:
    hash_, image = small_hash("c-pdq"), natural_image(1)
    strict = verify(image, hash_.with_threshold(1 / 16), rule="hamming", tolerance=2)
    assert strict.limit == 2
    assert strict.radius < verify(image, hash_, tolerance=2).radius


def test_radius_in_the_uploads_own_pixels(photo_files: list[Path]) -> None:
    image = load_image(photo_files[0])
    result = verify(image, small_hash("c-pdq"), tolerance=2)
    assert image.upload_norm is not None
    assert result.radius_upload == pytest.approx(result.radius / image.upload_norm)
    assert verify(image, small_hash("c-pdq"), tolerance=2, space="input").radius_upload is None


def test_no_radius_in_pixels_of_an_unknown_upload() -> None:
    image = natural_image(1)
    assert image.upload_norm is None
    result = verify(image, small_hash("c-pdq"), tolerance=2)
    assert result.radius > 0
    assert result.radius_upload is None


def test_without_a_radius_the_distance_is_that_of_the_image_itself() -> None:
    """Every output is on the boundary, so each bit may be either."""
    hash_ = small_hash("c-pdq")
    last = hash_.network[-1]  # type: ignore[index]
    assert isinstance(last, nn.Linear)
    nn.init.zeros_(last.weight)
    nn.init.constant_(last.bias, 0.5)
    result = verify(natural_image(1), hash_)
    assert result.radius == 0
    assert result.distance_bound == 16


def test_bounds_that_are_no_numbers_certify_nothing() -> None:
    program = Program((1, 1, 1), lambda y: (y > 0.5).double())
    nothing = torch.tensor([float("nan"), 0.1]).double()
    assert worst_distance(program, Interval(nothing, nothing), torch.zeros(2).double()) == float("inf")


def test_a_tie_is_what_the_rule_makes_of_it() -> None:
    """Authors round to the even byte, bits round down."""
    hash_ = small_hash("c-pdna")
    program = program_of(hash_.network, hash_.front_end.shape)
    margins = c_pdna.Thermometer()(torch.tensor([[1.5, 2.5, 3.0] + [0.0] * 9]))[0]
    assert _entries(hash_.with_rule("native"), margins, program)[:3].tolist() == [2, 2, 3]
    assert _entries(hash_.with_rule("hamming"), margins, program)[:3].tolist() == [1, 2, 3]


def test_the_bits_need_no_native_rule() -> None:
    hash_ = small_hash("c-pdq")
    plain = verify(natural_image(1), replace(hash_, native=None), rule="hamming", tolerance=2)
    assert plain.radius == verify(natural_image(1), hash_, rule="hamming", tolerance=2).radius


def test_bad_parameters(toy_hash: PerceptualHash) -> None:
    with pytest.raises(InputError, match="only c-pdq and c-pdna can be verified"):
        verify(natural_image(1), toy_hash)
    with pytest.raises(InputError, match="tolerance 1 is not a factor above 1"):
        verify(natural_image(1), small_hash("c-pdq"), tolerance=1)


# -- the real size, and the command ----------------------------------------------------------------


def test_bounds_of_the_real_size() -> None:
    """C-PDQ as published, with synthetic weights that are small, as certifiable training makes them."""
    net = calm(c_pdq_net()).eval()
    front_end = FrontEnd.identity().grey().resize(28, 28)
    program = program_of(net, front_end.shape)
    assert program.nodes[-1].shape == (256, 1, 1)
    region = region_of(front_end, natural_image(1).pixels, "l2", "canonical").at(0.02)
    wide, tight = (bound(program, region, refine=refine).output for refine in (False, True))
    assert (tight.high - tight.low).mean() < 0.1 * (wide.high - wide.low).mean()
    goals = torch.eye(256, dtype=torch.float64)[::32]
    found = outputs(
        net, torch.cat([region.centre + 0.02 * directions(region, 20, 1), climb(net, region, goals, steps=3)])
    )
    assert (found >= tight.low).all()
    assert (found <= tight.high).all()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command meets the small network under the name c-pdq."""
    monkeypatch.setitem(sys.modules, "small_c_pdq", SimpleNamespace(load=lambda: small_hash("c-pdq")))
    monkeypatch.setitem(registry.BUILT_IN, "c-pdq", "small_c_pdq")


@pytest.mark.usefixtures("small")
def test_the_command(photo_files: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify", photo_files[0], "--tolerance", "2", "--json") == 0
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert err == ""
    assert (result["hash"], result["norm"], result["space"], result["rule"]) == (
        "c-pdq",
        "l2",
        "canonical-512",
        "native",
    )
    assert result["limit"] == 6
    assert 0 < result["radius"] < result["next_radius"]
    assert result["distance_bound"] < 6
    assert run("verify", photo_files[0], "--norm", "linf", "--tolerance", "2", "--rule", "hamming") == 0
    out = capsys.readouterr().out
    assert "in linf on 512x512 pixels" in out
    assert "hamming rule: a distance below 4" in out


@pytest.mark.usefixtures("small")
def test_a_hash_may_be_named_and_an_image_be_a_file(photo_files: list[Path]) -> None:
    by_name, by_default = verify(photo_files[0], "c-pdq", tolerance=2), verify(str(photo_files[0]), tolerance=2)
    by_object = verify(load_image(photo_files[0]), small_hash("c-pdq"), tolerance=2)
    assert by_name.radius == by_default.radius == by_object.radius > 0
    assert by_name.image == str(photo_files[0])


def test_without_weights(photo_files: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify", photo_files[0], "--hash", "c-pdna") == 3
    assert "dualshield weights import c-pdna FILE" in complaint(capsys)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--hash", "pdq"], "only c-pdq and c-pdna can be verified"),
        (["--norm", "l7"], "l7"),
        (["--space", "nowhere"], "nowhere"),
        (["--rule", "mine"], "mine"),
        (["--tolerance", "0.5"], "tolerance 0.5"),
        (["--tolerance", "nan"], "tolerance nan"),
    ],
)
def test_wrong_usage(
    arguments: list[str], named: str, photo_files: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("verify", photo_files[0], *arguments) == 2
    assert named in complaint(capsys)
