"""Count the answers to queries inside the certified and the detected radius, on a hash with a known worst case.

The hash is a half-space: one bit whose boundary is a hyperplane, so the shortest change towards it is the worst case.

python -m benchmarks.detection [--runs 1000]
"""

from __future__ import annotations

import argparse
from collections import Counter

import torch

from dualshield.hashes import PerceptualHash
from dualshield.images import CanonicalImage, FrontEnd
from dualshield.smoothing.config import MatcherConfig
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.matcher import SmoothedMatcher
from dualshield.smoothing.member_reference import MemberReference
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.statistics import Decision

SIGMA = 1.0
DISTANCE = 3.2
SHARES = (0.5, 0.9, 0.95, 0.99)


class HalfSpace(torch.nn.Module):
    """A network with one bit: the side of a hyperplane."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.weight: torch.Tensor
        self.register_buffer("weight", weight)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return (features.flatten(1) @ self.weight)[:, None]


def half_space() -> tuple[PerceptualHash, torch.Tensor]:
    """Return the hash and the unit normal of its boundary in canonical pixels."""
    weight = torch.randn(3 * 16 * 16, generator=torch.Generator().manual_seed(1))
    hash_ = PerceptualHash("half-space", "1", 1, FrontEnd.identity().resize(16, 16), HalfSpace(weight))
    pixels = torch.zeros(1, 3, 512, 512, requires_grad=True)
    (gradient,) = torch.autograd.grad(hash_.margins(pixels).sum(), pixels)
    return hash_, gradient[0] / gradient.norm()


def main() -> None:
    """Print one table per procedure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=2026)
    options = parser.parse_args()
    hash_, direction = half_space()
    for what, config in (
        ("N = 5000", MatcherConfig(sigma=SIGMA)),
        ("target radius of 1 sigma", MatcherConfig(sigma=SIGMA, target_radius=1.0)),
    ):
        deployment = deploy(hash_, config=config)
        (matcher,) = deployment.matchers
        reference = deployment.enroll_code(torch.tensor([True]))
        (kept,) = reference.members
        assert isinstance(matcher, SmoothedMatcher)
        assert isinstance(kept, MemberReference)
        noise = GaussianSource.for_work(options.seed, what)
        query = CanonicalImage(DISTANCE * direction, "query")
        result = deployment.match(reference, query, noise=noise)
        print(f"{what}: radius {result.radius:.4f}, detected radius {result.radius_detected:.4f}")
        print("| change, in l2 | of the radius | match | abstain | no match |")
        print("|---|---|---|---|---|")
        detected = result.radius_detected / result.radius
        for share in sorted((*SHARES, detected)):
            # The worst case that the certificate allows: the match probability at the query is only p_lower.
            worst = CanonicalImage((result.radius - share * result.radius) * direction, "worst")
            found = Counter(
                matcher.certify(kept, worst.pixels, noise.fork("run")).decision for _ in range(options.runs)
            )
            label = " (detected)" if share == detected else ""
            counts = " | ".join(str(found[kind]) for kind in (Decision.MATCH, Decision.ABSTAIN, Decision.NO_MATCH))
            print(f"| {share * result.radius:.4f}{label} | {share:.2f} | {counts} |", flush=True)


if __name__ == "__main__":
    main()
