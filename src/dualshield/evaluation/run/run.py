"""Run a plan: image by image through all variants and parts, then the pairs and sets of images.

An interrupted run has complete results for its first images; a resumed run continues with the first missing piece.
Several processes can share the images.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from dualshield.errors import InputError
from dualshield.evaluation.metrics.installed import Extras
from dualshield.evaluation.parts import attacked, certified, collided, distribution, quality, transformed
from dualshield.evaluation.parts.under_test import DeploymentUnderTest, ImageUnderTest
from dualshield.evaluation.plan.datasets import Picture, Pool, gather
from dualshield.evaluation.plan.interface import ATTACKS, COLLISION, RunPlan, label
from dualshield.evaluation.plan.manifest import Manifest
from dualshield.evaluation.plan.variants import is_measured
from dualshield.evaluation.run import provenance
from dualshield.evaluation.run.config import configuration
from dualshield.evaluation.run.estimate import Estimate, Kind
from dualshield.evaluation.run.folder import RunFiles, RunFolder
from dualshield.evaluation.run.records import TIMES, Key
from dualshield.evaluation.run.workers import Event, Finished, Group, Known, Runner, Started, share
from dualshield.smoothing.variants import HARDENED, Variant

Records = Iterator[tuple[str, dict[str, Any]]]
Progress = Callable[[str, int, int, float | None], None]
"""Called with the current piece, the pieces done, the pieces in total, and the estimated seconds left or None."""


class ImagePart(NamedTuple):
    """The functions of a part: the details to measure on an image, the work, and a check of records from a file."""

    details: Callable[[DeploymentUnderTest, Variant, Picture], tuple[str, ...]]
    work: Callable[[ImageUnderTest, tuple[str, ...]], Records]
    is_whole: Callable[[dict[str, Any]], bool] = lambda result: True


# Quality first: it records how long hardening took, which is known only right after hardening.
IMAGE_PARTS = {
    "quality": ImagePart(quality.details, quality.work),
    "certified": ImagePart(certified.details, certified.work),
    "transforms": ImagePart(transformed.details, transformed.work, transformed.is_whole),
    **{
        part: ImagePart(partial(attacked.details, part), partial(attacked.work, part), attacked.is_whole)
        for part in ATTACKS
    },
}


@dataclass(frozen=True)
class Piece:
    """Work on one image (or set) in one part under one variant; ``work`` yields the records of the given keys."""

    what: str
    keys: tuple[Key, ...]
    work: Callable[[tuple[Key, ...]], Iterator[tuple[Key, dict[str, Any]]]]

    @property
    def kind(self) -> Kind:
        """The kind of piece, to estimate the time left."""
        first = self.keys[0]
        return first.hash, first.variant, first.part

    @property
    def subject(self) -> tuple[str, str, str]:
        """The image of the piece; the same worker does all pieces of one image. Sets have no image."""
        first = self.keys[0]
        return first.hash, first.dataset, first.image


@dataclass(frozen=True)
class Summary:
    """The folder of a run, its number of images and records, and its warnings."""

    folder: Path
    images: int
    records: int
    unmatched: int
    warnings: tuple[str, ...]


def run_plan(
    plan: RunPlan,
    data: Sequence[Path],
    out: Path,
    *,
    resume: bool = False,
    jobs: int = 1,
    manifest: Manifest | None = None,
    progress: Progress = lambda what, done, total, left: None,
) -> Summary:
    """Run a plan on folders of images or single images; finished results are in ``out``, even after an error.

    ``jobs`` is the number of worker processes; a single job runs in this process.
    """
    if jobs < 1:
        raise InputError(f"jobs is {jobs}; use at least 1")
    if out.exists() and not resume and (not out.is_dir() or any(out.iterdir())):
        # Checked here before minutes of reading, and again when the folder is opened.
        raise InputError(f"{out} exists already; resume that run, or choose another folder")
    facts = {label(deployment): provenance.hash_facts(deployment) for deployment in plan.deployments}
    _check_gradients(plan)
    extras = _extras(plan)
    pool = gather(
        data,
        plan.limit,
        lambda what, done, total: progress(what, done, total, None),
        skip=plan.skip,
        manifest=manifest,
    )
    keys = [key for piece in _all_pieces(plan, pool, RunFiles(out), extras) for key in piece.keys]
    folder = RunFolder(out, configuration(plan, pool, facts, extras, keys), resume=resume)
    try:
        folder.known = {key: result for key, result in folder.known.items() if _is_whole(key, result)}
        pieces = _all_pieces(plan, pool, folder, extras)
        todo = [number for number, piece in enumerate(pieces) if any(key not in folder.known for key in piece.keys)]
        if jobs == 1:
            events = _alone(pieces, todo, folder)
        else:
            events = _shared(pieces, todo, folder, jobs, partial(_runner, plan, pool, folder.path))
        estimate = Estimate([pieces[number].kind for number in todo], jobs, folder.path / TIMES)
        _follow(events, pieces, todo, folder, estimate, progress)
        folder.clean([picture for picture in pool.pictures if plan.keeps(picture.index)])
    finally:
        folder.close()
    unmatched = sum("unmatched" in folder.known[key] for key in keys)
    hints = extras.hints() if plan.has_metrics else ()
    return Summary(out, len(pool.pictures), len(keys), unmatched, (*pool.warnings(), *hints))


def _extras(plan: RunPlan) -> Extras:
    return Extras.load() if plan.has_metrics else Extras()


def _is_whole(key: Key, result: dict[str, Any]) -> bool:
    """Return whether a record from a file is complete; incomplete records are measured again."""
    part = IMAGE_PARTS.get(key.part)
    return part is None or part.is_whole(result)


def _follow(
    events: Iterable[Event],
    pieces: Sequence[Piece],
    todo: Sequence[int],
    folder: RunFolder,
    estimate: Estimate,
    progress: Progress,
) -> None:
    """Write the results to the folder and report the progress."""
    done = len(pieces) - len(todo)
    for event in events:
        if isinstance(event, Started):
            progress(pieces[event.piece].what, done, len(pieces), estimate.seconds())
        elif isinstance(event, Finished):
            estimate.done(pieces[event.piece].kind, event.seconds)
            done += 1
        else:
            folder.append(*event)
    progress("finished", len(pieces), len(pieces), None)


def _alone(pieces: Sequence[Piece], numbers: Iterable[int], folder: RunFiles) -> Iterator[Event]:
    """Do the pieces one after another, in this process."""
    for number in numbers:
        yield Started(number)
        started = time.perf_counter()
        yield from _results(pieces[number], folder)
        yield Finished(number, time.perf_counter() - started)


def _results(piece: Piece, folder: RunFiles) -> Iterator[tuple[Key, dict[str, Any]]]:
    return piece.work(tuple(key for key in piece.keys if key not in folder.known))


def _shared(
    pieces: Sequence[Piece], todo: Sequence[int], folder: RunFolder, jobs: int, runner: Callable[[], Runner]
) -> Iterator[Event]:
    """Do pieces about images in workers, with collisions last because they need published images; do sets here."""
    for is_image, numbers in groupby(todo, lambda number: bool(pieces[number].keys[0].image)):
        if not is_image:
            yield from _alone(pieces, numbers, folder)
            continue
        for _, phase in groupby(numbers, lambda number: pieces[number].keys[0].part == collided.PART):
            yield from share(_groups(pieces, phase, folder), jobs, runner)


def _groups(pieces: Sequence[Piece], numbers: Iterable[int], folder: RunFolder) -> list[Group]:
    """Return one group of pieces per image, with the finished records about the image."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    for number in numbers:
        groups.setdefault(pieces[number].subject, []).append(number)
    known: dict[tuple[str, str, str], Known] = {subject: {} for subject in groups}
    for key, result in folder.known.items():
        if (subject := (key.hash, key.dataset, key.image)) in known:
            known[subject][key] = result
    return [Group(tuple(found), known[subject]) for subject, found in groups.items()]


