"""Numbers that bounds are made of, against exact arithmetic: none of them is smaller than it may be."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product

import pytest
import torch
from torch import nn

from dualshield.errors import InputError
from dualshield.hashes.zoo.c_pdna import CPdnaNet, Thermometer
from dualshield.images import FrontEnd
from dualshield.images.axes import Matrix
from dualshield.testing import natural_image
from dualshield.verification.bounds import _precisions, bound
from dualshield.verification.patch import Patch
from dualshield.verification.program import Program, program_of
from dualshield.verification.region import region_of
from dualshield.verification.relaxation import ROUNDING
from tests.helpers.small_networks import small_c_pdq


def small_front_end() -> FrontEnd:
    return FrontEnd.identity(16).resize(5, 4, "bicubic").mix([[0.3, 0.6, 0.1], [0.7, -0.2, 0.4]])


def exact(matrix: Matrix) -> list[list[Fraction]]:
    return [[Fraction(x) for x in row] for row in matrix.tolist()]


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_no_input_moves_farther_than_its_reach(norm: str) -> None:
    front_end = small_front_end()
    region = region_of(front_end, torch.rand(3, 16, 16), norm, "canonical").at(0.7)
    power = 2 if norm == "l2" else 1
    lengths = [
        [sum(abs(x) ** power for x in row) for row in exact(factor)]
        for factor in (front_end.colour, front_end.rows, front_end.cols)
    ]
    for (c, y, x), reach in zip(product(*(range(n) for n in front_end.shape)), region.reach.flatten(), strict=True):
        length = lengths[0][c] * lengths[1][y] * lengths[2][x]
        assert Fraction(float(reach)) ** power >= length
        assert Fraction(float(reach)) ** power <= length * Fraction(1 + 1e-12)
    assert (region.extent >= 0.7 * region.reach + region.blur).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_no_row_gains_more_than_it_is_said_to(norm: str, dtype: torch.dtype) -> None:
    """With rows that cancel, so that hardly anything is left of the length."""
    front_end = small_front_end()
    region = region_of(front_end, torch.rand(3, 16, 16), norm, "canonical").at(1.0)
    values = torch.randn(3, *front_end.shape, generator=torch.Generator().manual_seed(0), dtype=dtype)
    values[2, :, 1], values[2, :, 2:] = -values[2, :, 0], 0
    patch = Patch(values, 0, 0)
    doubt = region.doubt + region.terms * ROUNDING[dtype] * region.extent
    most = region.deviation(patch) + patch.size(doubt)
    colour, rows, cols = exact(front_end.colour), exact(front_end.rows), exact(front_end.cols)
    reach = [Fraction(float(x)) for x in region.reach.flatten()]
    for row, gain in zip(values.double().flatten(1).tolist(), most.tolist(), strict=True):
        if norm == "linf":
            assert Fraction(gain) >= sum(abs(Fraction(a)) * r for a, r in zip(row, reach, strict=True))
            continue
        given = [[[Fraction(row[(c * 5 + y) * 4 + x]) for x in range(4)] for y in range(5)] for c in range(2)]
        # One axis after the other: exact numbers are slow.
        tall = [
            [[sum(rows[y][i] * given[c][y][x] for y in range(5)) for x in range(4)] for i in range(16)] for c in (0, 1)
        ]
        wide = [
            [[sum(cols[x][j] * tall[c][i][x] for x in range(4)) for j in range(16)] for i in range(16)] for c in (0, 1)
        ]
        total = sum(
            sum(colour[c][k] * wide[c][i][j] for c in (0, 1)) ** 2
            for k, i, j in product(range(3), range(16), range(16))
        )
        assert Fraction(gain) ** 2 >= total


def test_a_bias_that_cancels_in_the_batch_norm() -> None:
    layer, norm = nn.Conv2d(1, 6, 1, bias=False).double(), nn.BatchNorm2d(6).double().eval()
    assert norm.running_mean is not None
    assert norm.running_var is not None
    with torch.no_grad():
        norm.running_mean.copy_(1e6 * torch.arange(1.0, 7.0) / 7)
        norm.running_var.copy_(torch.arange(1.0, 7.0) / 3)
        norm.bias.copy_(norm.running_mean / (norm.running_var + norm.eps).sqrt())
    program = Program((1, 1, 1), lambda y: y)
    program.conv(layer, norm)
    region = region_of(FrontEnd.identity(1).grey(), torch.zeros(3, 1, 1), "l2", "canonical")
    for refine in (False, True):
        found = bound(program, region, refine=refine).output
        numbers = torch.stack([norm.running_mean, norm.running_var, norm.bias, found.low, found.high], 1)
        with localcontext(prec=60):
            for mean, var, shift, low, high in ([Decimal(x) for x in row] for row in numbers.tolist()):
                true = shift - mean / (var + Decimal(norm.eps)).sqrt()
                assert low <= true <= high


def test_bounds_do_not_depend_on_how_torch_was_told_to_save_bits() -> None:
    network, front_end = small_c_pdq()
    program = program_of(network, front_end.shape)
    region = region_of(front_end, natural_image(1).pixels, "l2", "canonical").at(1.0)
    plain = bound(program, region).output
    with torch.autocast("cpu", dtype=torch.bfloat16):
        same = bound(program, region).output
    assert torch.equal(same.low, plain.low)
    assert torch.equal(same.high, plain.high)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        assert _precisions() == (torch.float64,)
        fine = bound(program, region).output
    finally:
        torch.set_float32_matmul_precision(before)
    assert _precisions() == (torch.float32, torch.float64)
    torch.testing.assert_close(fine.low, plain.low, rtol=0, atol=0.05 * float((plain.high - plain.low).max()))


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(1, 1, 3, dilation=2),
        nn.Conv2d(1, 1, 3, padding=1, padding_mode="circular"),
        nn.Conv2d(1, 1, 3, padding="same"),
        nn.Conv2d(1, 1, 3, stride=(1, 2)),
        nn.Conv2d(1, 1, 3, padding=(1, 0)),
    ],
)
def test_unusual_convolutions_are_refused(layer: nn.Module) -> None:
    with pytest.raises(InputError, match="does not know the layer"):
        Program((1, 9, 9), lambda y: y).conv(layer)


def test_what_follows_the_network_must_be_known() -> None:
    with pytest.raises(InputError, match="can be verified"):
        program_of(nn.Sequential(CPdnaNet(), Thermometer(), nn.Tanh()), (3, 64, 64))
