"""Hex and back."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dualshield.errors import CodeError
from dualshield.hashes.codes import bit_error_rate, from_hex, to_hex


@given(st.lists(st.booleans(), min_size=1, max_size=300))
def test_round_trip_of_any_length(bits: list[bool]) -> None:
    code = torch.tensor(bits)
    assert torch.equal(from_hex(to_hex(code), len(bits)), code)


def test_first_bit_is_most_significant() -> None:
    assert to_hex(torch.tensor([True, False, False, False, False, True])) == "84"
    assert torch.equal(from_hex("8", 4), torch.tensor([True, False, False, False]))
    assert torch.equal(from_hex("A", 4), from_hex("a", 4))


@pytest.mark.parametrize("text", ["", "f", "fff", "zz", "0x", " f", "ｆf", "+1", "1_"])
def test_wrong_text_is_refused(text: str) -> None:
    with pytest.raises(CodeError):
        from_hex(text, 8)


def test_padding_bits_must_be_zero() -> None:
    with pytest.raises(CodeError, match="beyond"):
        from_hex("ff", 6)


def test_bit_error_rate() -> None:
    assert bit_error_rate(torch.tensor([True, False, True, True]), torch.tensor([True, True, True, False])) == 0.5