def _runner(plan: RunPlan, pool: Pool, path: Path) -> Runner:
    """Build the same pieces again in a worker process, and return the function that does one of them."""
    folder = RunFiles(path)
    pieces = _all_pieces(plan, pool, folder, _extras(plan))

    def run(number: int, known: Known) -> Iterator[tuple[Key, dict[str, Any]]]:
        folder.known.update(known)
        for key, result in _results(pieces[number], folder):
            folder.known[key] = result
            yield key, result

    return run


def _all_pieces(plan: RunPlan, pool: Pool, folder: RunFiles, extras: Extras) -> list[Piece]:
    return [
        piece
        for deployment in plan.deployments
        for piece in _pieces(DeploymentUnderTest(deployment, plan, folder, extras), pool)
    ]


def _pieces(lab: DeploymentUnderTest, pool: Pool) -> Iterator[Piece]:
    plan = lab.plan
    for picture in pool.pictures:
        for variant in plan.variants:
            for name, part in IMAGE_PARTS.items():
                wanted = name in plan.parts and is_measured(variant, name)
                details = part.details(lab, variant, picture) if wanted else ()
                if details:
                    work = part.work
                    if name == COLLISION:
                        work = partial(attacked.work, name, start=_unrelated(pool, picture))
                    yield _piece(lab, variant, picture, name, details, work)
    if collided.PART in plan.parts:
        pairs = collided.pairs(pool, plan.collision_pairs, plan.seed)
        for variant in (variant for variant in plan.variants if is_measured(variant, collided.PART)):
            for picture, queries in pairs.items():
                details = tuple(query.label for query in queries)
                yield _piece(lab, variant, picture, collided.PART, details, partial(collided.work, queries))
    if quality.PART in plan.parts:
        for variant in (variant for variant in plan.variants if is_measured(variant, quality.PART)):
            keys = tuple(distribution.keys(lab, variant, pool))
            if keys:
                yield Piece(f"{lab.label} {variant}, FID", keys, partial(distribution.work, lab, variant, pool))


