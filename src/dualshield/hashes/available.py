"""Every known hash with its state, without loading networks that somebody imported.

How many bits such a hash has may depend on its file. So the first listing that meets a set of files loads it and writes
down what it found; later ones read that, as long as the files are the same.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from dualshield._common.files import write_atomically
from dualshield._common.folders import cache_folder
from dualshield._version import __version__
from dualshield.errors import DualShieldError, MissingError, MissingWeightsError
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.hashes.registry import BUILT_IN, get_hash, hash_names
from dualshield.weights.store import WeightState, states

State = Literal["ready", "needs weights", "missing", "broken"]
# What PerceptualHash.describe gives.
FIELDS = {"hash": str, "version": str, "bits": int, "input": str, "threshold": float, "about": str}
Files = list[list[str | int]]


@dataclass(frozen=True)
class HashState:
    """One line of a listing: whether a hash can be used, and if not what to do."""

    name: str
    state: State
    detail: str
    description: dict[str, Any] | None = None  # of a hash that is ready
    hash: PerceptualHash | None = field(default=None, repr=False)  # where it had to be loaded

    @property
    def ready(self) -> bool:
        """Whether it can be used as it is."""
        return self.state == "ready"


def list_hashes() -> list[HashState]:
    """Every known hash with its state."""
    weights = states()
    return [_state(name, [w for w in weights if w.weight.hash == name]) for name in hash_names()]


def _state(name: str, weights: list[WeightState]) -> HashState:
    files = _files(weights) if name in BUILT_IN else []
    known = _remembered(name, files) if files else None
    if known is not None:
        return HashState(name, "ready", known["about"], known)
    try:
        hash_ = get_hash(name)
    except MissingWeightsError as error:
        return HashState(name, "needs weights", str(error))
    except MissingError as error:
        return HashState(name, "missing", str(error))
    except DualShieldError as error:
        return HashState(name, "broken", f"broken: {error}")
    description = hash_.describe()
    if files:
        _remember(name, files, description)
    return HashState(name, "ready", hash_.about, description, hash_)


def _files(weights: list[WeightState]) -> Files:
    """What tells the imported files of a hash from others; empty if one of them is not as it should be."""
    found: Files = []
    for state in weights:
        if state.problem is not None:
            return []
        if state.stored is not None:
            try:
                status = state.stored.path.stat()
            except OSError:
                return []
            found.append([state.weight.name, state.stored.sha256, status.st_size, status.st_mtime_ns])
    return found


def _note(name: str) -> Path:
    return cache_folder() / "hashes" / f"{name}.json"


def _remembered(name: str, files: Files) -> dict[str, Any] | None:
    """What an earlier listing found of the same files with the same DualShield; a damaged note is as good as none."""
    try:
        note = json.loads(_note(name).read_text(encoding="utf-8"))
        description = note["description"]
        same = note["version"] == __version__ and note["files"] == files
        whole = {field: type(value) for field, value in description.items()} == FIELDS
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return dict(description) if same and whole else None


def _remember(name: str, files: Files, description: dict[str, Any]) -> None:
    note = {"version": __version__, "files": files, "description": description}
    # Where nothing can be written, the next listing loads again.
    with suppress(OSError, DualShieldError):
        _note(name).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(_note(name), (json.dumps(note, indent=1) + "\n").encode())
