"""The sections of the report: tables, kinds of plots, and the text that explains them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dualshield.evaluation.report import rows
from dualshield.evaluation.report.figures import Results
from dualshield.evaluation.report.rows import variant_table
from dualshield.evaluation.report.tables import Row, Table

NOT_RUN = "This part was not run, so there are no results."


@dataclass(frozen=True)
class Section:
    """One section; ``missing`` is shown instead of tables if the part was not run."""

    name: str
    title: str
    lead: str
    tables: tuple[Table, ...] = ()
    plot: str = ""  # the kind of plot to show
    missing: str = ""


SUMMARY = (
    "Attack success is averaged over the budgets, transformations over the paper's seven families at their lowest "
    "intensity. The cost of evasion is the ℓ₂ norm at which the adaptive attack evades half of the images."
)
CERTIFIED = (
    "No perturbation of the query shorter than its certified radius turns a match into a non-match; it may still lead "
    "to an abstention. Inside the detected radius the matcher still answers match, with probability 0.999. An exact "
    "matcher never abstains, and its radii hold without any probability: both are the same. CNER, the "
    "certified non-evasion rate, is the share of positive pairs that match and are certified up to a radius; pairs "
    "without a certified match count with radius 0. Identity pairs compare the published image with itself, benign "
    "variants with a mild transformation of it. A dash means that the variant has no certificate at all."
)
WHITEBOX = (
    "Projected gradient descent with full knowledge of hash, threshold and defence, as in the paper. The deployed "
    "matcher judges the saved image with fresh noise. The attack stops as soon as the plain hash is evaded: an "
    "image that resists longer is changed more before it is judged, and may look less robust than it is. The adaptive "
    "attack has no such stop; judge a defence by the adaptive attack."
)
BLACKBOX = (
    "Natural evolution strategies on the score that the matcher returns, without gradients and with a limited number "
    "of queries, as in the paper."
)
ADAPTIVE = (
    "The strongest attack we know, and for each image a bisection over the budgets: gradients averaged over draws of "
    "the deployed noise, or for an exact matcher the shortest change that crosses its boundary. The cost of evasion is "
    "the ℓ₂ norm at which half of the images evade, interpolated on a log scale. The paper has no figures for such an "
    "attack."
)
TRANSFORMS = (
    "Changes that are not attacks: images saved again, cropped, rotated or recoloured. Brightness and contrast have "
    "two lowest intensities, 0.85 and 1.15, counted in equal parts. Everyday edits are a second list, ours: frames, "
    "bars, logos, colours, mirrored and turned images, and two edits at once. The few that the paper has too are in "
    "both lists."
)
COLLISIONS = (
    "A matcher that matches everything would resist all attacks, so collisions are measured too. Pairs are drawn from "
    "the images of the run, except known duplicates. The paper's pairs come from ImageNet alone."
)
QUALITY = (
    "Hardened images against their originals, and attacked images against their starting images. Higher SSIM "
    "and PSNR, lower LPIPS and FID mean a smaller visible change."
)
PROFILES = (
    "The paper's five dimensions and the adaptive attack; farther out is better. One minus the rate for attacks "
    "(averaged over their budgets), transformations (lowest intensity) and collisions; the mean certified radius "
    "divided by 0.3, cut off at 1. A variant without certificates has 0 there. Dashed lines are the paper's own "
    "figures; the paper has none for the adaptive attack."
)


def build(found: Results) -> list[Section]:
    """Return all sections with figures, in the order of the page."""

    def table(name: str, title: str, measure: str, lines: Iterable[Row]) -> Table:
        return variant_table(found, name, title, measure, lines)

    def section(part: str, title: str, lead: str, *tables: Table, plot: str = "") -> Section:
        if not found.has(part):
            return Section(part, title, lead, missing=NOT_RUN)
        return Section(part, title, lead, tuple(filter(lambda t: t.rows, tables)), plot)

    over = "" if len(found.hashes) == 1 else f", averaged over the {len(found.hashes)} hashes of this run"
    ablation = table("ablation", "Ablation", "Measure", rows.ablation(found))
    return [
        Section("summary", "Summary", SUMMARY, (table("summary", "Overall", "Measure", rows.summary(found)),)),
        section(
            "certified",
            "Certified robustness",
            CERTIFIED,
            table("certified", "Certified radius (ℓ₂) and CNER", "Measure", rows.certified(found)),
            plot="certified",
        ),
        section(
            "whitebox",
            "White-box attacks",
            WHITEBOX,
            table("whitebox", "White-box attack success, %", "Budget", rows.attacks(found, "whitebox")),
            plot="whitebox",
        ),
        section(
            "blackbox",
            "Black-box attacks",
            BLACKBOX,
            table("blackbox", "Black-box attack success, %", "Budget", rows.attacks(found, "blackbox")),
            plot="blackbox",
        ),
        section(
            "adaptive",
            "Adaptive attack",
            ADAPTIVE,
            table("adaptive", "Adaptive attack success and cost of evasion", "Budget", rows.adaptive(found)),
            plot="adaptive",
        ),
        section(
            "transforms",
            "Transformations",
            TRANSFORMS,
            table("transforms-lowest", "Evasion at the lowest intensity, %", "Family", rows.lowest_transforms(found)),
            table("transforms", "Evasion at every intensity, %", "Transformation", rows.all_transforms(found)),
            table("edits", "Everyday edits, evasion in %", "Edit", rows.edits(found)),
            plot="transforms",
        ),
        section(
            "collisions",
            "Collisions",
            COLLISIONS,
            table("collisions", "Unrelated pairs that match, %", "Pairs", rows.collisions(found)),
        ),
        _quality(found),
        Section(
            "ablation",
            "Ablation",
            f"What each shield adds{over}. The paper's columns are averages over its eight hashes, so compare "
            "them only as far as the hashes are the same.",
            (ablation,) if ablation.rows else (),
            "ablation" if ablation.rows else "",
            "" if ablation.rows else "Neither white-box, black-box nor certified results are complete for every hash.",
        ),
        Section("profiles", "Robustness profiles", PROFILES, plot="radar"),
    ]


def _quality(found: Results) -> Section:
    title = "White-box attacked images against their starting images"
    tables = (
        rows.hardening(found),
        variant_table(found, "distortion", title, "Measure", rows.distortion(found)),
    )
    kept = tuple(table for table in tables if any(cell.figure for row in table.rows for cell in row.cells))
    return Section("quality", "Visual quality", QUALITY, kept, missing="" if kept else NOT_RUN)
