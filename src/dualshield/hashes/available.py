"""A listing of all known hashes and whether they can be used, mostly without loading networks.

The number of bits of a hash may depend on its imported files. So the first listing with these files loads the hash and
caches its description; later listings read the cache as long as the files are the same.
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
# Fields and types of PerceptualHash.describe.
FIELDS = {"hash": str, "version": str, "bits": int, "input": str, "threshold": float, "about": str}
Files = list[list[str | int]]


@dataclass(frozen=True)
class HashState:
    """Whether a hash can be used, and if not, what to do."""

    name: str
    state: State
    detail: str
    description: dict[str, Any] | None = None  # only if ready
    hash: PerceptualHash | None = field(default=None, repr=False)  # only if it had to be loaded

    @property
    def ready(self) -> bool:
        """Whether the hash can be used now."""
        return self.state == "ready"


def list_hashes() -> list[HashState]:
    """Return the state of every known hash."""
    weights = states()
    return [_state(name, [w for w in weights if w.weight.hash == name]) for name in hash_names()]


def _state(name: str, weights: list[WeightState]) -> HashState:
    files = _files(weights) if name in BUILT_IN else []
    known = _cached(name, files) if files else None
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
        _write_cache(name, files, description)
    return HashState(name, "ready", hash_.about, description, hash_)


def _files(weights: list[WeightState]) -> Files:
    """Return the identity of a hash's imported files, or an empty list if one of them is unusable."""
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


def _cache_file(name: str) -> Path:
    return cache_folder() / "hashes" / f"{name}.json"


def _cached(name: str, files: Files) -> dict[str, Any] | None:
    """Return the description cached for these files by this version of DualShield, or None."""
    try:
        note = json.loads(_cache_file(name).read_text(encoding="utf-8"))
        description = note["description"]
        same = note["version"] == __version__ and note["files"] == files
        whole = {field: type(value) for field, value in description.items()} == FIELDS
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return dict(description) if same and whole else None


def _write_cache(name: str, files: Files, description: dict[str, Any]) -> None:
    note = {"version": __version__, "files": files, "description": description}
    # If the cache cannot be written, the next listing loads the hash again.
    with suppress(OSError, DualShieldError):
        _cache_file(name).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(_cache_file(name), (json.dumps(note, indent=1) + "\n").encode())
