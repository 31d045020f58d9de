"""The verifier's bounds: never violated by what was tried, tight where the network is linear, honest about rounding."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
import torch
from torch import nn

from dualshield.errors import InputError
from dualshield.images import FrontEnd
from dualshield.testing import natural_image
from dualshield.verification import bounds as bounds_module
from dualshield.verification.bounds import Bounds, bound
from dualshield.verification.patch import Patch
from dualshield.verification.program import Program, program_of
from dualshield.verification.region import Region, region_of
from dualshield.verification.relaxation import Interval, Relaxation
from tests.helpers.small_networks import NETS, climb, directions, outputs, small_c_pdna, worst_step

SPACES = [("l2", "canonical"), ("linf", "canonical"), ("l2", "input"), ("linf", "input")]


def case(name: str, norm: str, space: str, seed: int = 0) -> tuple[nn.Module, Program, Region]:
    network, front_end = NETS[name](seed)
    program = program_of(network, front_end.shape)
    return network, program, region_of(front_end, natural_image(seed + 1).pixels, norm, space)


def radii(norm: str, space: str) -> list[float]:
    """From where everything is stable to where hardly anything is."""
    scale = {("l2", "canonical"): 30.0, ("l2", "input"): 1.0, ("linf", "canonical"): 0.1, ("linf", "input"): 0.1}
    return [scale[norm, space] * factor for factor in (1e-4, 0.03, 1.0)]


# -- soundness -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NETS)
def test_the_program_is_the_network(name: str) -> None:
    network, program, region = case(name, "l2", "input")
    for step in directions(region, 5, 0):
        x = region.centre + 3 * step
        torch.testing.assert_close(program.run(x), outputs(network, x[None])[0], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("norm", "space"), SPACES)
@pytest.mark.parametrize("name", NETS)
def test_no_input_in_the_region_leaves_the_bounds(name: str, norm: str, space: str) -> None:
    network, program, region = case(name, norm, space)
    for radius in radii(norm, space):
        region = region.at(radius)
        found = bound(program, region).output
        assert (found.low <= found.high).all()
        goals = torch.eye(len(found.low), dtype=torch.float64)
        tried = [region.centre + radius * factor * directions(region, 60, i) for i, factor in enumerate((1.0, 0.5))]
        tried += [climb(network, region, goals), climb(network, region, -goals)]
        y = outputs(network, torch.cat(tried))
        assert (y >= found.low - 1e-12).all()
        assert (y <= found.high + 1e-12).all()


@pytest.mark.parametrize("name", NETS)
def test_every_neuron_stays_within_its_bounds(name: str) -> None:
    _, program, region = case(name, "l2", "canonical", seed=2)
    found = bound(program, region.at(3.0))
    for step in directions(region, 20, 5):
        for index, value in enumerate(program.values(region.centre + 3.0 * step)):
            interval = found.interval(index)
            assert (value >= interval.low - 1e-12).all()
            assert (value <= interval.high + 1e-12).all()


@pytest.mark.parametrize("refine", [False, True])
@pytest.mark.parametrize("radius", [0.0, 0.03])
@pytest.mark.parametrize("name", NETS)
def test_the_centre_may_be_off_by_the_blur(name: str, radius: float, refine: bool) -> None:
    network, program, region = case(name, "l2", "canonical")
    blur = torch.full_like(region.centre, 0.02)
    box = Region(region.centre, "linf", blur, 0 * blur).at(1.0)
    found = bound(program, replace(region.at(radius), blur=blur), refine=refine)
    goals = torch.eye(len(found.output.low), dtype=torch.float64)
    centres = [region.centre + blur, region.centre - blur, *climb(network, box, goals), *climb(network, box, -goals)]
    for centre, step in zip(centres, directions(region, len(centres), 0), strict=True):
        for index, value in enumerate(program.values(centre + radius * step)):
            interval = found.interval(index)
            assert (value >= interval.low - 1e-12).all(), index
            assert (value <= interval.high + 1e-12).all(), index


def test_canonical_perturbations_stay_within_the_bounds() -> None:
    """Through the pixels themselves: no factor of the front end is taken on trust."""
    network, program, region = case("c-pdna", "l2", "canonical")
    front_end, pixels, radius = small_c_pdna()[1], natural_image(1).pixels.double(), 20.0
    rows, cols, colour, offset = (torch.from_numpy(a) for a in _factors(front_end))
    found = bound(program, region.at(radius)).output
    generator = torch.Generator().manual_seed(3)
    for side in (2, 16, 64, 512):
        coarse = torch.randn(3, side, side, generator=generator, dtype=torch.float64)
        step = nn.functional.interpolate(coarse[None], size=(512, 512))[0]
        moved = pixels + radius * step / step.norm()
        x = torch.einsum("ck,khw->chw", colour, rows @ moved @ cols.T) + offset[:, None, None]
        y = outputs(network, x[None])[0]
        assert (y >= found.low).all()
        assert (y <= found.high).all()
    limit = bound(program, region_of(front_end, natural_image(1).pixels, "linf", "canonical").at(0.05)).output
    for seed in range(4):
        signs = torch.randint(0, 2, (3, 512, 512), generator=torch.Generator().manual_seed(seed)).double() * 2 - 1
        moved = pixels + 0.05 * (signs if seed else torch.ones_like(signs))
        x = torch.einsum("ck,khw->chw", colour, rows @ moved @ cols.T) + offset[:, None, None]
        y = outputs(network, x[None])[0]
        assert (y >= limit.low).all()
        assert (y <= limit.high).all()


def _factors(front_end: FrontEnd) -> tuple[object, ...]:
    return front_end.rows, front_end.cols, front_end.colour, front_end.offset


# -- tightness -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("norm", "space"), SPACES)
@pytest.mark.parametrize("name", NETS)
def test_backward_bounds_lie_within_interval_bounds(name: str, norm: str, space: str) -> None:
    _, program, region = case(name, norm, space)
    for radius in radii(norm, space):
        wide, tight = bound(program, region.at(radius), refine=False), bound(program, region.at(radius))
        for index in range(len(program.nodes)):
            outer, inner = wide.interval(index), tight.interval(index)
            assert (inner.low >= outer.low - 1e-9).all()
            assert (inner.high <= outer.high + 1e-9).all()
        widths = [(b.output.high - b.output.low).mean() for b in (wide, tight)]
        assert widths[1] < 0.7 * widths[0]


@pytest.mark.parametrize(("norm", "space"), SPACES)
@pytest.mark.parametrize("name", NETS)
def test_bounds_are_exact_where_the_network_is_linear(name: str, norm: str, space: str) -> None:
    network, program, region = case(name, norm, space)
    radius = radii(norm, space)[0] / 100
    found = bound(program, region.at(radius)).output
    jacobian: torch.Tensor = torch.autograd.functional.jacobian(program.run, region.centre)  # type: ignore[no-untyped-call]
    slopes = (worst_step(region, jacobian) * jacobian).sum((1, 2, 3))
    centre = outputs(network, region.centre[None])[0]
    torch.testing.assert_close(found.high, centre + radius * slopes, rtol=0, atol=0.03 * radius * float(slopes.max()))
    torch.testing.assert_close(found.low, centre - radius * slopes, rtol=0, atol=0.03 * radius * float(slopes.max()))
    first_order = bound(program, region.at(0.0), refine=False).sensitivity()
    torch.testing.assert_close(first_order, slopes, rtol=1e-4, atol=0)


def test_a_neuron_at_its_kink() -> None:
    """At the centre its input is 0, so it is unstable at every radius."""
    program = cancelling([[1.0, -1.0], [1.0, 1.0]], [[1.0, 1.0]], bias=0.0)
    region = Region(torch.zeros(2, 1, 1).double(), "linf", torch.ones(2, 1, 1).double(), torch.zeros(2, 1, 1).double())
    assert bound(program, region.at(0.0), refine=False).sensitivity().tolist() == pytest.approx([2.0], abs=2)
    found = bound(program, region.at(0.5)).output
    assert float(found.low) <= 0
    assert 1.0 <= float(found.high) <= 2.0


def test_small_passes_give_the_same_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks and windows are only a matter of memory."""
    _, program, region = case("c-pdq", "l2", "canonical")
    whole = bound(program, region.at(5.0)).output
    monkeypatch.setattr(bounds_module, "PASS_NUMBERS", 5000)
    monkeypatch.setattr(bounds_module, "TILE", 5)
    pieces = bound(program, region.at(5.0)).output
    width = float((whole.high - whole.low).max())
    torch.testing.assert_close(pieces.low, whole.low, rtol=0, atol=1e-3 * width)
    torch.testing.assert_close(pieces.high, whole.high, rtol=0, atol=1e-3 * width)


