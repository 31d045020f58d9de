"""All exceptions that DualShield raises deliberately.

    DualShieldError            exit code
    ├── InputError                 2      invalid input from the caller
    │   ├── ImageError             2      an image that cannot be decoded
    │   ├── CodeError              2      a hash code of the wrong length or alphabet
    │   ├── UnusableReferenceError 2      a stored reference that is damaged or from another deployment
    │   ├── TooLittleStructureError 2     an image that a hash cannot tell from others, so it cannot be protected
    │   ├── CardError              2      an invalid hash card (YAML), or its model file
    │   ├── WeightsError           2      a checkpoint that is damaged, unsafe or of another model
    │   └── NothingToAttackError   2      a pair whose decision is already the attack's goal
    └── MissingError               3      something to install or download first
        ├── MissingWeightsError    3
        └── MissingDependencyError 3

Each message is one line: which input is wrong, why, and what to do.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of the command line."""

    DONE = 0
    CONDITION = 1
    BAD_INPUT = 2
    MISSING = 3


class DualShieldError(Exception):
    """Base class of all DualShield errors; not raised directly."""

    exit_code = ExitCode.BAD_INPUT


class InputError(DualShieldError):
    """A parameter or file from the caller cannot be used."""


class ImageError(InputError):
    """An image that cannot be decoded."""


class CodeError(InputError):
    """A hash code of the wrong length or alphabet."""


class UnusableReferenceError(InputError):
    """A stored reference that is damaged, or was enrolled for another hash or configuration."""


class TooLittleStructureError(InputError):
    """An image, such as a flat colour, that does not match itself under noise: it cannot be a reference."""


class CardError(InputError):
    """A hash card with a missing, unknown or invalid field, or an unusable model."""


class WeightsError(InputError):
    """A checkpoint that is damaged, unsafe, or of another model."""


class NothingToAttackError(InputError):
    """The pair's decision is already the attack's goal: evasion needs a match, collision a non-match."""


class MissingError(DualShieldError):
    """Something that DualShield needs is not installed or downloaded."""

    exit_code = ExitCode.MISSING


class MissingWeightsError(MissingError):
    """The trained weights of a hash are missing; random weights are never used."""


class MissingDependencyError(MissingError):
    """An optional Python package is not installed."""
