"""The rows of all tables of the report: the run's figures by variant, and the paper's figures where it has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from dualshield.evaluation.report import paper_figures as paper
from dualshield.evaluation.report.figures import POOLED, Figure, Results, cner, mean
from dualshield.evaluation.report.tables import Cell, Row, Table, best_marked
from dualshield.evaluation.transform_names import family
from dualshield.smoothing.variants import EXPLAINED, VIEWS
from dualshield.transforms.paper import MILDEST

PERCENT = 100.0
QUALITIES = {"ssim": ("SSIM", 3), "lpips": ("LPIPS", 3), "fid": ("FID", 1)}
OWN_QUALITIES = {"psnr": ("PSNR, dB", 1), "l2": ("ℓ₂", 1), "linf": ("ℓ∞", 3)}
ABLATION = (
    ("whitebox", "White-box success, %", 1, PERCENT, True),
    ("blackbox", "Black-box success, %", 1, PERCENT, True),
    ("certified", "Mean certified radius, ℓ₂", 3, 1.0, False),
)


def heading(variant: str) -> str:
    """Return the column heading of a variant."""
    named = EXPLAINED[VIEWS] if variant == VIEWS else "both shields" if variant == "both" else variant
    return named[:1].upper() + named[1:]


def variant_table(found: Results, name: str, title: str, measure: str, rows: Iterable[Row]) -> Table:
    """Return a table with the variants of the run and of the paper as columns; empty rows are left out.

    Views have a column only where they have figures.
    """
    lines = tuple(rows)
    empty = [
        place
        for place, variant in enumerate(found.variants)
        if variant == VIEWS and not any(line.cells[place].figure for line in lines)
    ]
    shown = [variant for place, variant in enumerate(found.variants) if place not in empty]
    kept = (replace(line, cells=tuple(c for i, c in enumerate(line.cells) if i not in empty)) for line in lines)
    ours, theirs = (tuple(map(heading, names)) for names in (shown, paper.VARIANTS))
    return Table(name, title, measure, ours, theirs, tuple(kept)).trimmed()


def row(
    hash_name: str,
    label: str,
    ours: Iterable[Figure | None],
    theirs: Iterable[float | None] = (None,) * len(paper.VARIANTS),
    *,
    digits: int = 1,
    scale: float = PERCENT,
    lower: bool = True,
) -> Row:
    """Return the row of one measure by variant; ``theirs`` are the paper's figures in the units shown."""
    cells = [Cell(figure, digits, scale) for figure in ours]
    return Row(hash_name, label, best_marked(cells, lower=lower), tuple(_printed(value, digits) for value in theirs))


def summary(found: Results) -> Iterator[Row]:
    """Yield the summary rows of every hash."""
    for name in found.hashes:
        yield _averaged(found, name, "whitebox", "White-box success, %")
        yield _cost(found, name, "Adaptive cost of evasion, ℓ₂")
        yield _averaged(found, name, "blackbox", "Black-box success, %")
        yield _lowest(found, name, "Transformation evasion, %")
        yield _collided(found, name, "Collisions, %")
        yield _radius(found, name, "Mean certified radius, ℓ₂")


def certified(found: Results) -> Iterator[Row]:
    """Yield mean radius and CNER, for identity pairs (as in the paper) and for benign variants (not in the paper)."""
    for name in found.hashes:
        yield _radius(found, name, "Mean radius, identity")
        detected = [found.radii(name, variant, kind="radius_detected") for variant in found.variants]
        if any(detected):
            label = "Mean detected radius, identity"
            yield row(name, label, map(mean, detected), digits=4, scale=1, lower=False)
        for radius in paper.CNER_RADII:
            ours = [cner(found.radii(name, variant), radius) for variant in found.variants]
            theirs = [paper.cner(name, radius, variant) for variant in paper.VARIANTS]
            yield row(name, f"CNER at {radius:g}, identity, %", ours, theirs, lower=False)
        benign = [found.radii(name, variant, benign=True) for variant in found.variants]
        yield row(name, "Mean radius, benign variants", map(mean, benign), digits=4, scale=1, lower=False)
        for radius in paper.CNER_RADII:
            label = f"CNER at {radius:g}, benign variants, %"
            yield row(name, label, [cner(radii, radius) for radii in benign], lower=False)


def attacks(found: Results, part: str) -> Iterator[Row]:
    """Yield the success rate by budget, and the average."""
    for name in found.hashes:
        for budget in found.budgets(part):
            ours = [found.success(part, name, variant, budget) for variant in found.variants]
            theirs = [paper.attack(part, name, budget, variant) for variant in paper.VARIANTS]
            yield row(name, f"ℓ₂ ≤ {budget:g}", ours, theirs)
        yield _averaged(found, name, part, "average")


def adaptive(found: Results) -> Iterator[Row]:
    """Yield the success rate by budget, and the cost of evasion."""
    for name in found.hashes:
        for budget in found.budgets("adaptive"):
            ours = [found.success("adaptive", name, variant, budget) for variant in found.variants]
            yield row(name, f"ℓ₂ ≤ {budget:g}, %", ours)
        yield _cost(found, name, "cost of evasion, ℓ₂")


def lowest_transforms(found: Results) -> Iterator[Row]:
    """Yield the evasion rate by each of the paper's families at its lowest intensity, and the average."""
    for name in found.hashes:
        for kind in paper.FAMILIES:
            mild = [level for level in found.paper_transforms if level in MILDEST and family(level) == kind]
            ours = [found.evasion(name, variant, mild) for variant in found.variants]
            yield row(name, kind, ours, [paper.transformation(name, kind, variant) for variant in paper.VARIANTS])
        yield _lowest(found, name, "average")


