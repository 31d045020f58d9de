"""Harden many files: choose the output paths, skip finished files, and never lose an existing file."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dualshield._common.files import write_atomically
from dualshield._common.journal import Journal
from dualshield._common.outputs import Outputs, check_output
from dualshield.errors import InputError
from dualshield.hardening.harden import Hardener, Progress
from dualshield.hardening.report import HardeningReport, Radii
from dualshield.images.decode import list_images
from dualshield.images.preview import preview_files
from dualshield.images.publication import Format, Publication, published_suffix
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.reference_file import SUFFIX

JOURNAL = ".dualshield-harden.journal"
BACKUP_SUFFIX = ".original"
# The image format that each file suffix stands for; other suffixes are not checked.
SUFFIXES = {
    "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif"),
    "PNG": (".png",),
    "WEBP": (".webp",),
    "GIF": (".gif",),
    "BMP": (".bmp",),
    "TIFF": (".tif", ".tiff"),
    "HEIF": (".heic", ".heif", ".hif"),
    "AVIF": (".avif",),
}


@dataclass(frozen=True)
class Destination:
    """Where hardened images go: one file, a folder, or in place of the originals (with backups beside them)."""

    path: Path | None
    in_place: bool = False
    overwrite: bool = False
    folder: bool = False  # the user wrote a trailing slash
    allow: str = "allow overwriting"  # how to allow overwriting, for error messages

    def is_folder(self, inputs: int) -> bool:
        """Whether ``path`` is a folder: it exists as one, ``folder`` is set, or there are several inputs."""
        return self.path is not None and (inputs > 1 or self.folder or self.path.is_dir())

    def check(self, files: Sequence[Path]) -> None:
        """Raise an error if the outputs cannot be written; checked before any work starts."""
        if self.in_place == (self.path is not None):
            raise InputError("give either an output or in-place replacement, not both or neither")
        if self.path is None:
            return
        if self.is_folder(len(files)):
            try:
                self.path.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(f"cannot use {self.path} as a folder: {error.strerror}") from error
            folder = self.path
            names = [file.stem.lower() for file in files]
            if len(set(names)) < len(names):
                twice = next(name for name in names if names.count(name) > 1)
                raise InputError(f"two inputs are named {twice!r}, so one output would overwrite the other; rename one")
        else:
            folder = self.path.parent
            if not folder.is_dir():
                raise InputError(f"cannot write {self.path}: the folder {folder} does not exist; create it")
        if not os.access(folder, os.W_OK):
            raise InputError(f"cannot write into {folder}: no permission; choose another folder")

    def output(self, file: Path, suffix: str, inputs: int) -> Path:
        """Return the output path for ``file``."""
        if self.path is None:
            if suffix.lower() != file.suffix.lower():
                raise InputError(f"{file}: in-place replacement keeps the format; do not ask for another format")
            return file
        return self.path / (file.stem + suffix) if self.is_folder(inputs) else self.path


@dataclass(frozen=True)
class Outcome:
    """The result of one input file: a report, or an error."""

    file: Path
    report: HardeningReport | None = None
    error: str | None = None
    skipped: bool = False  # finished by an earlier run


def expand(inputs: Sequence[Path]) -> list[Path]:
    """Return the input files, with each folder replaced by the images in it."""
    files = [file for path in inputs for file in (list_images(path) if path.is_dir() else [path])]
    if not files:
        raise InputError("no images given")
    return files


def harden_files(
    hardener: Hardener,
    files: Sequence[Path],
    destination: Destination,
    *,
    format: Format = "keep",
    quality: int | None = None,
    preview: Path | None = None,
    keep_references: bool = False,
    reads: Sequence[Path] = (),
    seed: int | None = None,
    progress: Progress = lambda what, done, total: None,
) -> Iterator[Outcome]:
    """Harden each file and yield its outcome; an error does not end the run. An interrupted run can be continued.

    With ``keep_references`` the reference of each published file is written beside it. Neither the input images nor
    the files in ``reads`` are ever overwritten. Noise is secret unless an experiment gives a ``seed``.
    """
    if preview is not None and len(files) > 1:
        raise InputError(f"a preview shows one image, not {len(files)}; give a single image")
    destination.check(files)
    outputs = Outputs((*files, *reads), destination.overwrite, destination.allow)
    journal = _journal(hardener, destination, len(files), format, quality)
    done = {} if journal is None else _finished(journal)
    for file in files:
        try:
            digest = hashlib.sha256(file.read_bytes()).hexdigest() if journal and file.is_file() else ""
            earlier = done.get((file.name, digest))
            if earlier is not None and not destination.overwrite and _is_there(earlier, keep_references):
                yield Outcome(file, earlier, skipped=True)
                continue
            output = _output(file, destination, len(files), format)
            kept = reference_file(output) if keep_references else None
            # In place the output is the input file itself; the only new file is its backup.
            written = (_backup(file) if destination.in_place else output, kept, preview)
            outputs.check(*written)
            if output == destination.path:
                _check_suffix(output, Publication.open(file).check(format, quality))
            # One stream per file, so that a resumed run gives the same results as an uninterrupted one.
            noise = None if seed is None else GaussianSource.for_work(seed, "harden", file.name)
            image = hardener.harden(file, format=format, quality=quality, noise=noise, progress=progress)
            shown = b"" if preview is None else preview_files(os.fspath(file), image.data)
            outputs.check(*written)
            if preview is not None:
                write_atomically(preview, shown)
            _publish(file, output, image.data, destination)
            if kept is not None and image.reference is not None:
                replace(image.reference, name=output.name).save(kept)
        except (InputError, OSError) as error:
            yield Outcome(file, error=str(error))
            continue
        report = replace(image.report, output=os.fspath(output), reference=None if kept is None else os.fspath(kept))
        if journal is not None:
            journal.append({"source": file.name, "sha256": digest, "report": report.to_dict()})
        yield Outcome(file, report)


def reference_file(published: Path) -> Path:
    """Return the path for the reference of a published file: beside it."""
    return published.with_name(published.name + SUFFIX)


def _output(file: Path, destination: Destination, inputs: int, format: Format) -> Path:
    output = destination.output(file, published_suffix(file, format), inputs)
    if destination.in_place and os.path.lexists(_backup(file)):
        raise InputError(f"{file} was hardened already: its backup {_backup(file).name} exists; restore it first")
    return output


def _publish(file: Path, output: Path, data: bytes, destination: Destination) -> None:
    if destination.in_place:
        check_output(_backup(file))  # never overwrite an earlier backup, even if overwriting is allowed
        write_atomically(_backup(file), file.read_bytes())
    write_atomically(output, data)


def _check_suffix(output: Path, kind: str) -> None:
    """Raise an error if the suffix of the output stands for another format."""
    promised = next((name for name, ends in SUFFIXES.items() if output.suffix.lower() in ends), kind)
    if promised != kind:
        ask = f"ask for the format {promised.lower()}, or " if promised in ("PNG", "JPEG") else ""
        raise InputError(f"cannot write {kind} data as {output}: its suffix says {promised}; {ask}choose another name")


def _backup(file: Path) -> Path:
    return file.with_name(file.name + BACKUP_SUFFIX)


def _journal(
    hardener: Hardener, destination: Destination, inputs: int, format: Format, quality: int | None
) -> Journal | None:
    """Return the journal of an output folder; None for a single output file or in-place replacement."""
    if destination.path is None or not destination.is_folder(inputs):
        return None
    settings: dict[str, Any] = {
        "deployment": hardener.deployment.digest,
        "preset": hardener.preset,
        "strength": hardener.budget.strength,
        "negatives": hardener.negatives_digest,
        "steps": hardener.steps,
        "format": format,
        "quality": quality,
    }
    return Journal(destination.path / JOURNAL, settings)


def _finished(journal: Journal) -> dict[tuple[str, str], HardeningReport]:
    """Return the finished reports by (name, sha256) of their source; incomplete records are ignored."""
    found = {}
    for record in journal.records():
        with suppress(TypeError, KeyError, AttributeError):
            found[record["source"], record["sha256"]] = _report(record["report"])
    return found


def _is_there(report: HardeningReport, with_reference: bool) -> bool:
    """Whether the files of an earlier run still exist, including the reference if it is needed now."""
    files = [report.output, *([report.reference] if with_reference else [])]
    return all(file is not None and Path(file).exists() for file in files)


def _report(data: dict[str, Any]) -> HardeningReport:
    radii = {name: Radii(**found) for name, found in data["radii"].items()}
    psnr = math.inf if data["psnr"] is None else data["psnr"]
    return HardeningReport(**{**data, "radii": radii, "psnr": psnr})
