"""The order of work: image by image through all variants and parts, then the pairs and sets of images.

A run that is killed has complete results for its first images; resumed, it goes on with the piece that is missing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from dualshield.attacks.victim import Against
from dualshield.errors import InputError
from dualshield.evaluation import attacked, certified, collided, distribution, provenance, quality, transformed
from dualshield.evaluation.datasets import Picture, Pool, gather
from dualshield.evaluation.extras import Extras
from dualshield.evaluation.folder import FORMAT, RunFolder
from dualshield.evaluation.laboratory import Laboratory, Subject
from dualshield.evaluation.plan import HARDENED, Plan, label
from dualshield.evaluation.records import Key
from dualshield.hashes.registry import get_hash, split_names

Records = Iterator[tuple[str, dict[str, Any]]]
Progress = Callable[[str, int, int, float | None], None]
"""What is being done, pieces done, pieces in all, seconds left as far as can be told."""


class ImagePart(NamedTuple):
    """What a part has to say about one image, and the work that finds it out."""

    details: Callable[[Laboratory, Against, Picture], tuple[str, ...]]
    work: Callable[[Subject, tuple[str, ...]], Records]


# Quality first: it tells how long the hardening took, which only the run that did it knows.
IMAGE_PARTS = {
    "quality": ImagePart(quality.details, quality.work),
    "certified": ImagePart(certified.details, certified.work),
    "transforms": ImagePart(transformed.details, transformed.work),
    **{part: ImagePart(partial(attacked.details, part), partial(attacked.work, part)) for part in attacked.METHODS},
}


@dataclass(frozen=True)
class Piece:
    """Work on one image (or set) in one part under one variant; ``work`` gives the records that are missing."""

    what: str
    keys: tuple[Key, ...]
    work: Callable[[tuple[Key, ...]], Iterator[tuple[Key, dict[str, Any]]]]

    @property
    def kind(self) -> tuple[str, str, str]:
        """Pieces of one kind take about the same time."""
        first = self.keys[0]
        return first.hash, first.variant, first.part


@dataclass
class Estimate:
    """How long the rest will take, from what pieces of the same kind took."""

    left: dict[tuple[str, str, str], int]
    spent: dict[tuple[str, str, str], list[float]] = field(default_factory=dict)

    def done(self, piece: Piece, seconds: float) -> None:
        """One piece less."""
        self.left[piece.kind] -= 1
        self.spent.setdefault(piece.kind, []).append(seconds)

    def seconds(self) -> float | None:
        """None as long as nothing was done. A kind not met yet is taken to be like its part, or like the others."""
        if not self.spent:
            return None
        return sum(count * self._mean(kind) for kind, count in self.left.items())

    def _mean(self, kind: tuple[str, str, str]) -> float:
        alike = [times for known, times in self.spent.items() if known == kind]
        alike = alike or [times for known, times in self.spent.items() if known[2] == kind[2]]
        times = [seconds for times in alike or self.spent.values() for seconds in times]
        return sum(times) / len(times)


@dataclass(frozen=True)
class Summary:
    """What a run came to."""

    folder: Path
    images: int
    records: int
    unmatched: int
    warnings: tuple[str, ...]


def evaluate(
    plan: Plan,
    data: Sequence[Path],
    out: Path,
    *,
    resume: bool = False,
    progress: Progress = lambda what, done, total, left: None,
) -> Summary:
    """Run the plan on folders of images; whatever happens, what was finished is in ``out``."""
    if out.exists() and not resume and (not out.is_dir() or any(out.iterdir())):
        # Said before minutes of reading, and again by the folder itself.
        raise InputError(f"{out} exists already; continue a run with --resume, or choose another --out")
    facts = {label(spec): provenance.hash_facts(spec, plan.protocol) for spec in plan.hashes}
    _check_gradients(plan)
    extras = Extras.load()
    pool = gather(data, plan.limit, lambda what, done, total: progress(what, done, total, None))
    folder = RunFolder(out, _config(plan, pool, facts, extras), resume=resume)
    try:
        pieces = [piece for spec in plan.hashes for piece in _pieces(Laboratory(spec, plan, folder, extras), pool)]
        _work(pieces, folder, progress)
        if not plan.keep_images:
            folder.clean([picture for picture in pool.pictures if picture.index < plan.protocol.gallery])
    finally:
        folder.close()
    keys = {key for piece in pieces for key in piece.keys}
    unmatched = sum("unmatched" in folder.known[key] for key in keys)
    return Summary(out, len(pool.pictures), len(keys), unmatched, (*pool.warnings(), *extras.hints()))


def _work(pieces: Sequence[Piece], folder: RunFolder, progress: Progress) -> None:
    todo = [piece for piece in pieces if any(key not in folder.known for key in piece.keys)]
    estimate = Estimate({})
    for piece in todo:
        estimate.left[piece.kind] = estimate.left.get(piece.kind, 0) + 1
    done = len(pieces) - len(todo)
    for number, piece in enumerate(todo, done):
        progress(piece.what, number, len(pieces), estimate.seconds())
        started = time.perf_counter()
        missing = tuple(key for key in piece.keys if key not in folder.known)
        for key, result in piece.work(missing):
            folder.append(key, result)
        estimate.done(piece, time.perf_counter() - started)
    progress("finished", len(pieces), len(pieces), 0.0)


def _pieces(lab: Laboratory, pool: Pool) -> Iterator[Piece]:
    plan = lab.plan
    for picture in pool.pictures:
        for variant in plan.variants:
            for name, part in IMAGE_PARTS.items():
                details = part.details(lab, variant, picture) if name in plan.parts else ()
                if details:
                    yield _piece(lab, variant, picture, name, details, part.work)
    if collided.PART in plan.parts:
        pairs = collided.pairs(pool, plan.protocol.collision_pairs, plan.seed)
        for variant in plan.variants:
            for picture, queries in pairs.items():
                details = tuple(query.label for query in queries)
                yield _piece(lab, variant, picture, collided.PART, details, partial(collided.work, queries))
    if quality.PART in plan.parts:
        for variant in plan.variants:
            keys = tuple(distribution.keys(lab, variant, pool))
            if keys:
                yield Piece(f"{lab.label} {variant}, FID", keys, partial(distribution.work, lab, variant, pool))


def _piece(
    lab: Laboratory,
    variant: Against,
    picture: Picture,
    part: str,
    details: tuple[str, ...],
    work: Callable[[Subject, tuple[str, ...]], Records],
) -> Piece:
    def records(missing: tuple[Key, ...]) -> Iterator[tuple[Key, dict[str, Any]]]:
        subject = lab.subject(variant, picture)
        for detail, result in work(subject, tuple(key.detail for key in missing)):
            yield subject.key(part, detail), result

    keys = tuple(Key(part, lab.label, variant, picture.dataset, picture.name, detail) for detail in details)
    return Piece(f"{lab.label} {variant}, {part}, {picture.label}", keys, records)


def _check_gradients(plan: Plan) -> None:
    """Hardening would refuse it too, but only when the first image is to be hardened."""
    hardened = [variant for variant in plan.variants if variant in HARDENED]
    for spec in plan.hashes if hardened else ():
        for name in split_names(spec):
            if not get_hash(name).is_differentiable:
                raise InputError(
                    f"hash {name} has no gradient and cannot be hardened: leave out {', '.join(hardened)} in --variants"
                )


def _config(plan: Plan, pool: Pool, facts: dict[str, Any], extras: Extras) -> dict[str, Any]:
    parameters = {name: value for name, value in asdict(plan.protocol).items() if name != "name"}
    return {
        "format": FORMAT,
        "date": datetime.now(UTC).date().isoformat(),
        "protocol": plan.protocol.name,
        "parameters": parameters,
        "hashes": list(facts),
        "defences": facts,
        "variants": plan.variants,
        "parts": plan.parts,
        "limit": plan.limit,
        "seed": plan.seed,
        "device": plan.device,
        "keep_images": plan.keep_images,
        "extras": extras.present(),
        "data": {name: {picture.name: picture.sha256 for picture in pool.of(name)} for name in pool.datasets},
        "unreadable": [asdict(found) for found in pool.unreadable],
        "duplicates": [asdict(found) for found in pool.duplicates],
        "warnings": pool.warnings(),
        "versions": provenance.versions(),
        "machine": provenance.machine(),
    }
