"""Read the results of a run: a folder with ``config.json`` and ``results.jsonl``, one record per line.

A record is ``{"key": [part, hash, variant, dataset, image, detail], "result": {...}}``. The content of ``detail`` and
``result`` depends on the part:

========== ==================================== =====================================================================
part       detail                               result
========== ==================================== =====================================================================
certified  ``identity``, or a benign            decision, radius, p_lower, sigma, n, matching_votes, seconds, method
           transformation such as ``jpeg-80``   (``smoothing``, ``crown`` by a verifier, ``smoothing-limit``: an
                                                estimate, no certificate)
whitebox   the budget, such as ``40``           an ``AttackResult`` (``pgd``), and lpips
adaptive   the budget, from 1 to 180            the same (``eot-pgd``); ``inferred: true`` where a search inferred it
blackbox   the budget                           the same (``nes``)
nes-plain  the budget                           the same (``nes-plain``); only in red teams
collision  the budget                           the same (``collision``), and query, its start image; only in red teams
transforms the transformation                   decision, evaded, ssim, paper (whether the paper has it)
collisions the other image, ``dataset/name``    decision, collided
quality    empty                                ssim, lpips, psnr, l2, linf, seconds: hardened against original;
                                                unchanged: whether hardening made no change
fid        ``hardened``, or a budget            fid, images; image is empty, dataset ``all`` for the pooled set
========== ==================================== =====================================================================

Pairs that did not match before the attack have the result ``{"unmatched": true}``. ``refused`` is true if the image
could not be enrolled; in certificates ``method`` is ``refused`` then. A metric that is not installed is null. If
hardening changed nothing, results are copied from the variant without hardening, which ``same_as`` names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from dualshield._common.files import read_limited
from dualshield.errors import InputError

# Parts whose records depend on several images of a run.
SET_PARTS = ("collision", "collisions", "fid")
CONFIG = "config.json"
RESULTS = "results.jsonl"
TIMES = "times.jsonl"
MAX_CONFIG = 256 * 2**20  # largest file sizes in bytes; both files grow with the images
MAX_RESULTS = 4 * 2**30
# Old names of variants, from version 0.1.
RENAMED = {"ours": "both"}
# What older runs call a border is a screenshot; they have no list of transformations.
OLD_BORDERS = {"border-0.02": "screenshot-0.02", "border-0.05": "screenshot-0.05"}


class Key(NamedTuple):
    """Identifies one record: what was measured, on which image and under which variant."""

    part: str
    hash: str
    variant: str
    dataset: str
    image: str
    detail: str


@dataclass(frozen=True)
class Record:
    """One finished result with its key."""

    key: Key
    result: dict[str, Any]

    @property
    def refused(self) -> bool:
        """Whether the image could not be enrolled."""
        return self.result.get("refused") is True or self.result.get("method") == "refused"

    @property
    def matched(self) -> bool:
        """Whether the pair matched before the attack; other records have no result."""
        return "unmatched" not in self.result


@dataclass(frozen=True)
class Run:
    """A run read from disk, finished or not, or several merged runs."""

    folder: Path
    config: dict[str, Any]
    records: tuple[Record, ...]
    members: tuple[Run, ...] = ()  # the runs of a merged run

    @property
    def singles(self) -> tuple[Run, ...]:
        """The runs that were merged, or this run by itself; each has its own folder and configuration."""
        return self.members or (self,)

    @staticmethod
    def open(folder: Path) -> Run:
        """Read a run folder; incomplete lines from an interruption are skipped."""
        try:
            config = read_config(folder / CONFIG)
            text = read_limited(folder / RESULTS, MAX_RESULTS).decode("utf-8", errors="replace")
        except InputError as error:
            raise InputError(f"{folder} is not a run folder ({error}); create one with dualshield evaluate") from error
        if isinstance(config.get("variants"), list):
            config["variants"] = [RENAMED.get(str(name), name) for name in config["variants"]]
        records = tuple(_records(text))
        is_older = "transforms" not in config and not any(
            record.key.part == "transforms" and record.key.detail.startswith("screenshot-") for record in records
        )
        return Run(folder, config, tuple(map(_with_screenshots, records)) if is_older else records)

    def of(self, part: str, **fields: str) -> list[Record]:
        """Return the records of one part whose keys have the given fields."""
        wanted = {"part": part, **fields}
        return [record for record in self.records if wanted.items() <= record.key._asdict().items()]


def read_config(file: Path) -> dict[str, Any]:
    """Return the configuration of a run from its file."""
    try:
        config = json.loads(read_limited(file, MAX_CONFIG))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file} cannot be read: {error}") from error
    if not isinstance(config, dict):
        raise InputError(f"{file} is not a configuration")
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


def _with_screenshots(record: Record) -> Record:
    """Return a record of an older run with today's name of its transformation."""
    key = record.key
    if key.part != "transforms" or key.detail not in OLD_BORDERS:
        return record
    return replace(record, key=key._replace(detail=OLD_BORDERS[key.detail]))
