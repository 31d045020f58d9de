"""The file format of references: JSON with codes as text, safe to read from an untrusted source.

    {"format": "dualshield-reference", "version": 2, "name": ..., "fingerprint": ..., "members": [
      {"terms": {...}, "plain": CODE, "levels": [{"sigma": 1.0, "threshold": 0.2, "codes": [CODE, ...]}],
       "bank": [CODE, ...] or null, "pixels": CODE or null, "bare": false}]}

A level has one code per view of the reference. Version 1 had no views and is not read any more.

`reference_codes` says how a CODE is written. Reading executes nothing, limits all sizes before unpacking, and checks
the fingerprint.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dualshield._common.digest import digest_of
from dualshield._common.files import read_limited, write_atomically
from dualshield.errors import CodeError, InputError, UnusableReferenceError
from dualshield.images.space import CANONICAL_SIZE
from dualshield.smoothing.exact.config import MAX_SIGMA
from dualshield.smoothing.exact.reference import NOISE, ExactReference
from dualshield.smoothing.level import Level
from dualshield.smoothing.reference_codes import (
    MAX_BITS,
    Code,
    as_array,
    from_text,
    identified,
    stack_of,
    to_text,
)
from dualshield.smoothing.views import Views

if TYPE_CHECKING:  # torch takes a second to load, and exact references do not need it
    from dualshield.smoothing.member_reference import MemberReference

Kept: TypeAlias = "ExactReference | MemberReference"
FORMAT, VERSION = "dualshield-reference", 2
SUFFIX = ".dsref"
MAX_BYTES = 16 * 2**20
MAX_MEMBERS = 64
MAX_TEXT = 1000
MAX_WEIGHTS, MAX_SIGMAS = 100, 1000
PIXELS = (3, CANONICAL_SIZE, CANONICAL_SIZE)
MEMBER_FIELDS = {"terms", "plain", "levels", "bank", "pixels", "bare"}
LEVEL_FIELDS = {"sigma", "threshold", "codes"}
MAX_LEVELS = 2
HASH = {"name": str, "version": str, "bits": int, "input": str, "front_end": str, "calls": str, "weights": dict}
TERMS = {
    "hash": dict,
    "rule": str,
    "boundary": float,
    "lowpass": int | None,
    "noise": str,
    "sigmas": list,
    "mode": str,
    "draws": int,
    "views": dict,
    "second": dict | None,
    "probes": int | None,
}


def fingerprint_of(members: Sequence[Kept]) -> str:
    """Return the sha256 of the members, without the name; it does not depend on the compression."""
    return digest_of([FORMAT, VERSION, [_fields(member, identified) for member in members]])


def save_members(file: Path, name: str, members: Sequence[Kept]) -> None:
    """Write a reference file atomically."""
    data = {
        "format": FORMAT,
        "version": VERSION,
        "name": Path(name).name,  # files may be shared: do not reveal the path of the image
        "fingerprint": fingerprint_of(members),
        "members": [_fields(member, to_text) for member in members],
    }
    write_atomically(file, (json.dumps(data, indent=1, allow_nan=False) + "\n").encode())


def load_members(file: Path) -> tuple[str, tuple[Kept, ...]]:
    """Read and check a reference file; return the name of the reference and its members."""
    raw = read_limited(file, MAX_BYTES, UnusableReferenceError)
    try:
        data = json.loads(raw, parse_constant=_no_constant, parse_float=_finite)
        name, members = _read(data)
        fits = data["fingerprint"] == fingerprint_of(members)
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError, CodeError) as error:
        raise UnusableReferenceError(
            f"{file} cannot be used as a reference ({_reason(error)}); enroll the image again"
        ) from error
    if not fits:
        raise UnusableReferenceError(
            f"{file} is damaged: its fingerprint does not match its contents; enroll the image again"
        )
    return name, members


def _read(data: Any) -> tuple[str, tuple[Kept, ...]]:
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(f"its format is not {FORMAT}")
    if data["version"] != VERSION or isinstance(data["version"], bool):
        raise ValueError(f"its format version is {data['version']!r}; this DualShield reads version {VERSION}")
    if not isinstance(data["name"], str) or not isinstance(data["fingerprint"], str) or len(data["name"]) > MAX_TEXT:
        raise TypeError("its name or fingerprint is not text, or too long")
    members = data["members"]
    if not isinstance(members, list) or not 1 <= len(members) <= MAX_MEMBERS:
        raise TypeError(f"its members are not a list of 1 to {MAX_MEMBERS}")
    return data["name"], tuple(_member(member) for member in members)


def _member(data: Any) -> Kept:
    if not isinstance(data, dict) or set(data) != MEMBER_FIELDS:
        raise TypeError(f"a member needs the fields {', '.join(sorted(MEMBER_FIELDS))} and no other")
    terms, bank, pixels = data["terms"], data["bank"], data["pixels"]
    _check_terms(terms)
    plain = from_text(data["plain"])
    bits = terms["hash"]["bits"]
    if terms["rule"] == "hamming" and (plain.dtype != np.bool_ or len(plain) != bits):
        raise ValueError(f"its codes do not have the {bits} bits of its hash")
    if (plain.dtype == np.bool_) != (terms["rule"] == "hamming"):
        raise ValueError("its rule compares another type of codes")
    if plain.ndim != 1:
        raise ValueError("its codes do not have the same shape")
    levels = _levels(data["levels"], terms, data["plain"])
    expected = {"code": (False, False), "bank": (True, False), "paired": (False, True)}[terms["mode"]]
    if (bank is not None, pixels is not None) != expected:
        raise ValueError(f"its bank and pixels do not fit mode {terms['mode']}")
    if not isinstance(data["bare"], bool):
        raise TypeError(f"bare is {data['bare']!r}, not true or false")
    views = len(terms["views"]["reference"]) + len(terms["views"]["query"])
    if data["bare"] and (terms["mode"], terms["sigmas"], views) != ("code", [levels[0].sigma], 2):
        raise ValueError("a bare code must have one sigma, no further views, and no bank or image")
    if terms["mode"] != "code" and (views > 2 or terms["second"] is not None):
        raise ValueError(f"mode {terms['mode']} has no views and no second sigma")
    if terms["noise"] == NOISE:
        if terms["mode"] != "code" or terms["rule"] != "hamming" or len(levels) > 1:
            raise ValueError("an exact reference has one level with codes of bits")
        if levels[0].code.all() or not levels[0].code.any():
            raise ValueError("its code is all ones or all zeros, which says nothing about an image")
        return ExactReference(terms, plain.astype(np.bool_), levels, data["bare"])
    entries = _bank(bank, data["plain"], terms["draws"])
    return _of_votes(terms, plain, levels, entries, _pixels(pixels), data["bare"])


def _levels(data: Any, terms: dict[str, Any], plain: str) -> tuple[Level, ...]:
    """Read the levels: one code per view of the reference, of the same shape as ``plain``."""
    if not isinstance(data, list) or not 1 <= len(data) <= MAX_LEVELS:
        raise TypeError(f"its levels are not a list of 1 to {MAX_LEVELS}")
    found = [_level(level, terms, plain) for level in data]
    second = terms["second"]
    if len(found) > 1 and (second is None or not found[0].sigma > found[1].sigma == second["sigma"]):
        raise ValueError("its second level does not have its second sigma, or not the smaller one")
    return tuple(found)


def _level(data: Any, terms: dict[str, Any], plain: str) -> Level:
    if not isinstance(data, dict) or set(data) != LEVEL_FIELDS:
        raise TypeError(f"a level needs the fields {', '.join(sorted(LEVEL_FIELDS))} and no other")
    sigma, threshold, codes = data["sigma"], data["threshold"], data["codes"]
    allowed = _thresholds(terms).get(sigma) if isinstance(sigma, float) else None
    if allowed is None:
        raise ValueError(f"sigma {sigma!r} is not among its enrolled sigmas")
    if terms["rule"] == "hamming":
        if not isinstance(threshold, float) or not 0 <= threshold <= allowed:
            raise ValueError(f"its threshold {threshold!r} is not between 0 and that of its configuration")
    elif threshold is not None:
        raise ValueError("a native rule has its own limit, and no threshold")
    views = len(terms["views"]["reference"])
    if not isinstance(codes, list) or len(codes) != views:
        raise ValueError(f"a level does not have one code for each of its {views} views")
    return Level(sigma, stack_of(codes, plain), threshold)


def _thresholds(terms: dict[str, Any]) -> dict[float, float]:
    """Return the largest threshold that each sigma may have; enrollment may have lowered it."""
    # Of votes terms have the largest distance that matches, and half a bit more. A threshold just below the next bit
    # still means the same distance.
    bits = terms["hash"]["bits"]
    by_votes = (int(terms["boundary"]) + 1 - 1e-6) / bits if terms["rule"] == "hamming" else 0.0
    found = dict(zip(terms["sigmas"], terms.get("thresholds", [by_votes] * len(terms["sigmas"])), strict=True))
    second = terms["second"]
    if second is not None:
        found[second["sigma"]] = max(second["threshold"], found.get(second["sigma"], 0.0))
    return found


def _of_votes(
    terms: dict[str, Any],
    plain: Code,
    levels: tuple[Level, ...],
    bank: Code | None,
    pixels: Code | None,
    bare: bool,
) -> MemberReference:
    import torch

    from dualshield.smoothing.member_reference import MemberReference

    kept_bank, kept_pixels = (None if array is None else torch.from_numpy(array) for array in (bank, pixels))
    kept = tuple(replace(level, codes=torch.from_numpy(level.codes)) for level in levels)
    return MemberReference(terms, torch.from_numpy(plain), kept, kept_bank, kept_pixels, bare)


def _check_terms(terms: Any) -> None:
    expected = TERMS
    if isinstance(terms, dict) and terms.get("noise") == NOISE:
        expected = {**TERMS, "thresholds": list}
    if not isinstance(terms, dict) or set(terms) != set(expected):
        raise TypeError(f"its terms need the fields {', '.join(expected)} and no other")
    for name, kind in expected.items():
        if not isinstance(terms[name], kind) or isinstance(terms[name], bool):
            raise TypeError(f"{name} {terms[name]!r} has the wrong type")
    hash_, weights = terms["hash"], terms["hash"].get("weights")
    if set(hash_) != set(HASH) or not all(isinstance(hash_[name], kind) for name, kind in HASH.items()):
        raise TypeError(f"its hash needs the fields {', '.join(HASH)} and no other")
    texts = [*weights, *weights.values(), *(value for value in hash_.values() if isinstance(value, str)), terms["rule"]]
    if len(weights) > MAX_WEIGHTS or not all(isinstance(text, str) and len(text) <= MAX_TEXT for text in texts):
        raise ValueError("the description of its hash is too long")
    if isinstance(hash_["bits"], bool) or not 1 <= hash_["bits"] <= MAX_BITS:
        raise ValueError(f"its hash has {hash_['bits']!r} bits, not 1 to {MAX_BITS}")
    sigmas = terms["sigmas"]
    if not 1 <= len(sigmas) <= MAX_SIGMAS or not all(isinstance(sigma, float) for sigma in sigmas):
        raise TypeError(f"its sigmas are not a list of 1 to {MAX_SIGMAS} numbers")
    thresholds = terms.get("thresholds", [0.0] * len(sigmas))
    if len(thresholds) != len(sigmas) or not all(isinstance(t, float) and 0 <= t < 0.5 for t in thresholds):
        raise TypeError("its thresholds are not one bit error rate in [0, 0.5) for each sigma")
    _check_views(terms)


def _check_views(terms: dict[str, Any]) -> None:
    try:
        Views.from_json(terms["views"])
    except InputError as error:
        raise ValueError(str(error)) from error
    second = terms["second"]
    if second is None:
        return
    if set(second) != {"sigma", "threshold"} or not all(isinstance(value, float) for value in second.values()):
        raise TypeError("its second level is not a sigma and a threshold")
    if not (0 < second["sigma"] <= MAX_SIGMA and 0 <= second["threshold"] < 0.5):
        raise ValueError("its second sigma or threshold is out of range")


def _bank(entries: Any, code: str, draws: int) -> Code | None:
    """Read the codes of a bank, of the same shape as ``code``."""
    if entries is None:
        return None
    if not isinstance(entries, list) or len(entries) != draws or not entries:
        raise TypeError(f"its bank is not a list of {draws} codes")
    return stack_of(entries, code)


def _pixels(text: Any) -> Code | None:
    if text is None:
        return None
    pixels = from_text(text)
    if pixels.shape != PIXELS or pixels.dtype != np.float32:
        raise ValueError("its image does not have the canonical shape")
    if not (float(pixels.min()) >= 0 and float(pixels.max()) <= 1):
        raise ValueError("its image has pixels outside [0, 1]")
    return pixels


def _fields(member: Kept, form: Callable[[Code], str]) -> dict[str, Any]:
    return {
        "terms": member.terms,
        "plain": form(as_array(member.plain)),
        "levels": [
            {
                "sigma": float(level.sigma),
                "threshold": None if level.threshold is None else float(level.threshold),
                "codes": [form(as_array(code)) for code in level.codes],
            }
            for level in member.levels
        ],
        "bank": None if member.bank is None else [form(as_array(code)) for code in member.bank],
        "pixels": None if member.pixels is None else form(as_array(member.pixels)),
        "bare": member.is_bare,
    }


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:20]} is too large")
    return value


def _reason(error: Exception) -> str:
    text = f"no field {error}" if isinstance(error, KeyError) else str(error) or type(error).__name__
    return " ".join(text.split())[:200]
