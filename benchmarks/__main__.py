"""``make bench``: time DualShield's certificates and the literal Algorithm 2, on one machine in one run.

    python -m benchmarks [--n 5000] [--only pdq|neuralhash] [--json FILE]

Takes about ten minutes at N = 5000, nearly all of it for the baseline. Keep the machine otherwise idle.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks import algorithm2, exact, startup, views
from dualshield.hashes import PerceptualHash, get_hash
from dualshield.images import CanonicalImage, load_image
from dualshield.images.samples import sample_photos
from dualshield.smoothing.config import MatcherConfig
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.matcher import SmoothedMatcher
from dualshield.smoothing.noise import GaussianSource

REQUIRED = {"pdq fixed": 500.0, "neuralhash fixed": 10.0, "neuralhash target": 300.0, "neuralhash draws": 0.7}
LARGEST = {
    "exact decision / plain PDQ": 1.5,
    "efflite match with views / without": 1.5,
    "efflite non-match with views / without": 6.0,
    "pdq match with views / without": 1.5,
    "pdq non-match with views / without": 6.0,
}


def seconds(work: Callable[[], Any]) -> float:
    """Return the wall-clock time of one call."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def deployed(hash_: PerceptualHash, photo: CanonicalImage, n: int) -> tuple[MatcherConfig, float]:
    """Return the shipped configuration with this reference's sigma, and the time of the (one-time) enrollment."""
    deployment = deploy(hash_, n=n, views="none")  # like is compared with like: the baseline has no views
    deployment.enroll(photo)
    started = time.perf_counter()
    reference = deployment.enroll(photo)
    elapsed = time.perf_counter() - started
    config = deployment.members[0].config
    assert isinstance(config, MatcherConfig)
    return replace(config, sigma=reference.sigma), elapsed


def certificate_seconds(hash_: PerceptualHash, photo: CanonicalImage, config: MatcherConfig, repeats: int) -> float:
    """Return the best time of several certificates of an enrolled reference; the engine stays loaded."""
    deployment = deploy(hash_, config=config)
    reference = deployment.enroll(photo)

    def certify() -> None:
        result = deployment.match(reference, photo)
        assert result.decision == "match", result

    certify()
    return min(seconds(certify) for _ in range(repeats))


def network_ratio(hash_: PerceptualHash, photo: CanonicalImage, sigma: float, lowpass: int | None) -> float:
    """Return the draw rate of the full sampler divided by that of the bare network on prepared batches."""
    import openvino as ov

    (matcher,) = deploy(hash_, config=MatcherConfig(sigma=sigma, lowpass=lowpass)).matchers
    assert isinstance(matcher, SmoothedMatcher)
    batch, draws = matcher.engine.batch_size, 480
    features = torch.rand(batch, *hash_.front_end.shape).numpy() * 2 - 1
    model = ov.convert_model(hash_.network, example_input=torch.from_numpy(features))
    model.reshape(list(features.shape))
    best = 0.0
    for options in ({}, {"PERFORMANCE_HINT": "THROUGHPUT"}):
        compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32", **options})
        queue = ov.AsyncInferQueue(compiled)

        def bare(queue: Any = queue) -> None:
            for _ in range(draws // batch):
                queue.start_async({0: features})
            queue.wait_all()

        bare()
        best = max(best, draws / min(seconds(bare) for _ in range(3)))

    def full() -> None:
        for _ in matcher.sampler.codes(photo.pixels, sigma, draws, GaussianSource.secret()):
            pass

    full()
    found = draws / min(seconds(full) for _ in range(3))
    print(f"neuralhash draws: {found:.0f}/s, bare OpenVINO network: {best:.0f}/s", flush=True)
    return found / best


def peak_memory(name: str) -> float:
    """Return the peak memory in GB of a process that makes one certificate; two N show that it does not grow."""
    script = (
        "import resource, sys; from dualshield.cli.main import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
    )
    photo = str(sample_photos()[0])
    found = []
    for n in ("500", "2000"):
        arguments = [sys.executable, "-c", script, "match", photo, photo, "--hash", name, "--n", n]
        out = subprocess.run(arguments, check=True, capture_output=True, text=True)
        found.append(int(out.stderr.split()[-1]) / 1e6)
    print(f"{name} peak memory: {found[0]:.2f} GB at N=500, {found[1]:.2f} GB at N=2000", flush=True)
    return max(found)


def main() -> None:
    """Run all benchmarks and print one line per figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=5000)
    parser.add_argument("--only", choices=["pdq", "neuralhash"])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    photo = load_image(sample_photos()[0])
    print(f"{platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}, N = {options.n}")
    ratios: dict[str, float] = {}
    for name in [options.only] if options.only else ["pdq", "neuralhash"]:
        hash_ = get_hash(name)
        config, enrollment = deployed(hash_, photo, options.n)
        sigma = config.sigma
        assert isinstance(sigma, float)
        print(f"{name} enrollment of the reference, once: {enrollment:.3f} s, sigma {sigma:g}", flush=True)
        fixed = certificate_seconds(hash_, photo, config, repeats=5 if hash_.has_small_network else 1)
        baseline = seconds(lambda h=hash_: algorithm2.certify(h, photo.pixels, photo.pixels, n=options.n))  # type: ignore[misc]
        ratios[f"{name} fixed"] = baseline / fixed
        ratios[f"{name} fixed with enrollment"] = baseline / (fixed + enrollment)
        print(f"{name} fixed N: {fixed:.3f} s, Algorithm 2: {baseline:.1f} s", flush=True)
        quick = certificate_seconds(hash_, photo, replace(config, target_radius=sigma), repeats=5)
        ratios[f"{name} target"] = baseline / quick
        ratios[f"{name} target with enrollment"] = baseline / (quick + enrollment)
        print(f"{name} target radius of one sigma: {quick:.3f} s", flush=True)
        if not hash_.has_small_network:
            ratios[f"{name} draws"] = network_ratio(hash_, photo, sigma, config.lowpass)
        ratios[f"{name} memory"] = peak_memory(name)
    if options.only != "neuralhash":
        times = exact.speed()
        ratios["exact decision / plain PDQ"] = times["decision"] / times["plain PDQ (numpy)"]
        ratios["exact certificate / plain PDQ"] = times["certificate"] / times["plain PDQ (numpy)"]
        times = startup.startup()
        ratios["match --hash pdq / import"] = times["match --hash pdq"] / times["import numpy, PIL"]
    if options.only is None:
        for name in ("efflite", "pdq"):
            for what, ratio in views.ratios(name).items():
                ratios[f"{name} {what} with views / without"] = ratio
    print()
    for key, ratio in ratios.items():
        if key.endswith("memory"):
            print(f"{key:32} {ratio:9.2f} GB   (at most 2)")
        elif " / " in key:
            wanted = f"(at most {LARGEST[key]:g})" if key in LARGEST else ""
            print(f"{key:32} {ratio:9.2f} x    {wanted}")
        else:
            wanted = f"(at least {REQUIRED[key]:g})" if key in REQUIRED else ""
            print(f"{key:32} {ratio:9.1f} x    {wanted}" if ratio > 2 else f"{key:32} {ratio:9.2f} x    {wanted}")
    if options.json:
        options.json.write_text(json.dumps(ratios, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
