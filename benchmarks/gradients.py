"""Compare compiled gradients with torch's in speed and value, on one machine in one run.

python -m benchmarks.gradients [--hash neuralhash --hash efflite] [--repeats 20]

Batches of four draws, as in attacks and hardening: with gradients for all draws, and for none (all hinges met).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import torch

from dualshield.engines.gradients import LARGE, accelerated
from dualshield.hashes import get_hash


def milliseconds(work: Callable[[], object], repeats: int) -> float:
    """Return the best time of several calls."""
    best = float("inf")
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - started)
    return 1000 * best


def gradient(network: torch.nn.Module, features: torch.Tensor, cotangents: torch.Tensor) -> torch.Tensor:
    """Return the gradient of the weighted margins."""
    variable = features.clone().requires_grad_()
    return torch.autograd.grad(network(variable), variable, cotangents)[0]


def measured(name: str, repeats: int) -> str:
    """Return the results of one hash as text."""
    plain = get_hash(name)
    started = time.perf_counter()
    fast = accelerated(plain)
    made = time.perf_counter() - started
    if fast is plain:
        return f"{name}: gradients by torch"
    generator = torch.Generator().manual_seed(2026)
    features = torch.randn(LARGE, *plain.front_end.shape, generator=generator)
    asked = torch.randn(LARGE, plain.bits, generator=generator)
    expected, found = (gradient(hash_.network, features, asked) for hash_ in (plain, fast))
    error = float((found - expected).norm() / expected.norm())
    by_torch, compiled, met = (
        milliseconds(partial(gradient, hash_.network, features, cotangents), repeats) / LARGE
        for hash_, cotangents in ((plain, asked), (fast, asked), (fast, torch.zeros_like(asked)))
    )
    return (
        f"{name}: torch {by_torch:.1f} ms per draw, compiled {compiled:.1f} ({by_torch / compiled:.1f} times as fast), "
        f"hinges met {met:.1f} ({by_torch / met:.1f} times); relative difference {error:.1e}, made in {made:.1f} s, "
        f"{torch.get_num_threads()} threads"
    )


def main() -> None:
    """Print one line per hash."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hash", action="append")
    parser.add_argument("--repeats", type=int, default=20)
    options = parser.parse_args()
    for name in options.hash or ["neuralhash", "efflite"]:
        print(measured(name, options.repeats))


if __name__ == "__main__":
    main()
