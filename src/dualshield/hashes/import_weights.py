"""Import of weights for built-in hashes; a file is accepted only if it loads as its model."""

from __future__ import annotations

import importlib
from pathlib import Path

from dualshield.hashes.registry import BUILT_IN
from dualshield.weights import StoredWeights, WeightFile, fetch, import_file, read_state
from dualshield.weights.download import Progress


def import_weights(name: str, source: Path) -> StoredWeights:
    """Import a copy of ``source`` as the weights ``name``, if it loads as that model."""
    return import_file(name, source, check_weights)


def fetch_weights(name: str, progress: Progress | None = None) -> StoredWeights:
    """Download the weights ``name`` from their authors and import them."""
    return fetch(name, check_weights, progress)


def check_weights(weight: WeightFile, path: Path) -> None:
    """Load the file as the model of ``weight``; raises if it is not that model.

    The hash's module has ``check(weight, path)`` if it reads several files or formats, else
    ``build(state, file)``.
    """
    module = importlib.import_module(BUILT_IN[weight.hash].partition(":")[0])
    if hasattr(module, "check"):
        module.check(weight, path)
    else:
        module.build(read_state(path, weight.hash), path.name)
