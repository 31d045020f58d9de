"""The key-stream Gaussian: its law, its independence, and where its secrecy comes from."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from copy import deepcopy
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import kstest, norm

from dualshield.errors import InputError
from dualshield.smoothing.noise import PAIRS, GaussianSource


def test_values_are_standard_normal() -> None:
    values = GaussianSource.from_seed(1).normal((200_000,))
    assert values.dtype == torch.float32
    assert kstest(values.double().numpy(), "norm").pvalue > 1e-3


def test_tail_is_there() -> None:
    values = GaussianSource.from_seed(2).normal((4_000_000,)).abs()
    for limit in (3.0, 4.0):
        expected = 2 * norm.sf(limit) * len(values)
        found = int((values > limit).sum())
        assert abs(found - expected) < 5 * expected**0.5
    assert values.max() < 6.7


def test_both_halves_of_a_pair_and_neighbours_are_uncorrelated() -> None:
    pieces = GaussianSource.from_seed(3).normal((31, 2, PAIRS)).double()  # cosines and sines of as many pairs
    values = pieces.transpose(0, 1).reshape(2, -1)
    limit = 5 / values.shape[1] ** 0.5
    assert abs(float((values[0] * values[1]).mean())) < limit
    assert abs(float((values[0, 1:] * values[0, :-1]).mean())) < limit
    # Box-Muller's two outputs share a radius: their squares must be uncorrelated too.
    squares = values**2 - 1
    assert abs(float((squares[0] * squares[1]).mean())) < 4 * limit


@pytest.mark.parametrize("shape", [(3, 5), (2 * PAIRS,), (3, 2 * PAIRS), (2 * PAIRS + 1,), (PAIRS,)])
def test_noise_around_an_image_is_the_image_and_the_noise(shape: tuple[int, ...]) -> None:
    """Whether it is added piece by piece or to all at once."""
    mean = torch.rand(shape, generator=torch.Generator().manual_seed(1))
    found = GaussianSource.from_seed(4).noisy_copies(mean, 0.3, 5)
    expected = mean + 0.3 * GaussianSource.from_seed(4).normal((5, *shape))
    torch.testing.assert_close(found, expected)


def test_the_ends_of_the_key_stream_are_numbers_too(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = np.array([0, 1, -1, 2**31 - 1, 1 - 2**31, -(2**31)], dtype=np.int32)
    pairs = np.array(list(product(ends, ends)), dtype=np.int32)
    source = GaussianSource.from_seed(0)
    monkeypatch.setattr(source, "_words", lambda count: pairs.T.ravel()[:count])
    values = source.normal((2 * len(pairs),))
    assert values.isfinite().all()
    assert 6 < values.abs().max() < 6.7


@pytest.mark.parametrize("shape", [(1,), (7,), (2, 3, 5), (0, 4)])
def test_any_shape(shape: tuple[int, ...]) -> None:
    assert GaussianSource.from_seed(0).normal(shape).shape == shape


def test_a_seed_reproduces_and_a_secret_does_not() -> None:
    first, second = GaussianSource.from_seed(5), GaussianSource.from_seed(5)
    assert torch.equal(first.normal((64,)), second.normal((64,)))
    assert not torch.equal(GaussianSource.from_seed(6).normal((64,)), GaussianSource.from_seed(5).normal((64,)))
    assert not torch.equal(GaussianSource.secret().normal((64,)), GaussianSource.secret().normal((64,)))
    assert not torch.equal(GaussianSource.make(None).normal((64,)), GaussianSource.make(None).normal((64,)))


def test_a_stream_never_repeats_itself_nor_its_forks() -> None:
    source = GaussianSource.from_seed(9)
    draws = [source.normal((32,)), source.normal((32,))]
    draws += [source.fork("a").normal((32,)), source.fork("a").normal((32,)), source.fork("b").normal((32,))]
    draws.append(source.fork("a").fork("a").normal((32,)))
    for i, one in enumerate(draws):
        for other in draws[i + 1 :]:
            assert not torch.equal(one, other)


def test_seeds_beyond_32_bits_differ() -> None:
    # torch's CPU generator would give these two the same stream.
    assert not torch.equal(GaussianSource.from_seed(1).normal((8,)), GaussianSource.from_seed(1 + 2**32).normal((8,)))


def test_integers_are_uniform() -> None:
    values = GaussianSource.from_seed(4).integers(60_000, 6)
    counts = torch.bincount(values, minlength=6)
    assert len(counts) == 6
    assert (counts - 10_000).abs().max() < 500


@pytest.mark.parametrize("seed", [-1, 1.5, "1", True])
def test_a_seed_that_is_none_is_refused(seed: Any) -> None:
    with pytest.raises(InputError, match="seed"):
        GaussianSource.from_seed(seed)


def test_a_stream_knows_whether_it_is_secret() -> None:
    secret, seeded = GaussianSource.secret(), GaussianSource.from_seed(1)
    assert (secret.origin, secret.fork("x").origin, GaussianSource.make(None).origin) == ("secret",) * 3
    assert (seeded.origin, seeded.fork("x").origin, GaussianSource.make(1).origin) == ("seeded",) * 3
    assert GaussianSource.for_work(1, "x").origin == "seeded"


@pytest.mark.parametrize("copy", [pickle.dumps, deepcopy])
def test_a_stream_cannot_be_copied(copy: Callable[[object], object]) -> None:
    with pytest.raises(TypeError, match="cannot be copied"):
        copy(GaussianSource.secret())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_secret_stream_is_another_one_in_a_forked_process() -> None:
    def in_a_child(source: GaussianSource) -> bytes:
        reading, writing = os.pipe()
        if os.fork() == 0:
            os.write(writing, source.fork("x").normal((4,)).numpy().tobytes() + source.normal((4,)).numpy().tobytes())
            os._exit(0)
        os.wait()
        os.close(writing)
        with os.fdopen(reading, "rb") as result:
            return result.read()

    secret, seeded = GaussianSource.secret(), GaussianSource.from_seed(1)
    secret.normal((4,))
    assert len({in_a_child(secret) for _ in range(3)}) == 3
    assert len({in_a_child(seeded) for _ in range(3)}) == 1  # experiments repeat, wherever they run
