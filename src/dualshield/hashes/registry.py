"""Lookup of hashes by name, entry point or card.

A third-party package offers a hash through the entry-point group ``dualshield.hashes``: a function without
arguments that returns a PerceptualHash. A YAML card (see card.py) needs no code at all.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dualshield.errors import CardError, DualShieldError, InputError

if TYPE_CHECKING:  # torch takes a second to load, and names do not need it
    from dualshield.hashes.linear.linear_hash import LinearHash
    from dualshield.hashes.perceptual_hash import PerceptualHash

ENTRY_POINT_GROUP = "dualshield.hashes"
# The module with the function load, or module:function.
BUILT_IN = {
    "pdq": "dualshield.hashes.zoo.pdq",
    "neuralhash": "dualshield.hashes.zoo.neuralhash",
    "efflite": "dualshield.hashes.zoo.efflite",
    "phash": "dualshield.hashes.zoo.classical:load_phash",
    "phash-dct": "dualshield.hashes.zoo.classical:load_phash_dct",
    "dhash": "dualshield.hashes.zoo.classical:load_dhash",
    "ahash": "dualshield.hashes.zoo.classical:load_ahash",
    "block-mean": "dualshield.hashes.zoo.classical:load_block_mean",
    "dinohash": "dualshield.hashes.zoo.dinohash",
    "dinohash-512": "dualshield.hashes.zoo.dinohash:load_512",
    "hybridhash": "dualshield.hashes.zoo.hybridhash",
    "sscd": "dualshield.hashes.zoo.sscd",
    "sscd-large": "dualshield.hashes.zoo.sscd:load_large",
    "simdino": "dualshield.hashes.zoo.simdino",
    "simdino-v2": "dualshield.hashes.zoo.simdino:load_v2",
    "vit2hash": "dualshield.hashes.zoo.vit2hash",
    "c-pdna": "dualshield.hashes.zoo.c_pdna",
    "c-pdq": "dualshield.hashes.zoo.c_pdq",
}
# The hashes that are linear up to a threshold, as descriptions without torch.
LINEAR = {
    "pdq": "dualshield.hashes.linear.pdq",
    "phash": "dualshield.hashes.linear.phash",
    "phash-dct": "dualshield.hashes.linear.phash:load_dct",
    "dhash": "dualshield.hashes.linear.dhash",
    "ahash": "dualshield.hashes.linear.ahash",
    "block-mean": "dualshield.hashes.linear.block_mean",
}
DEFAULT_HASH = "efflite"
CARD_SUFFIXES = (".yaml", ".yml")


def hash_names() -> list[str]:
    """Return all names that ``get_hash`` knows, built-in ones first."""
    plugged = sorted(point.name for point in entry_points(group=ENTRY_POINT_GROUP))
    return [*BUILT_IN, *(name for name in plugged if name not in BUILT_IN)]


def get_hash(spec: str) -> PerceptualHash:
    """Return the hash named ``spec``, or the one described by the YAML card at that path."""
    if spec.lower().endswith(CARD_SUFFIXES):
        from dualshield.hashes.external.card import load_card

        found = load_card(Path(spec))
        if found.name in hash_names():
            raise CardError(
                f"{spec}: another installed hash has the name {found.name}, so results, profiles and references of "
                "the two would be confused; give the card another name"
            )
        return found
    return _loader(spec)()


def get_linear(name: str) -> LinearHash | None:
    """Return the built-in linear hash of that name without loading torch; None if there is none."""
    if name not in LINEAR:
        return None
    found: LinearHash = _imported(LINEAR[name])()
    return found


def split_names(spec: str) -> list[str]:
    """Return the members of ``a+b``; the path of a card may contain a plus sign."""
    try:
        is_file = Path(spec).is_file()
    except (OSError, ValueError):  # too long for a path, or with a zero byte
        is_file = False
    return [spec] if is_file else spec.split("+")


def _loader(name: str) -> Callable[[], PerceptualHash]:
    if name in BUILT_IN:
        return _imported(BUILT_IN[name])
    for point in entry_points(group=ENTRY_POINT_GROUP, name=name):
        return lambda: _load_plugin(name, point)
    raise InputError(
        f"unknown hash {name!r}: use one of {', '.join(hash_names())}, or the path of a card ending in .yaml"
    )


def _imported(place: str) -> Callable[[], Any]:
    """Return the function at ``module`` (then it is called load) or ``module:function``."""
    module, _, function = place.partition(":")
    found: Callable[[], Any] = getattr(importlib.import_module(module), function or "load")
    return found


def _load_plugin(name: str, point: EntryPoint) -> PerceptualHash:
    try:
        found = point.load()()
    except DualShieldError:
        raise
    except (Exception, SystemExit) as error:  # third-party code: one broken plug-in must not break others
        raise InputError(f"hash {name}: its plug-in {point.value} failed ({type(error).__name__}: {error})") from error
    from dualshield.hashes.perceptual_hash import PerceptualHash

    if not isinstance(found, PerceptualHash):
        raise InputError(f"hash {name}: its entry point returned {type(found).__name__}, not a PerceptualHash")
    return found
