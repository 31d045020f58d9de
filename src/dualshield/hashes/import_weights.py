"""Weights of the built-in hashes, imported only after they have been loaded as the model they claim to be."""

from __future__ import annotations

import importlib
from pathlib import Path

from dualshield.hashes.registry import BUILT_IN
from dualshield.weights import StoredWeights, WeightFile, fetch, import_file, read_state
from dualshield.weights.download import Progress


def import_weights(name: str, source: Path) -> StoredWeights:
    """Keep a copy of ``source`` as the weights ``name``, if it is that model."""
    return import_file(name, source, check_weights)


def fetch_weights(name: str, progress: Progress | None = None) -> StoredWeights:
    """Download the weights ``name`` from their authors and import them."""
    return fetch(name, check_weights, progress)


def check_weights(weight: WeightFile, path: Path) -> None:
    """Load the file as the model it is imported as.

    The module of the hash has ``check(weight, path)`` where it reads several files or formats, else
    ``build(state, file)``.
    """
    module = importlib.import_module(BUILT_IN[weight.hash].partition(":")[0])
    if hasattr(module, "check"):
        module.check(weight, path)
    else:
        module.build(read_state(path, weight.hash), path.name)
