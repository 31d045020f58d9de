"""Measure every hash: draws per second on its fast engine and on torch, time and memory of a certificate.

    python -m benchmarks.hashes [--hash NAME ...] [--json FILE]

Each hash runs in a separate process, so that peak memory is measured per hash. A certificate here means the draws for a
target radius of one sigma if all votes agree. The draws are made but not evaluated, because networks with synthetic
weights (marked) give meaningless codes. Keep the machine otherwise idle.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import synthetic
from dualshield.engines.choose import make_engine
from dualshield.hashes.registry import BUILT_IN
from dualshield.images import load_image
from dualshield.images.samples import sample_photos
from dualshield.smoothing.choose import UNCALIBRATED_SIGMA
from dualshield.smoothing.config import DEFAULT_N, MatcherConfig
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.profile import find_profile
from dualshield.smoothing.sampler import Sampler
from dualshield.smoothing.sequential import TargetRadiusTest, looks

ROUNDS = 5
ROUND_SECONDS = 2.0


def unanimous_draws(alpha: float) -> int:
    """Return the number of draws that prove a radius of one sigma if all votes agree."""
    test = TargetRadiusTest(1.0, 1.0, alpha, DEFAULT_N)
    return next(draws for draws in looks(DEFAULT_N) if test.look(draws, draws) is not None)


def measure(name: str) -> dict[str, Any]:
    """Measure one hash in this process."""
    hash_, real = synthetic.load(name)
    # Find the profile by name: synthetic weights have no calibrated version, so `deploy` would find none.
    profile = find_profile(name)
    config = profile.config() if profile else MatcherConfig(sigma=UNCALIBRATED_SIGMA)
    hash_ = hash_.with_lowpass(config.lowpass)
    sigma = max(config.sigmas)
    pixels = load_image(sample_photos()[0]).pixels
    source = GaussianSource.secret()
    started = time.perf_counter()
    samplers = {"fast": Sampler(hash_, make_engine(hash_), config.noise_kind)}
    if samplers["fast"].engine.name != "torch":  # for a hash with a small network torch is the fast engine
        samplers["torch"] = Sampler(hash_, make_engine(hash_, "torch"), config.noise_kind)
    loading = time.perf_counter() - started

    def draw(engine: str, draws: int) -> float:
        begun = time.perf_counter()
        for _ in samplers[engine].codes(pixels, sigma, draws, source.fork(engine)):
            pass
        return time.perf_counter() - begun

    counts = {}
    for engine, sampler in samplers.items():
        batch = sampler.engine.batch_size
        draw(engine, batch)
        counts[engine] = max(2, round(ROUND_SECONDS / draw(engine, 2 * batch))) * 2 * batch
    found: dict[str, list[float]] = {engine: [] for engine in samplers}
    for _ in range(ROUNDS):  # alternate, so that a disturbance affects both engines
        for engine, count in counts.items():
            found[engine].append(count / draw(engine, count))
    needed = unanimous_draws(config.alpha)
    return {
        "hash": name,
        "weights": "real" if real else "synthetic",
        "engine": samplers["fast"].engine.name,
        "draws_per_second": statistics.median(found["fast"]),
        "torch_draws_per_second": statistics.median(found.get("torch", found["fast"])),
        "certificate_draws": needed,
        "certificate_seconds": draw("fast", needed),
        "loading_seconds": loading,
        "peak_gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }


def main() -> None:
    """Print a table with one row per hash."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hash", action="append", choices=list(BUILT_IN))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--here", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        print(json.dumps(measure(options.here)))
        return
    rows = []
    print("| hash | weights | engine | draws/s | torch | ratio | certificate | peak memory |")
    print("|---|---|---|---|---|---|---|---|")
    for name in options.hash or BUILT_IN:
        command = [sys.executable, "-m", "benchmarks.hashes", "--here", name]
        row = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        rows.append(row)
        fast, slow = row["draws_per_second"], row["torch_draws_per_second"]
        print(
            f"| {name} | {row['weights']} | {row['engine']} | {fast:.4g} | {slow:.4g} | {fast / slow:.2f} "
            f"| {row['certificate_seconds']:.2f} s | {row['peak_gigabytes']:.2f} GB |",
            flush=True,
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