def all_transforms(found: Results) -> Iterator[Row]:
    """Yield the evasion rate by every transformation of the paper."""
    return _transformed(found, found.paper_transforms)


def edits(found: Results) -> Iterator[Row]:
    """Yield the evasion rate by every everyday edit."""
    return _transformed(found, found.edits)


def _transformed(found: Results, transforms: Sequence[str]) -> Iterator[Row]:
    for name in found.hashes:
        for transform in transforms:
            ours = [found.evasion(name, variant, [transform]) for variant in found.variants]
            yield replace(row(name, transform, ours), heat=True)


def collisions(found: Results) -> Iterator[Row]:
    """Yield the share of unrelated pairs that match."""
    return (_collided(found, name, "unrelated pairs, %") for name in found.hashes)


def distortion(found: Results) -> Iterator[Row]:
    """Yield the quality of white-box attacked images. No value is marked best: a small change helps the attacker."""
    for name in found.hashes:
        for budget in found.budgets("whitebox"):
            for quality, (label, digits) in QUALITIES.items():
                cells = [
                    found.fid(name, variant, POOLED, budget)
                    if quality == "fid"
                    else found.distortion("whitebox", name, variant, budget, quality)
                    for variant in found.variants
                ]
                theirs = [paper.distortion(name, variant, budget, quality) for variant in paper.VARIANTS]
                yield Row(
                    name,
                    f"ℓ₂ ≤ {budget:g}, {label}",
                    tuple(Cell(figure, digits) for figure in cells),
                    tuple(_printed(value, digits) for value in theirs),
                )


def hardening(found: Results) -> Table:
    """Return the table of hardened images against originals by dataset; its columns are the metrics."""
    columns = {**QUALITIES, **OWN_QUALITIES}
    rows = []
    for name in found.hashes:
        for variant in (variant for variant in found.variants if found.records("quality", name, variant)):
            for dataset in (*found.datasets, POOLED):
                cells = tuple(
                    Cell(_hardened(found, name, variant, dataset, quality), digits)
                    for quality, (_, digits) in columns.items()
                )
                published = tuple(
                    _printed(paper.hardening(name, dataset, quality) if variant == "both" else None, digits)
                    for quality, (_, digits) in QUALITIES.items()
                )
                label = f"{heading(variant)}, {'all datasets' if dataset == POOLED else dataset}"
                rows.append(Row(name, label, cells, published))
    ours, theirs = (tuple(label for label, _ in names.values()) for names in (columns, QUALITIES))
    return Table("hardening", "Hardened images against originals", "Images", ours, theirs, tuple(rows)).trimmed()


def ablation(found: Results) -> Iterator[Row]:
    """Yield the averages over all hashes, of the run and of the paper."""
    measured = [averages(found, variant) for variant in found.variants]
    for column, label, digits, scale, lower in ABLATION:
        theirs = [paper.ablation(column, variant) for variant in paper.VARIANTS]
        ours = [figures[column] for figures in measured]
        yield row("", label, ours, theirs, digits=digits, scale=scale, lower=lower)


def averages(found: Results, variant: str) -> dict[str, Figure | None]:
    """Return the ablation's measures averaged over the hashes of the run; with several hashes without interval."""
    return {
        "whitebox": _across([found.average_success("whitebox", name, variant) for name in found.hashes]),
        "blackbox": _across([found.average_success("blackbox", name, variant) for name in found.hashes]),
        "certified": _across([mean(found.radii(name, variant)) for name in found.hashes]),
    }


def _across(figures: Sequence[Figure | None]) -> Figure | None:
    known = [figure for figure in figures if figure is not None]
    if len(known) == 1:
        return known[0] if len(figures) == 1 else None
    if len(known) < len(figures) or not known:
        return None
    return Figure(sum(f.value for f in known) / len(known), None, None, sum(f.count for f in known))


def _averaged(found: Results, name: str, part: str, label: str) -> Row:
    ours = [found.average_success(part, name, variant) for variant in found.variants]
    return row(name, label, ours, [paper.overall(name, part, variant) for variant in paper.VARIANTS])


def _cost(found: Results, name: str, label: str) -> Row:
    return row(name, label, [found.cost(name, v) for v in found.variants], digits=2, scale=1, lower=False)


def _lowest(found: Results, name: str, label: str) -> Row:
    ours = [found.lowest_evasion(name, variant) for variant in found.variants]
    return row(name, label, ours, [paper.overall(name, "transforms", variant) for variant in paper.VARIANTS])


def _collided(found: Results, name: str, label: str) -> Row:
    ours = [found.collisions(name, variant) for variant in found.variants]
    return row(name, label, ours, [paper.collisions(name, variant) for variant in paper.VARIANTS], digits=2)


def _radius(found: Results, name: str, label: str) -> Row:
    ours = [mean(found.radii(name, variant)) for variant in found.variants]
    theirs = [paper.certified_radius(name, variant) for variant in paper.VARIANTS]
    return row(name, label, ours, theirs, digits=4, scale=1, lower=False)


def _hardened(found: Results, name: str, variant: str, dataset: str, quality: str) -> Figure | None:
    if quality == "fid":
        return found.fid(name, variant, dataset, "hardened")
    return found.quality(name, variant, dataset, quality)


def _printed(value: float | None, digits: int) -> Cell:
    return Cell(None if value is None else Figure(value, None, None, 0), digits)