# -- pieces ----------------------------------------------------------------------------------------


def test_lines_enclose_the_relu() -> None:
    generator = torch.Generator().manual_seed(0)
    centre = torch.randn(1, 40, 50, generator=generator, dtype=torch.float64)
    low, high = (torch.rand(1, 40, 50, generator=generator, dtype=torch.float64) * 2 for _ in range(2))
    lines = Relaxation.of(centre, Interval(-low, high))
    assert 0.1 < float(lines.unstable.double().mean()) < 0.9
    for part in torch.linspace(0, 1, 21, dtype=torch.float64):
        d = -low + part * (low + high)
        relu = (centre + d).relu() - centre.relu()
        assert (lines.below.double() * d + lines.floor.double() <= relu + 1e-15).all()
        assert (lines.above.double() * d + lines.ceiling.double() >= relu - 1e-15).all()


@pytest.mark.parametrize(
    ("stride", "padding", "kernel"), [(1, 1, 3), (1, 3, 3), (2, 1, 4), (2, 0, 2), (2, 1, 3), (1, 0, 1)]
)
def test_convolutions_go_back_on_windows(stride: int, padding: int, kernel: int) -> None:
    layer = nn.Conv2d(3, 5, kernel, stride, padding).double()
    program = Program((3, 11, 12), lambda y: y)
    program.conv(layer)
    conv = program.nodes[1].conv
    assert conv is not None
    x = torch.randn(3, 11, 12, dtype=torch.float64)
    torch.testing.assert_close(conv.forward(x), layer(x[None])[0].detach())
    rows = torch.randn(4, 5, 2, 3, dtype=torch.float64)
    for top, left in ((0, 0), (1, 2), (conv.outside[1] - 2, conv.outside[2] - 3)):
        patch = conv.backward(Patch(rows, top, left))
        expected = (rows * conv.linear(x)[None, :, top : top + 2, left : left + 3]).sum((1, 2, 3))
        torch.testing.assert_close(patch.dot(x), expected)


