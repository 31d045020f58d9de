"""Build the ``config.json`` of a run: the plan, the images, the software, and the expected number of records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from dualshield.evaluation.metrics.installed import Extras
from dualshield.evaluation.parts import transformed
from dualshield.evaluation.plan.datasets import Pool
from dualshield.evaluation.plan.interface import RunPlan
from dualshield.evaluation.run import provenance
from dualshield.evaluation.run.folder import FORMAT
from dualshield.evaluation.run.records import Key

MOST = 2**53  # largest plausible number of records


def configuration(
    plan: RunPlan, pool: Pool, facts: dict[str, Any], extras: Extras, keys: Iterable[Key]
) -> dict[str, Any]:
    """Return the configuration, ready for JSON; ``facts`` describe the hashes, ``keys`` are those of all records."""
    return {
        "format": FORMAT,
        "plan": plan.name,
        "date": datetime.now(UTC).date().isoformat(),
        "hashes": list(facts),
        "defences": facts,
        "variants": plan.variants,
        "parts": plan.parts,
        **plan.settings(),
        **({transformed.PART: transformed.names()} if transformed.PART in plan.parts else {}),
        "skip": plan.skip,
        "limit": plan.limit,
        "seed": plan.seed,
        "device": plan.device,
        **({"extras": extras.present()} if plan.has_metrics else {}),
        "data": {name: {picture.name: picture.sha256 for picture in pool.of(name)} for name in pool.datasets},
        "expected": _counted(keys),
        "unreadable": [asdict(found) for found in pool.unreadable],
        "duplicates": [asdict(found) for found in pool.duplicates],
        "warnings": pool.warnings(),
        "versions": provenance.versions(),
        "machine": provenance.machine(),
    }


def _counted(keys: Iterable[Key]) -> dict[str, dict[str, dict[str, int]]]:
    """Return the number of records of the finished run, by part, hash and variant."""
    counts: dict[str, dict[str, dict[str, int]]] = {}
    for key in keys:
        of = counts.setdefault(key.part, {}).setdefault(key.hash, {})
        of[key.variant] = of.get(key.variant, 0) + 1
    return counts


def expected(config: dict[str, Any], part: str, hash_: str, variant: str) -> int | None:
    """Return the number of records of the finished run; None if the configuration lacks it, as in older runs."""
    counts = config.get("expected")
    for name in (part, hash_):
        if not isinstance(counts, dict):
            return None
        counts = counts.get(name, {})
    count = counts.get(variant, 0) if isinstance(counts, dict) else None
    return count if type(count) is int and 0 <= count <= MOST else None
