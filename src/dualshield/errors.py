"""Every error DualShield raises on purpose.

    DualShieldError            exit code
    ├── InputError                 2      something the caller gave us is wrong
    │   ├── ImageError             2      a file that cannot become a canonical image
    │   ├── CodeError              2      a hash code that does not fit the hash
    │   ├── UnusableReferenceError 2      a kept reference that is damaged, or of another deployment
    │   ├── CardError              2      a hash card (YAML) or the model it names is wrong
    │   ├── WeightsError           2      a checkpoint that is not what it was given as
    │   └── NothingToAttackError   2      a pair that is already decided as an attack would have it
    └── MissingError               3      something that has to be installed or downloaded first
        ├── MissingWeightsError    3
        └── MissingDependencyError 3

The message is one line: what was wrong, with which input, what to do next.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the command line tells its caller."""

    DONE = 0
    CONDITION = 1
    BAD_INPUT = 2
    MISSING = 3


class DualShieldError(Exception):
    """Base of all deliberate errors; never raised itself."""

    exit_code = ExitCode.BAD_INPUT


class InputError(DualShieldError):
    """A parameter or file given by the caller cannot be used."""


class ImageError(InputError):
    """A file that cannot be decoded into a canonical image."""


class CodeError(InputError):
    """A hash code of the wrong length or alphabet."""


class UnusableReferenceError(InputError):
    """A kept reference that is damaged, or was enrolled for another hash or configuration."""


class CardError(InputError):
    """A hash card with a missing, unknown or impossible field."""


class WeightsError(InputError):
    """A checkpoint that is damaged, unsafe, or of another model."""


class NothingToAttackError(InputError):
    """A pair that does not match cannot be evaded, one that matches cannot be made to collide."""


class MissingError(DualShieldError):
    """Something DualShield needs is not on this machine."""

    exit_code = ExitCode.MISSING


class MissingWeightsError(MissingError):
    """A hash without its trained weights; it is never run with random ones."""


class MissingDependencyError(MissingError):
    """An optional Python package is not installed."""
