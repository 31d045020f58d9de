"""Trained weights: the list of known files (catalogue), the local folder (store), and safe loading (checkpoint)."""

from dualshield.weights.catalogue import CATALOGUE, WeightFile, weight_file
from dualshield.weights.checkpoint import load_strict, read_state
from dualshield.weights.store import StoredWeights, WeightState, fetch, find, import_file, states, verify

__all__ = [
    "CATALOGUE",
    "StoredWeights",
    "WeightFile",
    "WeightState",
    "fetch",
    "find",
    "import_file",
    "load_strict",
    "read_state",
    "states",
    "verify",
    "weight_file",
]
