"""Merge runs with the same options on different images, for example from several machines, into one.

The results of an image do not depend on the other images of its run. So the records about single images are the same as
in one large run. Unrelated pairs are formed within each run only. FID is a figure of a whole set: it is kept for
datasets that are in one run only, and dropped for all others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from dualshield.errors import InputError
from dualshield.evaluation.plan.datasets import ALL
from dualshield.evaluation.run.records import Record, Run
from dualshield.evaluation.run.resume import CIRCUMSTANCES, DERIVED, IMAGES, difference

# Settings that may differ between merged runs: range of images, date and machine.
OWN = ("skip", "limit", *CIRCUMSTANCES)
LISTED = ("unreadable", "duplicates", "warnings")


def merge(runs: Sequence[Run]) -> Run:
    """Return one run with the images of all; raise an error if runs share images or differ in their settings."""
    first, *others = runs
    if not others:
        return first
    for other in others:
        found = difference(first.config, other.config, (*OWN, *IMAGES))
        if found is not None:
            where, one, another = found
            raise InputError(
                f"{first.folder} and {other.folder} cannot be merged: {where} is {one} and {another}; "
                "merge only runs with the same options, software and weights, on different images"
            )
    return Run(first.folder, _config(runs), tuple(_records(runs)), tuple(runs))


def _config(runs: Sequence[Run]) -> dict[str, Any]:
    config = {name: value for name, value in runs[0].config.items() if name not in (*OWN, *DERIVED)}
    config["data"] = _data(runs)
    for name in LISTED:
        lists = [run.config.get(name) for run in runs]
        config[name] = [entry for found in lists if isinstance(found, list) for entry in found]
    config["runs"] = {
        str(number): {name: run.config.get(name) for name in OWN} for number, run in enumerate(runs, start=1)
    }
    return config


def _data(runs: Sequence[Run]) -> dict[str, dict[str, str]]:
    """Return the sha256 of all images of the runs, by dataset and name."""
    found: dict[str, dict[str, str]] = {}
    for run in runs:
        for dataset, images in _images(run).items():
            of = found.setdefault(dataset, {})
            for name, digest in images.items():
                if name in of:
                    raise InputError(f"{run.folder} has {dataset}/{name}, as does another run; leave one run out")
                of[name] = digest
    return found


def _images(run: Run) -> dict[str, dict[str, str]]:
    data = run.config.get("data")
    if not isinstance(data, dict) or not all(isinstance(images, dict) for images in data.values()):
        raise InputError(f"{run.folder} does not list its images, so it cannot be merged; report it by itself")
    return data


def _records(runs: Sequence[Run]) -> list[Record]:
    shared = Counter(dataset for run in runs for dataset in _images(run))
    spread = {ALL, *(dataset for dataset, count in shared.items() if count > 1)}
    records = (record for run in runs for record in run.records)
    return [record for record in records if record.key.part != "fid" or record.key.dataset not in spread]
