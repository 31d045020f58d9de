"""Time an attack relative to the forward and backward passes that it needs at least.

python -m benchmarks.attacks [--hash neuralhash] [--steps 20]

Both are measured alternately in the same run, on the same batch of three restarts. Keep the machine otherwise idle.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np
import torch

from dualshield.attacks import pgd
from dualshield.attacks.result import AttackBudget
from dualshield.attacks.victim import Victim
from dualshield.hashes import get_hash
from dualshield.images import load_image
from dualshield.images.eight_bit import to_8bit
from dualshield.images.samples import sample_photos

REQUIRED = 1.3
ROUNDS = 3


def main() -> None:
    """Print the ratio of each round and their median."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hash", default="neuralhash")
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    hash_ = get_hash(options.hash)
    image = load_image(sample_photos()[0])
    image = replace(image, pixels=to_8bit(image.pixels))
    victim = Victim.plain(hash_, image)
    batch = image.pixels.expand(pgd.RESTARTS, -1, -1, -1).clone()

    def bare() -> float:
        started = time.perf_counter()
        for _ in range(options.steps):
            variable = batch.clone().requires_grad_()
            torch.autograd.grad(hash_.margins(variable).sum(), variable)
        return time.perf_counter() - started

    def attack() -> float:
        result = pgd.attack(victim, image, AttackBudget(40.0), steps=options.steps, early_stop=False)
        return result.seconds

    bare(), attack()
    ratios = []
    for _ in range(ROUNDS):
        passes, whole = bare(), attack()
        ratios.append(whole / passes)
        print(
            f"{options.hash}: {options.steps} steps, {pgd.RESTARTS} restarts {whole:.2f} s, bare passes {passes:.2f} s"
        )
    print(f"pgd costs {np.median(ratios):.2f} of its bare forward and backward passes (required: at most {REQUIRED})")


if __name__ == "__main__":
    main()
