"""What a matcher answers, with everything that is needed to say what the answer means.

Two radii, two statements, both with confidence 1 - alpha over the noise of this run:

* ``radius``: for every shorter change of the query the majority of votes stays on the same side. The opposite answer is
  excluded (votes prove it with probability at most alpha); an abstention is not, whatever the deployment makes of it.
* ``radius_detected``: for every shorter change this very matcher, with its finite number of votes, still gives the
  same answer, with probability at least 0.999 on fresh noise.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from dualshield.errors import InputError
from dualshield.images.canonical import CANONICAL_SIZE
from dualshield.smoothing.noise import Origin
from dualshield.smoothing.statistics import Decision

NUMBERS = 3 * CANONICAL_SIZE**2


@dataclass(frozen=True)
class MemberResult:
    """What one member of the deployment found."""

    hash: str
    hash_version: str
    decision: Decision
    method: str  # how it was decided: by "votes"
    rule: str
    distance: float  # of the plain hashes, no noise, no low-pass: their bit error rate, or as the native rule has it
    threshold: float  # a bit error rate, or the limit of the native rule
    bits: int
    votes: int
    draws: int
    p_lower: float
    radius: float
    radius_detected: float  # where abstentions are told as this decision, one of them counts as the same answer
    alpha: float  # its share of the deployment's
    sigma: float
    noise: str
    lowpass: int | None
    reference_mode: str
    engine: str
    seconds: float


@dataclass(frozen=True)
class MatchResult:
    """The answer of a deployment, its certificate, and what each member found."""

    reference: str
    query: str
    hash: str
    decision: Decision
    abstained: bool  # the votes proved nothing; the decision is then what the deployment says of such queries
    radius: float
    radius_detected: float
    radius_space: str
    radius_upload: float | None  # the certified radius in the upload's own samples, where that has a meaning
    on_abstain: Decision  # what the deployment says of queries whose votes prove nothing
    alpha: float
    target_radius: float | None
    noise_source: Origin
    reference_fingerprint: str
    deployment: str
    seconds: float
    members: tuple[MemberResult, ...]

    @property
    def member(self) -> MemberResult:
        """The only one, where the deployment has a single hash."""
        if len(self.members) > 1:
            raise InputError(f"{self.hash} has {len(self.members)} members; look at each of them")
        return self.members[0]

    @property
    def psnr(self) -> float | None:
        """The certified radius as a PSNR in dB: a change of more than this PSNR is inside. None where there is none."""
        return psnr_of(self.radius)

    @property
    def grey_levels(self) -> float:
        """The certified radius as a root mean square over all pixels, in grey levels of 255."""
        return grey_levels_of(self.radius)

    def __repr__(self) -> str:
        return f"<MatchResult {self.decision.value}, radius {self.radius:.4g}, {self.query} against {self.reference}>"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; what a single member found stands beside the rest."""
        values = {name: value for name, value in asdict(self).items() if name != "members"}
        values |= {"radius_psnr": self.psnr, "radius_grey_levels": self.grey_levels}
        members = [asdict(member) for member in self.members]
        if len(members) > 1:
            return {**values, "members": members}
        return {**values, **{name: value for name, value in members[0].items() if name not in values}}


def psnr_of(radius: float) -> float | None:
    """In dB, of a change of that l2 length; shorter ones have more."""
    return None if radius <= 0 else 10 * math.log10(NUMBERS) - 20 * math.log10(radius)


def grey_levels_of(radius: float) -> float:
    """The root mean square of such a change, in grey levels of 255."""
    return 255 * radius / math.sqrt(NUMBERS)
