"""The results of a match, with all numbers needed to interpret them.

The two radii make two statements, both with confidence 1 - alpha over the noise of this run:

* ``radius``: for every shorter change of the query the majority of votes stays on the same side: of a match, in the
  view and at the sigma that the result names; of a non-match, in all views and at all sigmas. The opposite answer is
  excluded (votes prove it with probability at most alpha). An abstention is not excluded, however the deployment
  reports it.
* ``radius_detected``: for every shorter change the same matcher, with its finite number of votes, still gives the same
  answer with probability at least 0.999 on fresh noise.

An exact matcher draws no noise. Its alpha is 0 and its two radii are the same: no shorter change alters the decision.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from dualshield.errors import InputError
from dualshield.images.space import CANONICAL_SIZE
from dualshield.images.views import IDENTITY
from dualshield.smoothing.names import Origin
from dualshield.smoothing.statistics import Decision

NUMBERS = 3 * CANONICAL_SIZE**2
AS_IT_IS = str(IDENTITY)


@dataclass(frozen=True)
class MemberResult:
    """The result of one member of the deployment."""

    hash: str
    hash_version: str
    decision: Decision
    method: str  # how it was decided: by "votes", or "exact"
    rule: str
    distance: float  # of the plain hashes, no noise, no low-pass: their bit error rate, or as the native rule has it
    threshold: float  # a bit error rate, or the limit of the native rule
    bits: int
    votes: int
    draws: int
    p_lower: float | None  # None if there were no votes
    radius: float
    radius_detected: float  # an abstention counts as the same answer if the deployment reports it as this decision
    alpha: float  # this member's share of the deployment's alpha
    sigma: float
    noise: str
    lowpass: int | None
    reference_mode: str
    engine: str
    seconds: float
    soft_distance: float | None = None  # what an exact matcher compares with the threshold; None for votes
    is_flat: bool = False  # the query has no structure, as in a flat colour
    query_view: str = AS_IT_IS  # how the query was looked at in the trial that these votes are of
    reference_view: str = AS_IT_IS  # most often the nearest; of votes it is not part of the certificate
    trials: int = 1  # views of the query times levels of the reference, all of which a non-match needs

    @property
    def is_near_without_noise(self) -> bool:
        """Whether the plain codes are within the threshold of the votes."""
        return self.distance <= self.threshold


@dataclass(frozen=True)
class MatchResult:
    """The answer of a deployment, its certificate, and the result of each member."""

    reference: str
    query: str
    hash: str
    decision: Decision
    abstained: bool  # the votes proved nothing; the decision is then `on_abstain`
    radius: float
    radius_detected: float
    radius_space: str
    radius_upload: float | None  # the certified radius in the upload's own samples, where that has a meaning
    on_abstain: Decision  # the deployment's answer for queries whose votes prove nothing
    alpha: float
    target_radius: float | None
    noise_source: Origin | None  # None if no noise was drawn
    reference_fingerprint: str
    deployment: str
    seconds: float
    members: tuple[MemberResult, ...]

    @property
    def member(self) -> MemberResult:
        """The result of the only member; an error if the deployment has several hashes."""
        if len(self.members) > 1:
            raise InputError(f"{self.hash} has {len(self.members)} members; use members")
        return self.members[0]

    @property
    def psnr(self) -> float | None:
        """The certified radius as a PSNR in dB: a change with a higher PSNR is inside. None if the radius is 0."""
        return psnr_of(self.radius)

    @property
    def grey_levels(self) -> float:
        """The certified radius as a root mean square over all pixels, in grey levels of 255."""
        return grey_levels_of(self.radius)

    def __repr__(self) -> str:
        return f"<MatchResult {self.decision.value}, radius {self.radius:.4g}, {self.query} against {self.reference}>"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; the fields of a single member are merged into the rest."""
        values = {name: value for name, value in asdict(self).items() if name != "members"}
        values |= {"radius_psnr": self.psnr, "radius_grey_levels": self.grey_levels}
        members = [asdict(member) for member in self.members]
        if len(members) > 1:
            return {**values, "members": members}
        return {**values, **{name: value for name, value in members[0].items() if name not in values}}


def psnr_of(radius: float) -> float | None:
    """Return the PSNR in dB of a change of that l2 length; shorter changes have a higher PSNR."""
    return None if radius <= 0 else 10 * math.log10(NUMBERS) - 20 * math.log10(radius)


def grey_levels_of(radius: float) -> float:
    """Return the root mean square of a change of that l2 length, in grey levels of 255."""
    return 255 * radius / math.sqrt(NUMBERS)
