"""Trained weights: which exist (catalogue), where they lie here (store), and how they are read safely (checkpoint)."""

from dualshield.hashes.weights.catalogue import CATALOGUE, WeightFile, weight_file
from dualshield.hashes.weights.checkpoint import load_strict, read_state
from dualshield.hashes.weights.store import StoredWeights, WeightState, fetch, find, folder, import_file, states, verify

__all__ = [
    "CATALOGUE",
    "StoredWeights",
    "WeightFile",
    "WeightState",
    "fetch",
    "find",
    "folder",
    "import_file",
    "load_strict",
    "read_state",
    "states",
    "verify",
    "weight_file",
]