def _piece(
    lab: DeploymentUnderTest,
    variant: Variant,
    picture: Picture,
    part: str,
    details: tuple[str, ...],
    work: Callable[[ImageUnderTest, tuple[str, ...]], Records],
) -> Piece:
    def records(missing: tuple[Key, ...]) -> Iterator[tuple[Key, dict[str, Any]]]:
        subject = lab.subject(variant, picture)
        rest = []
        for key in missing:
            repeated = subject.repeated(part, key.detail)
            if repeated is None:
                rest.append(key.detail)
            else:
                yield key, repeated
        for detail, result in work(subject, tuple(rest)) if rest else ():
            yield subject.key(part, detail), result

    keys = tuple(Key(part, lab.label, variant, picture.dataset, picture.name, detail) for detail in details)
    return Piece(f"{lab.label} {variant}, {part}, {picture.label}", keys, records)


def _unrelated(pool: Pool, picture: Picture) -> Picture:
    found = pool.next_unrelated(picture)
    if found is None:
        raise InputError(f"a collision needs a second image, but none is unrelated to {picture.label}; add images")
    return found


def _check_gradients(plan: RunPlan) -> None:
    """Raise an error early if a variant hardens images but a hash has no gradient."""
    hardened = [variant for variant in plan.variants if variant in HARDENED]
    for deployment in plan.deployments if hardened else ():
        for member in deployment.members:
            if not member.is_differentiable:
                raise InputError(
                    f"images cannot be hardened for {member.hash.name}, which has no gradient; leave out the variants "
                    f"{', '.join(hardened)}"
                )
