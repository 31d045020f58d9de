"""What a run leaves behind: a folder with ``config.json`` and ``results.jsonl``, one record per pair and part.

A record is ``{"key": [part, hash, variant, dataset, image, detail], "result": {...}}``. What ``detail`` and ``result``
hold depends on the part:

========== ==================================== =====================================================================
part       detail                               result
========== ==================================== =====================================================================
certified  ``identity``, or a benign            decision, radius, p_lower, sigma, n, matching_votes, seconds, method
           transformation such as ``jpeg-80``   (``smoothing``, ``crown`` by a verifier, ``smoothing-limit``: an
                                                estimate, no certificate)
whitebox   the budget, such as ``40``           an ``AttackResult`` (``pgd``), and lpips
adaptive   the budget, from 1 to 180            the same (``eot-pgd``); ``inferred: true`` where a search inferred it
blackbox   the budget                           the same (``nes``)
nes-plain  the budget                           the same (``nes-plain``); a red team's only
collision  the budget                           the same (``collision``), and query, the image it began at; the same
transforms the transformation                   decision, evaded, ssim, paper (whether the paper has it)
collisions the other image, ``dataset/name``    decision, collided
quality    empty                                ssim, lpips, psnr, l2, linf, seconds: hardened against original;
                                                unchanged: whether hardening found nothing to do
fid        ``hardened``, or a budget            fid, images; image is empty, dataset ``all`` for the pooled set
========== ==================================== =====================================================================

Pairs that did not match to begin with have ``{"unmatched": true}`` instead. A metric whose extra is not installed is
null. Where hardening changed nothing, results are those of the variant without it, which ``same_as`` names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from dualshield._common.files import read_limited
from dualshield.errors import InputError

# What depends on all images of a run, not on one.
SET_PARTS = ("collision", "collisions", "fid")
CONFIG = "config.json"
RESULTS = "results.jsonl"
TIMES = "times.jsonl"
MAX_CONFIG = 256 * 2**20  # bytes that are read; both grow with the images
MAX_RESULTS = 4 * 2**30
# What version 0.1 called variants.
RENAMED = {"ours": "both"}


class Key(NamedTuple):
    """Which piece of work a record is of."""

    part: str
    hash: str
    variant: str
    dataset: str
    image: str
    detail: str


@dataclass(frozen=True)
class Record:
    """One finished piece of work."""

    key: Key
    result: dict[str, Any]

    @property
    def matched(self) -> bool:
        """Whether the pair matched to begin with, so that the rest means something."""
        return "unmatched" not in self.result


@dataclass(frozen=True)
class Run:
    """A run as it is on disk, finished or not, or several that were merged."""

    folder: Path
    config: dict[str, Any]
    records: tuple[Record, ...]
    members: tuple[Run, ...] = ()  # of a merged one

    @property
    def singles(self) -> tuple[Run, ...]:
        """The runs it consists of, each with a folder and a configuration of its own."""
        return self.members or (self,)

    @staticmethod
    def open(folder: Path) -> Run:
        """Read a run folder; lines cut short by an interruption are passed over."""
        try:
            config = read_config(folder / CONFIG)
            text = read_limited(folder / RESULTS, MAX_RESULTS).decode("utf-8", errors="replace")
        except InputError as error:
            raise InputError(f"{folder} is not a run folder ({error}); make one with dualshield evaluate") from error
        if isinstance(config.get("variants"), list):
            config["variants"] = [RENAMED.get(str(name), name) for name in config["variants"]]
        return Run(folder, config, tuple(_records(text)))

    def of(self, part: str, **fields: str) -> list[Record]:
        """Records of one part, with the given fields of their key."""
        wanted = {"part": part, **fields}
        return [record for record in self.records if wanted.items() <= record.key._asdict().items()]


def read_config(file: Path) -> dict[str, Any]:
    """What a run is, as it is written there."""
    try:
        config = json.loads(read_limited(file, MAX_CONFIG))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file} cannot be read: {error}") from error
    if not isinstance(config, dict):
        raise InputError(f"{file} does not hold a configuration")
    return config


def _records(text: str) -> Iterator[Record]:
    for line in text.splitlines():
        try:
            entry = json.loads(line)
            key, result = Key(*entry["key"]), entry["result"]
        except (ValueError, TypeError, KeyError, RecursionError):
            continue
        if isinstance(result, dict) and all(isinstance(field, str) for field in key):
            yield Record(key._replace(variant=RENAMED.get(key.variant, key.variant)), result)
