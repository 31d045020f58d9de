"""The data that an exact matcher keeps of a reference: its codes, one per view, its sigma and threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dualshield._common.digest import difference_of
from dualshield.hashes.linear.linear_hash import Bits, LinearHash
from dualshield.smoothing.exact.config import ExactConfig
from dualshield.smoothing.exact.probes import VERSION as PROBES
from dualshield.smoothing.level import Level

NOISE = "exact"


@dataclass(frozen=True, eq=False)
class ExactReference:
    """A reference as an exact matcher keeps it. Nothing of it has to be secret."""

    terms: dict[str, Any]  # the hash and configuration it was enrolled under (`exact_terms`)
    plain: Bits  # the unprotected hash: used for the reported distance only
    levels: tuple[Level, ...]  # one level, with the codes that queries are compared with
    is_bare: bool = False  # a code from a list, not enrolled from an image

    mode = "code"
    bank = None
    pixels = None

    @property
    def sigma(self) -> float:
        """The sigma of the smoothing."""
        return self.levels[0].sigma

    @property
    def code(self) -> Bits:
        """The code of the image as it is."""
        code: Bits = self.levels[0].code
        return code

    @property
    def codes(self) -> npt.NDArray[np.bool_]:
        """The codes of all views, row by row."""
        codes: npt.NDArray[np.bool_] = self.levels[0].codes
        return codes

    @property
    def threshold(self) -> float:
        """The largest soft distance that matches, as a fraction of the bits."""
        threshold = self.levels[0].threshold
        assert threshold is not None
        return threshold

    def difference(self, terms: dict[str, Any], code_like: Any) -> str:
        """Say what differs from a matcher's terms; empty if the matcher can use this reference."""
        found = difference_of(self.terms, terms)
        if found or len(self.code) == len(code_like):
            return found
        return f"its codes have {len(self.code)} values, here {len(code_like)}"


def exact_terms(linear: LinearHash, config: ExactConfig) -> dict[str, Any]:
    """Everything that a reference depends on except its pixels; ``linear`` has no low-pass."""
    order = sorted(range(len(config.sigmas)), key=lambda i: config.sigmas[i])
    return {
        "hash": linear.identity,
        "rule": "hamming",
        "boundary": 0.0,
        "lowpass": config.lowpass,
        "noise": NOISE,
        "sigmas": [float(config.sigmas[i]) for i in order],
        "thresholds": [float(config.thresholds[i]) for i in order],
        "mode": "code",
        "draws": 0,
        "views": config.views.to_json(),
        "second": None,
        "probes": PROBES,
    }


def describe_exact(linear: LinearHash, config: ExactConfig, plain_boundary: float) -> dict[str, Any]:
    """All parameters of an exact member of a deployment, ready for JSON."""
    return {**exact_terms(linear, config), "plain_boundary": float(plain_boundary), "method": "exact"}
