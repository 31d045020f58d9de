"""The report's gallery: original, hardened and attacked images, with amplified differences."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from dualshield.errors import DualShieldError
from dualshield.evaluation.report.figures import Results, number
from dualshield.evaluation.report.rows import heading
from dualshield.evaluation.run.records import RENAMED, Record, Run
from dualshield.images.decode import decode

AMPLIFICATION = 10
SIDE = 320
QUALITY = 82
MAX_PIXELS = 2**22
EXHIBITS = 3  # per hash
# In order of preference; the adaptive attack is the strongest.
ATTACKS = ("adaptive", "whitebox", "blackbox")
Pixels = npt.NDArray[np.float32]
BEFORE = {new: old for old, new in RENAMED.items()}


@dataclass(frozen=True)
class Tile:
    """One picture as a JPEG file, with its caption."""

    title: str
    detail: str
    jpeg: bytes


@dataclass(frozen=True)
class Exhibit:
    """The pictures of one image under one hash: a row about hardening, then a row about attacks."""

    hash: str
    dataset: str
    image: str
    rows: tuple[tuple[Tile, ...], ...]


def exhibits(run: Run, found: Results) -> list[Exhibit]:
    """Return a few images per hash, from different datasets if possible; only images that are on disk."""
    shown = []
    for hash_name in found.hashes:
        chosen: list[Exhibit] = []
        for dataset, image in _candidates(found, hash_name):
            if len(chosen) == EXHIBITS:
                break
            for single in run.singles:
                rows = _rows(single.folder, found, hash_name, dataset, image)
                if sum(map(len, rows)) > 1:
                    chosen.append(Exhibit(hash_name, dataset, image, rows))
        shown += chosen
    return shown


def _candidates(found: Results, hash_name: str) -> list[tuple[str, str]]:
    """Return the first image of every dataset, then the second of each, and so on."""
    by_dataset: dict[str, set[str]] = {dataset: set() for dataset in found.datasets}
    for part in ("quality", *ATTACKS):
        for variant in found.variants:
            for record in found.records(part, hash_name, variant):
                if record.key.dataset in by_dataset:
                    by_dataset[record.key.dataset].add(record.key.image)
    # Sorted by name, because records of several processes come in any order.
    ranked = [
        (rank, dataset, image) for dataset, images in by_dataset.items() for rank, image in enumerate(sorted(images))
    ]
    return [(dataset, image) for _, dataset, image in sorted(ranked, key=lambda item: item[0])]


def _rows(folder: Path, found: Results, hash_name: str, dataset: str, image: str) -> tuple[tuple[Tile, ...], ...]:
    original = _read(folder, "original", dataset, f"{image}.png")
    if original is None:
        return ()
    above, below = [Tile("Original", "", _jpeg(original))], []
    hardened = next((variant for variant in ("both", "hardening") if variant in found.variants), None)
    published = None
    if hardened is not None:
        published = _read(folder, "published", hash_name, hardened, dataset, f"{image}.png")
    if published is not None and published.shape == original.shape:
        above.append(Tile("Hardened", _quality(found, hash_name, hardened or "", dataset, image), _jpeg(published)))
        above.append(Tile(f"Difference ×{AMPLIFICATION}", "hardened − original", _difference(original, published)))
    for variant, start in (("original", original), ("both", published)):
        attack = _attack(folder, found, hash_name, variant, dataset, image) if start is not None else None
        if attack is not None and start is not None and attack[1].shape == start.shape:
            record, attacked = attack
            below.append(Tile(f"Attack on {heading(variant).lower()}", _outcome(record), _jpeg(attacked)))
            below.append(Tile(f"Difference ×{AMPLIFICATION}", "attacked − published", _difference(start, attacked)))
    return tuple(above), tuple(below)


def _attack(
    folder: Path, found: Results, hash_name: str, variant: str, dataset: str, image: str
) -> tuple[Record, Pixels] | None:
    """Return the first attack with a picture: its success at the smallest budget, else its largest failed budget."""
    for part in ATTACKS:
        tried = [
            (budget, record)
            for record in found.matched(part, hash_name, variant)
            if (record.key.dataset, record.key.image) == (dataset, image)
            and (budget := number(_float(record.key.detail))) is not None
        ]
        successes = sorted((t for t in tried if t[1].result.get("success") is True), key=lambda t: t[0])
        failures = sorted((t for t in tried if t[1].result.get("success") is False), key=lambda t: -t[0])
        for budget, record in (*successes, *failures):
            pixels = _read(folder, "attacked", part, hash_name, variant, dataset, image, f"{budget:g}.png")
            if pixels is not None:
                return record, pixels
    return None


def _outcome(record: Record) -> str:
    names = {"adaptive": "adaptive", "whitebox": "white-box", "blackbox": "black-box"}
    length, similarity = number(record.result.get("l2")), number(record.result.get("ssim"))
    said = [names[record.key.part], "evades" if record.result["success"] else "held"]
    said += [] if length is None else [f"ℓ₂\u00a0{length:.1f}"]
    said += [] if similarity is None else [f"SSIM\u00a0{similarity:.3f}"]
    return " · ".join(said)


def _quality(found: Results, hash_name: str, variant: str, dataset: str, image: str) -> str:
    for record in found.matched("quality", hash_name, variant):
        if (record.key.dataset, record.key.image) == (dataset, image):
            values = {"SSIM": ("ssim", ".3f"), "LPIPS": ("lpips", ".3f"), "ℓ₂": ("l2", ".1f")}
            known = {label: (number(record.result.get(name)), form) for label, (name, form) in values.items()}
            return " · ".join(
                f"{label}\u00a0{value:{form}}" for label, (value, form) in known.items() if value is not None
            )
    return ""


def _read(folder: Path, *path: str) -> Pixels | None:
    """Read a picture of the run; names come from records, so paths outside of the images folder are refused."""
    root = (folder / "images").resolve()
    # Folders of older runs have the old names of variants.
    for names in (path, [BEFORE.get(name, name) for name in path]):
        try:
            file = root.joinpath(*names).resolve()
            if file.is_relative_to(root) and file.is_file():
                return decode(file, max_pixels=MAX_PIXELS).pixels
        except (DualShieldError, OSError, ValueError):
            return None
    return None


def _difference(before: Pixels, after: Pixels) -> bytes:
    return _jpeg(0.5 + AMPLIFICATION * (after - before))


def _jpeg(pixels: Pixels) -> bytes:
    picture = Image.fromarray((np.clip(pixels, 0, 1) * 255).round().astype(np.uint8))
    picture.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=QUALITY)
    return file.getvalue()


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
