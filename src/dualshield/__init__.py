"""DualShield makes an existing perceptual hash hard to evade, and proves how hard."""

from dualshield.errors import (
    CardError,
    CodeError,
    DualShieldError,
    ImageError,
    InputError,
    MissingDependencyError,
    MissingError,
    MissingWeightsError,
)
from dualshield.hardening.harden import HardenedImage, Hardener, HardeningReport, harden
from dualshield.hashes import PerceptualHash, get_hash, hash_names, list_hashes
from dualshield.hashes.blackbox import black_box
from dualshield.hashes.blackbox_command import command_hash
from dualshield.images import CanonicalImage, FrontEnd, load_image
from dualshield.smoothing.config import PAPER, MatcherConfig
from dualshield.smoothing.ensemble import EnsembleMatcher, EnsembleResult
from dualshield.smoothing.matcher import MatchResult, SmoothedMatcher
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.profile import Profile, default_config
from dualshield.smoothing.reference import Reference
from dualshield.smoothing.statistics import Decision

__version__ = "0.1.0"

__all__ = [
    "PAPER",
    "CanonicalImage",
    "CardError",
    "CodeError",
    "Decision",
    "DualShieldError",
    "EnsembleMatcher",
    "EnsembleResult",
    "FrontEnd",
    "GaussianSource",
    "HardenedImage",
    "Hardener",
    "HardeningReport",
    "ImageError",
    "InputError",
    "MatchResult",
    "MatcherConfig",
    "MissingDependencyError",
    "MissingError",
    "MissingWeightsError",
    "PerceptualHash",
    "Profile",
    "Reference",
    "SmoothedMatcher",
    "black_box",
    "command_hash",
    "default_config",
    "get_hash",
    "harden",
    "hash_names",
    "list_hashes",
    "load_image",
]