def test_patches_add_up_on_the_union_of_their_windows() -> None:
    one, two = Patch(torch.ones(2, 1, 2, 2), 0, 3), Patch(2 * torch.ones(2, 1, 3, 1), 1, 4)
    both = one + two
    assert (both.top, both.left) == (0, 3)
    assert both.values[0, 0].tolist() == [[1, 1], [1, 3], [0, 2], [0, 2]]


def test_other_networks_are_refused() -> None:
    with pytest.raises(InputError, match="only c-pdq and c-pdna can be verified"):
        program_of(nn.Sequential(nn.Flatten(), nn.Linear(4, 4)), (1, 2, 2))
    with pytest.raises(InputError, match="does not know the layer"):
        Program((4, 3, 3), lambda y: y).conv(nn.Conv2d(4, 4, 3, groups=2))
    with pytest.raises(InputError, match="unknown norm 'l1'"):
        region_of(FrontEnd.identity(), natural_image(1).pixels, "l1", "input")
    with pytest.raises(InputError, match="unknown space 'pixel'"):
        region_of(FrontEnd.identity(), natural_image(1).pixels, "l2", "pixel")


# -- rounding --------------------------------------------------------------------------------------


def cancelling(first: list[list[float]], second: list[list[float]], bias: float = 0.1) -> Program:
    """Two 1 x 1 layers with a ReLU between them, in exactly representable numbers."""
    program = Program((len(first[0]), 1, 1), lambda y: y)
    for index, weights in enumerate((first, second)):
        layer = nn.Conv2d(len(weights[0]), len(weights), 1)
        with torch.no_grad():
            layer.weight.copy_(torch.tensor(weights)[:, :, None, None])
            layer.bias.fill_(bias if index == 0 else -3 * bias)  # type: ignore[union-attr]
        program.conv(layer.double())
        if index == 0:
            program.relu()
    return program


@pytest.mark.parametrize("scale", [1.0, 1e4, 3e7])
def test_bounds_contain_exact_arithmetic_despite_cancellation(scale: float) -> None:
    """Rows that cancel to almost nothing: float32 alone would be wrong in the first digit."""
    generator = torch.Generator().manual_seed(1)
    first = torch.randn(6, 4, generator=generator) * scale
    first[1] = -first[0] + torch.randn(4, generator=generator) * 1e-3
    second = torch.randn(3, 6, generator=generator) * scale
    second[:, 1] = second[:, 0]
    program = cancelling(first.tolist(), second.tolist())
    centre = torch.randn(4, 1, 1, generator=generator, dtype=torch.float64)
    ones = torch.ones_like(centre)
    region = Region(centre, "linf", ones, 0 * ones).at(1e-3)
    found = bound(program, region).output
    layers = [node.conv for node in program.nodes if node.conv is not None]
    for corner in range(16):
        x = [
            Fraction(float(c)) + Fraction(1e-3) * (1 if corner >> i & 1 else -1) for i, c in enumerate(centre.flatten())
        ]
        for index, conv in enumerate(layers):
            weights, biases = conv.weight.flatten(1).tolist(), conv.bias.tolist()
            x = [
                sum((Fraction(w) * v for w, v in zip(row, x, strict=True)), Fraction(bias))
                for row, bias in zip(weights, biases, strict=True)
            ]
            if index == 0:
                x = [max(v, Fraction(0)) for v in x]
        for value, low, high in zip(x, found.low.tolist(), found.high.tolist(), strict=True):
            assert Fraction(low) <= value <= Fraction(high)
    # Not vacuous: the width stays near that of the real range.
    assert float((found.high - found.low).max()) < 100 * scale**2 * 1e-3


def test_what_rounding_may_take_is_counted() -> None:
    _, program, region = case("c-pdq", "l2", "canonical")
    found = Bounds(program, region.at(1.0))
    for index in range(1, len(program.nodes)):
        found.extend(refine=index + 1 == len(program.nodes) or program.nodes[index + 1].is_relu)
    everything = torch.ones(program.nodes[-1].shape, dtype=torch.bool)
    for dtype, most in ((torch.float32, 0.2), (torch.float64, 1e-9)):
        for rows, _ in found._chunks(program.last, everything, dtype):
            least, greatest, lost = found._extremes(program.last, rows)
            assert (lost > 0).all()
            assert float((lost / (greatest - least)).max()) < most
