"""The report's last section: how a run was made, how much of it is finished, and warnings about its figures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dualshield.evaluation.plan.plan import PARTS
from dualshield.evaluation.report import paper_figures as paper
from dualshield.evaluation.report.figures import Results, number
from dualshield.evaluation.run.config import expected
from dualshield.evaluation.run.records import Run

INCEPTION_FEATURES = 2048
SHOWN = 40  # most lines shown of a list
TITLES = {
    "certified": "certification",
    "whitebox": "white-box attacks",
    "adaptive": "the adaptive attack",
    "blackbox": "black-box attacks",
    "transforms": "transformations",
    "collisions": "collisions",
    "quality": "visual quality",
}
READING = (
    "An attack succeeds when the deployed matcher no longer says match about the attacked image as saved in 8 bits. An "
    "abstention lets an upload pass, so it counts as evasion. Pairs that did not match before the attack are left out; "
    "the coverage table counts them.",
    "Rates carry 95 % Wilson intervals, means 95 % Student intervals, FID none. Averages over budgets or families are "
    "means of one share per image, with Wilson's interval for that number of images. The interval of the cost of "
    "evasion is where the ends of the curve's intervals reach one half; an end outside the budgets is left open.",
    "Original is the plain hash. Views is the plain hash with views: it looks at images in the deployment's ways, "
    "without smoothing and hardening. It keeps the plain hash's threshold, and is measured on transformations only, so "
    "its collisions are not known. Smoothing is the deployed matcher. Both shields are smoothing and hardening.",
    "The best value of a row is marked, even if intervals overlap; if all values are equal, none is marked.",
    "The paper's figures are copied from its tables. The paper has its own hashes, images, threshold and noise, so its "
    "figures are a baseline of this run only if the protocol and the hash are the same.",
)


@dataclass(frozen=True)
class Coverage:
    """How many records of one part are finished for one hash and variant."""

    part: str
    hash: str
    variant: str
    done: int
    expected: int | None  # None if the configuration lacks it
    unmatched: int
    refused: int = 0  # images that could not be enrolled

    @property
    def partial(self) -> bool:
        return self.expected is not None and self.done < self.expected


@dataclass(frozen=True)
class Method:
    """The content of the last section."""

    facts: tuple[tuple[str, str], ...]
    coverage: tuple[Coverage, ...]
    warnings: tuple[str, ...]  # for the top of the page
    lists: tuple[tuple[str, tuple[str, ...]], ...]  # unreadable files, duplicates, ...
    reading: tuple[str, ...] = READING


def describe(run: Run, found: Results) -> Method:
    """Return the content of the last section; any field of the configuration may be missing."""
    coverage = tuple(_coverage([single.config for single in run.singles], found))
    return Method(
        tuple(_facts(run.config)),
        coverage,
        tuple(_warnings(run, found, coverage)),
        tuple(
            (title, tuple(lines[:SHOWN]) + ((f"and {len(lines) - SHOWN} more",) if len(lines) > SHOWN else ()))
            for title, lines in (
                ("Unreadable files, skipped", _lines(run.config, "unreadable", _unreadable)),
                ("Duplicates, never paired as unrelated", _lines(run.config, "duplicates", _duplicate)),
                ("Warnings of the run", [str(line) for line in _sequence(run.config.get("warnings"))]),
            )
            if lines
        ),
    )


def _warnings(run: Run, found: Results, coverage: tuple[Coverage, ...]) -> Iterator[str]:
    config = run.config
    if run.members:
        yield (
            f"This is the report of {len(run.members)} runs on different images. Unrelated pairs are within each run. "
            "FID cannot be merged: datasets that are in several runs have none here."
        )
    unfinished = [entry for entry in coverage if entry.partial]
    if unfinished:
        parts = ", ".join(dict.fromkeys(TITLES.get(entry.part, entry.part) for entry in unfinished))
        yield f"This run is not finished ({parts}). All figures are of the finished results; see the last section."
    asked = [part for part in _sequence(config.get("parts")) if isinstance(part, str)] or list(PARTS)
    left_out = [TITLES[part] for part in PARTS if part not in asked]
    if left_out:
        yield f"Not part of this run: {', '.join(left_out)}."
    empty = [TITLES[part] for part in PARTS if part in asked and not found.has(part)]
    if empty:
        yield f"No results for: {', '.join(empty)}."
    for name, part, label in (("lpips", "quality", "LPIPS"), ("lpips", "whitebox", "LPIPS of attacked images")):
        if found.unmeasured(part, name):
            yield f"{label} was not measured, because its extra was not installed. No other metric replaces it."
    if found.unmeasured("fid", "fid"):
        yield "FID was not measured, because its extra was not installed. No other metric replaces it."
    elif found.has("fid"):
        sizes = [int(number(record.result.get("images")) or 0) for record in found.everything("fid")]
        if sizes and min(sizes) < INCEPTION_FEATURES:
            spread = f"{min(sizes)}" if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
            yield (
                f"FID is biased upwards on few images: here {spread} images for a covariance of "
                f"{INCEPTION_FEATURES} dimensions. Compare it only between sets of the same images and size."
            )
    if refused := _refused(coverage):
        yield f"Could not be enrolled, because they show too little: {refused}. Nothing matches them."
    hardened = found.everything("quality")
    unchanged = sum(record.result.get("unchanged") is True for record in hardened)
    if unchanged:
        yield (
            f"Hardening made no change to {unchanged} of {len(hardened)} images: their results are those without "
            "hardening."
        )
    unknown = [name for name in found.hashes if name not in paper.HASHES]
    if unknown:
        yield f"The paper has no figures for {', '.join(unknown)}."
    if config.get("protocol") == "paper-limit":
        yield (
            "The paper's clipped noise is drawn from its normal law where the hash is linear (PDQ): exact up to the "
            "central limit theorem. The radii repeat the paper's experiment; they are no guarantees."
        )
    if config.get("protocol") not in (None, "paper", "paper-limit"):
        yield (
            f"This run uses the protocol {config['protocol']!s}, not the paper's: threshold, noise and hardening are "
            "those of the deployed matcher."
        )
    for name, what in (("unreadable", "Unreadable files, skipped"), ("duplicates", "Pairs of duplicates")):
        count = len(_sequence(config.get(name)))
        if count:
            yield f"{what}: {count}. The last section lists them."


def _coverage(configs: Sequence[dict[str, Any]], found: Results) -> Iterator[Coverage]:
    """Yield the finished and expected numbers of records by part, hash and variant."""
    for part in PARTS:
        for name in found.hashes:
            for variant in found.variants:
                records = found.records(part, name, variant)
                counts = [expected(config, part, name, variant) for config in configs]
                known = [count for count in counts if count is not None]
                total = sum(known) if len(known) == len(counts) else None
                if records or total:
                    unmatched = sum(not record.matched for record in records)
                    refused = len(found.refused(part, name, variant))
                    yield Coverage(part, name, variant, len(records), total, unmatched, refused)


def _refused(coverage: Sequence[Coverage]) -> str:
    """Return how many images could not be enrolled, by hash and variant; the part with the most of them counts."""
    most: dict[tuple[str, str], int] = {}
    for entry in coverage:
        group = (entry.hash, entry.variant)
        most[group] = max(most.get(group, 0), entry.refused)
    return ", ".join(
        f"{count} image{'s' * (count > 1)} ({hash_}, {variant})" for (hash_, variant), count in most.items() if count
    )


def _facts(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the fields of the configuration; images, transformations and views are counted, not listed."""
    for name, value in config.items():
        if name in ("unreadable", "duplicates", "warnings", "expected"):
            continue
        if name == "data" and isinstance(value, dict):
            for dataset, images in value.items():
                yield f"data.{dataset}", f"{len(images)} images" if isinstance(images, dict) else _shown(images)
        elif name == "transforms" and isinstance(value, list):
            yield "transforms", f"{len(value)} transformations"
        else:
            yield from _flat(str(name), value)


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if name.endswith(".matcher.views") and isinstance(value, dict):
        yield name, ", ".join(f"{len(_sequence(views))} of the {side}" for side, views in value.items()) or "none"
    elif isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _flat(f"{name}.{key}", inner)
    else:
        yield name, _shown(value)


def _shown(value: Any) -> str:
    if value is None or value == {}:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}" if math.isfinite(value) else "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value)) or "none"
    return str(value) or "none"


def _lines(config: Mapping[str, Any], name: str, form: Any) -> list[str]:
    return [form(entry) if isinstance(entry, dict) else str(entry) for entry in _sequence(config.get(name))]


def _unreadable(entry: dict[str, Any]) -> str:
    return f"{entry.get('image', 'a file')}: {entry.get('reason', 'no reason given')}"


def _duplicate(entry: dict[str, Any]) -> str:
    how = "the same pixels" if entry.get("exact") is True else f"{entry.get('distance', '?')} of 256 PDQ bits apart"
    return f"{entry.get('image', '?')} and {entry.get('other', '?')}: {how}"


def _sequence(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []
