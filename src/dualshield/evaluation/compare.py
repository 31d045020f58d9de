"""Compare two runs: which metrics got better or worse, and which differences may be due to chance.

Images in both runs (the same file by its sha256) are compared pair by pair: rates by McNemar's exact test, means by
resampling the differences. Runs without common images are compared as independent samples. Every line is tested by
itself at 95 %: of twenty lines without any real difference, about one is still reported as better or worse.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any, Literal

from dualshield.evaluation.intervals import bootstrap_difference, bootstrap_mean, fisher, mcnemar, wilson
from dualshield.evaluation.report.figures import VARIANTS, number
from dualshield.evaluation.run.records import Record, Run
from dualshield.evaluation.transform_names import is_edit
from dualshield.transforms.paper import MILDEST

LEVEL = 0.05
Kind = Literal["rate", "mean"]
Verdict = Literal["better", "worse", "within chance", "too few", "only one run"]
# The order of metrics, by how their names begin.
METRICS = ("certified", "adaptive", "whitebox", "blackbox", "transformations", "everyday", "collisions", "hardened")
# Settings that make figures hard to compare if they differ.
SETTINGS = ("protocol", "parameters", "defences", "seed", "limit", "device", "versions")


@dataclass
class Sample:
    """The values of one metric of one run by image (or pair of images); the values of a rate are 0 or 1."""

    kind: Kind
    higher_is_better: bool
    values: dict[str, list[float]] = field(default_factory=dict)

    def means(self) -> dict[str, float]:
        """Return one mean per image, because several measurements on one image are not independent."""
        return {image: fmean(values) for image, values in self.values.items()}


@dataclass(frozen=True)
class Figure:
    """A rate or mean with its 95 % interval; the interval is None if there are very few images."""

    value: float
    low: float | None
    high: float | None
    images: int


@dataclass(frozen=True)
class Line:
    """One metric in both runs."""

    hash: str
    variant: str
    metric: str
    first: Figure | None
    second: Figure | None
    pairs: int  # images in both runs
    difference: float | None  # second minus first; over the pairs, if there are any
    p: float | None  # p-value of the difference, for a rate
    interval: tuple[float, float] | None  # 95 % interval of the difference, for a mean
    verdict: Verdict


@dataclass(frozen=True)
class Comparison:
    """All metrics of both runs, and the other differences between the runs."""

    lines: tuple[Line, ...]
    notes: tuple[str, ...]  # differences in settings and images

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return asdict(self)


def compare(first: Run, second: Run) -> Comparison:
    """Compare every metric that at least one of the runs has."""
    transforms = [_transforms(run) for run in (first, second)]
    left_out = transforms[0] ^ transforms[1] if all(transforms) else set()
    samples = [_samples(run, left_out) for run in (first, second)]
    names = list(dict.fromkeys([*samples[0], *samples[1]]))
    lines = [_line(*name, samples[0].get(name), samples[1].get(name)) for name in sorted(names, key=_order)]
    return Comparison(tuple(lines), tuple(_notes(first, second)))


def _order(name: tuple[str, str, str]) -> tuple[object, ...]:
    """Return the sort key of a line: by hash, then by variant as in reports, then by kind of metric and budget."""
    hash_, variant, metric = name
    words = re.split(r"(\d+(?:\.\d+)?)", metric)
    kind = next((place for place, start in enumerate(METRICS) if metric.startswith(start)), len(METRICS))
    numbered = tuple((0, float(word), "") if place % 2 else (1, 0.0, word) for place, word in enumerate(words))
    place = VARIANTS.index(variant) if variant in VARIANTS else len(VARIANTS)
    return hash_, place, variant, kind, numbered


def _transforms(run: Run) -> set[str]:
    """Return the names of the transformations that a run has measured."""
    return {record.key.detail for record in run.records if record.key.part == "transforms" and record.matched}


def _samples(run: Run, left_out: set[str]) -> dict[tuple[str, str, str], Sample]:
    """Return the values of all metrics; transformations that are ``left_out`` do not count."""
    files = run.config.get("data")
    files = files if isinstance(files, dict) else {}
    found: dict[tuple[str, str, str], Sample] = {}
    for record in run.records:
        if record.key.part == "transforms" and record.key.detail in left_out:
            continue
        image = _identity(files, record.key.dataset, record.key.image)
        if record.key.part == "collisions":
            dataset, _, name = record.key.detail.partition("/")
            image = " ".join(sorted((image, _identity(files, dataset, name))))
        for metric, kind, higher_is_better, value in _measured(record):
            sample = found.setdefault((record.key.hash, record.key.variant, metric), Sample(kind, higher_is_better))
            sample.values.setdefault(image, []).append(value)
    return found


def _identity(files: dict[str, Any], dataset: str, name: str) -> str:
    """Return an identifier of an image that two runs share only if its file is the same."""
    of = files.get(dataset)
    digest = of.get(name) if isinstance(of, dict) else None
    return f"{dataset}/{name}:{digest}"


def _measured(record: Record) -> Iterator[tuple[str, Kind, bool, float]]:
    """Yield (metric, kind, whether higher is better for the defender, value) for each metric of a record."""
    key, result = record.key, record.result
    if not record.matched:
        return
    if key.part == "certified" and (radius := number(result.get("radius"))) is not None:
        pair = "identity" if key.detail == "identity" else "benign variants"
        yield f"certified radius, {pair}", "mean", True, radius if result.get("decision") == "match" else 0.0
    elif key.part in ("whitebox", "adaptive", "blackbox") and isinstance(result.get("success"), bool):
        yield f"{key.part} success at {key.detail}", "rate", False, float(result["success"])
    elif key.part == "transforms" and isinstance(result.get("evaded"), bool):
        evaded, published = float(result["evaded"]), result.get("paper") is True
        if published:
            yield "transformations evade, all of the paper", "mean", False, evaded
        if published and key.detail in MILDEST:
            yield "transformations evade, lowest intensity", "mean", False, evaded
        if is_edit(key.detail, published):
            yield "everyday edits evade", "mean", False, evaded
    elif key.part == "collisions" and isinstance(result.get("collided"), bool):
        yield "collisions", "rate", False, float(result["collided"])
    elif key.part == "quality":
        for name, higher_is_better in (("ssim", True), ("lpips", False)):
            if (value := number(result.get(name))) is not None:
                yield f"hardened image, {name.upper()}", "mean", higher_is_better, value


def _figure(sample: Sample | None) -> Figure | None:
    if sample is None:
        return None
    means = list(sample.means().values())
    if sample.kind == "rate":
        interval: tuple[float, float] | None = wilson(round(sum(means)), len(means))
    else:
        interval = bootstrap_mean(means)
    low, high = interval or (None, None)
    return Figure(fmean(means), low, high, len(means))


def _line(hash_: str, variant: str, metric: str, first: Sample | None, second: Sample | None) -> Line:
    figures = _figure(first), _figure(second)
    if first is None or second is None:
        return Line(hash_, variant, metric, *figures, 0, None, None, None, "only one run")
    before, after = first.means(), second.means()
    pairs = [(before[image], after[image]) for image in before if image in after]
    old, new = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    if not pairs:
        old, new = list(before.values()), list(after.values())
    difference = fmean(new) - fmean(old)
    p = interval = None
    if first.kind == "rate":
        if pairs:
            p = mcnemar(sum(a > b for a, b in pairs), sum(b > a for a, b in pairs))
        else:
            p = fisher((round(sum(old)), len(old)), (round(sum(new)), len(new)))
        beyond: bool | None = p < LEVEL
    else:
        interval = bootstrap_mean([b - a for a, b in pairs]) if pairs else bootstrap_difference(old, new)
        beyond = None if interval is None else not interval[0] <= 0 <= interval[1]
    verdict: Verdict = "too few" if beyond is None else "within chance"
    if beyond:
        verdict = "better" if (difference > 0) == first.higher_is_better else "worse"
    return Line(hash_, variant, metric, *figures, len(pairs), difference, p, interval, verdict)


def _notes(first: Run, second: Run) -> Iterator[str]:
    for name in SETTINGS:
        before, now = first.config.get(name), second.config.get(name)
        if before != now:
            shown = f": {before} and {now}" if all(isinstance(value, str | int) for value in (before, now)) else ""
            yield f"the runs differ in {name}{shown}"
    one, other = _transforms(first), _transforms(second)
    if one and other and one != other:
        both = len(one & other)
        yield f"the runs have different transformations: {len(one)} and {len(other)}; the {both} in both are compared"
    images = [_images(run) for run in (first, second)]
    common = images[0] & images[1]
    if images[0] != images[1]:
        yield f"the runs have different images: {len(images[0])} and {len(images[1])}, {len(common)} of them in both"


def _images(run: Run) -> set[str]:
    files = run.config.get("data")
    files = files if isinstance(files, dict) else {}
    return {_identity(files, name, image) for name, of in files.items() if isinstance(of, dict) for image in of}
