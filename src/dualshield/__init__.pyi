# The public names and where they are defined; `__init__.py` reads this file.

from . import attacks, transforms
from .calibration.calibrate import calibrate
from .calibration.measure import CalibrationPlan
from .errors import (
    CardError,
    CodeError,
    DualShieldError,
    ImageError,
    InputError,
    MissingDependencyError,
    MissingError,
    MissingWeightsError,
    NothingToAttackError,
    TooLittleStructureError,
    UnusableReferenceError,
    WeightsError,
)
from .evaluation.evaluate import evaluate
from .evaluation.rates import Rate, cost_of_evasion
from .evaluation.redteam import redteam
from .hardening.harden import HardenedImage, Hardener, harden
from .hardening.report import HardeningReport
from .hashes import HashState, PerceptualHash, get_hash, hash_names, list_hashes
from .hashes.external.black_box import black_box
from .hashes.external.command import command_hash
from .hashes.from_linear import from_linear
from .hashes.linear.linear_hash import LinearHash
from .images import CanonicalImage, FrontEnd, ImageLike, as_image, load_image
from .images.views import View
from .smoothing.config import PAPER, MatcherConfig
from .smoothing.deploy import HashLike, deploy, match
from .smoothing.deployment import Deployment
from .smoothing.member import Member
from .smoothing.noise import GaussianSource
from .smoothing.profile import Profile
from .smoothing.reference import Reference
from .smoothing.result import MatchResult, MemberResult
from .smoothing.statistics import Decision
from .smoothing.variants import Variant
from .smoothing.views import Views
from .verification.verify import Verification, verify

__version__: str

__all__ = [
    "PAPER",
    "CalibrationPlan",
    "CanonicalImage",
    "CardError",
    "CodeError",
    "Decision",
    "Deployment",
    "DualShieldError",
    "FrontEnd",
    "GaussianSource",
    "HardenedImage",
    "Hardener",
    "HardeningReport",
    "HashLike",
    "HashState",
    "ImageError",
    "ImageLike",
    "InputError",
    "LinearHash",
    "MatchResult",
    "MatcherConfig",
    "Member",
    "MemberResult",
    "MissingDependencyError",
    "MissingError",
    "MissingWeightsError",
    "NothingToAttackError",
    "PerceptualHash",
    "Profile",
    "Rate",
    "Reference",
    "TooLittleStructureError",
    "UnusableReferenceError",
    "Variant",
    "Verification",
    "View",
    "Views",
    "WeightsError",
    "as_image",
    "attacks",
    "black_box",
    "calibrate",
    "command_hash",
    "cost_of_evasion",
    "deploy",
    "evaluate",
    "from_linear",
    "get_hash",
    "harden",
    "hash_names",
    "list_hashes",
    "load_image",
    "match",
    "redteam",
    "transforms",
    "verify",
]
