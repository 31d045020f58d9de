"""The soft stand-in agrees with the discrete matcher where it must."""

from __future__ import annotations

import torch

from dualshield.hardening.objective import soft_bits, soft_distance, too_far, too_near
from dualshield.hashes.margins import signs


def test_distance_of_hard_bits_is_the_hamming_distance() -> None:
    generator = torch.Generator().manual_seed(1)
    left, right = (torch.rand(20, 96, generator=generator) > 0.5 for _ in range(2))
    assert torch.equal(soft_distance(signs(left), signs(right)), (left ^ right).sum(-1).float())


def test_sharp_bits_approach_the_code_and_ignore_the_scale_of_margins() -> None:
    margins = torch.tensor([[0.5, -2.0, 3.0, -0.4]])
    assert torch.allclose(soft_bits(margins, 1e3), torch.tensor([[1.0, -1.0, 1.0, -1.0]]))
    assert torch.allclose(soft_bits(margins), soft_bits(1000 * margins))


def test_distance_falls_as_a_margin_moves_to_the_right_side() -> None:
    margins = torch.tensor([[-0.2, 1.0, -1.0]], requires_grad=True)
    soft_distance(soft_bits(margins), torch.tensor([1.0, 1.0, -1.0])).sum().backward()  # type: ignore[no-untyped-call]
    assert margins.grad is not None
    assert margins.grad[0, 0] < 0


def test_hinges_leave_a_margin_of_four_bits() -> None:
    distance = torch.tensor([0.0, 15.0, 16.0, 19.0, 24.0])
    assert too_far(distance, 19).tolist() == [0, 0, 1, 4, 9]
    assert too_near(distance, 19).tolist() == [23, 8, 7, 4, 0]
