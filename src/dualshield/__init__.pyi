# The public names and where they are defined; `__init__.py` reads this file.

from .errors import (
    CardError,
    CodeError,
    DualShieldError,
    ImageError,
    InputError,
    MissingDependencyError,
    MissingError,
    MissingWeightsError,
)
from .hardening.harden import HardenedImage, Hardener, HardeningReport, harden
from .hashes import PerceptualHash, get_hash, hash_names, list_hashes
from .hashes.blackbox import black_box
from .hashes.blackbox_command import command_hash
from .images import CanonicalImage, FrontEnd, load_image
from .smoothing.config import PAPER, MatcherConfig
from .smoothing.ensemble import EnsembleMatcher, EnsembleResult
from .smoothing.matcher import MatchResult, SmoothedMatcher
from .smoothing.noise import GaussianSource
from .smoothing.profile import Profile, default_config
from .smoothing.reference import Reference
from .smoothing.statistics import Decision

__version__: str

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
