"""Draw the report's plots, one per hash, so that the page can arrange them at any width."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dualshield._common.extras import require_extra
from dualshield.evaluation.report import _escape as escape
from dualshield.evaluation.report import paper_figures as paper
from dualshield.evaluation.report._plot_style import (
    BAND,
    GRID,
    INK,
    MUTED,
    PAGE,
    Plot,
    colour,
    finish,
    hollow,
    legend,
    marker,
    slug,
    style,
)
from dualshield.evaluation.report.figures import Figure, Results, cner, mean
from dualshield.evaluation.report.rows import ABLATION, averages, heading
from dualshield.evaluation.transform_names import split
from dualshield.smoothing.variants import VIEWS

with require_extra("report", "a report"):
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas
    from matplotlib.ticker import FixedLocator, NullLocator

FULL_RADIUS = 0.3  # the paper's profiles divide radii by this value
AXES = ("Certified", "Adaptive", "White-box", "Black-box", "Transformations", "Collisions")
PANELS = 4  # panels per row


@dataclass(frozen=True)
class Kind:
    """One kind of plot; ``draw`` returns False if there is nothing to draw."""

    title: str
    draw: Callable[[Canvas, Results, str], bool]
    size: tuple[float, float] = (4.6, 3.1)
    wide: bool = False


def draw_all(found: Results) -> list[Plot]:
    """Return every plot that the run has figures for."""
    plots = []
    with style():
        for kind, how in KINDS.items():
            for index, name in enumerate(found.hashes, 1):
                canvas = Canvas(figsize=how.size, layout="constrained")
                if how.draw(canvas, found, name):
                    # The number separates names that have the same slug.
                    file = "-".join(filter(None, (kind, str(index), slug(name))))
                    plots.append(finish(canvas, file, kind, f"{how.title}, {escape.plain(name)}", wide=how.wide))
        canvas = Canvas(figsize=(7.6, 2.4), layout="constrained")
        if _ablation(canvas, found):
            plots.append(finish(canvas, "ablation", "ablation", "Ablation, averaged over hashes", wide=True))
    return plots


def _certified(canvas: Canvas, found: Results, name: str) -> bool:
    """Draw CNER over radius: identity pairs solid, benign variants dotted, the paper's two radii hollow."""
    radii = {variant: found.radii(name, variant) for variant in found.variants}
    radii = {variant: values for variant, values in radii.items() if values}
    if not radii:
        return False
    axes = _axes(canvas, name)
    scale = np.linspace(0, 1.06 * max(max(map(max, radii.values())), *paper.CNER_RADII), 241)
    dotted = False
    for variant, values in radii.items():
        curve = [_known(cner(values, radius)) for radius in scale]
        axes.plot(scale, [100 * point.value for point in curve], color=colour(variant))
        _band(axes, scale, curve, variant)
        if benign := found.radii(name, variant, benign=True):
            shares = [100 * _known(cner(benign, radius)).value for radius in scale]
            axes.plot(scale, shares, color=colour(variant), linestyle=(0, (1, 1.6)), linewidth=1.2)
            dotted = True
    published = False
    for variant in paper.VARIANTS:
        points = [(radius, paper.cner(name, radius, variant)) for radius in paper.CNER_RADII]
        published |= _paper_points(axes, points, variant)
    axes.set_xlim(0, scale[-1])
    axes.set_xlabel("certified radius, ℓ₂" + (" (dotted: benign variants)" if dotted else ""))
    _per_cent(axes, "CNER, %")
    legend(canvas, list(radii), paper=published)
    return True


def _success(part: str) -> Callable[[Canvas, Results, str], bool]:
    def draw(canvas: Canvas, found: Results, name: str) -> bool:
        """Draw success over budget on a log axis, with intervals; the adaptive plot has a line at 50 %."""
        axes = _axes(canvas, name)
        budgets = found.budgets(part)
        drawn = []
        published = False
        for variant in found.variants:
            points = [(budget, found.success(part, name, variant, budget)) for budget in budgets]
            known = [(budget, figure) for budget, figure in points if figure]
            if not known:
                continue
            drawn.append(variant)
            where, figures = [budget for budget, _ in known], [figure for _, figure in known]
            axes.plot(
                where, [100 * f.value for f in figures], color=colour(variant), marker=marker(variant), clip_on=False
            )
            _band(axes, where, figures, variant)
            theirs = [(budget, paper.attack(part, name, budget, variant)) for budget in paper.BUDGETS]
            published |= _paper_points(axes, theirs, variant)
        if not drawn:
            return False
        if part == "adaptive":
            axes.axhline(50, color=MUTED, linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator(budgets))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticklabels([f"{budget:g}" for budget in budgets])
        axes.set_xlabel("budget, ℓ₂")
        _per_cent(axes, "success, %")
        legend(canvas, drawn, paper=published)
        return True

    return draw


def _transforms(canvas: Canvas, found: Results, name: str) -> bool:
    """Draw one small panel per family of the paper, with its levels from left to right."""
    levels: dict[str, list[str]] = {}
    for transform in found.paper_transforms:
        levels.setdefault(split(transform)[0], []).append(transform)
    drawn = [variant for variant in found.variants if found.matched("transforms", name, variant)]
    if not levels or not drawn:
        return False
    lines = -(-len(levels) // PANELS)
    canvas.set_size_inches(7.6, 0.6 + 1.55 * lines)
    canvas.suptitle(escape.plain(name), x=0.01, ha="left", fontsize=9.5, fontweight="bold")
    panels = canvas.subplots(lines, PANELS, sharey=True, squeeze=False).flat
    for axes, (kind, transforms) in zip(panels, levels.items(), strict=False):
        for variant in drawn:
            points = [(i, found.evasion(name, variant, [t])) for i, t in enumerate(transforms)]
            known = [(index, figure) for index, figure in points if figure]
            where, figures = [index for index, _ in known], [figure for _, figure in known]
            shares = [100 * figure.value for figure in figures]
            axes.plot(where, shares, color=colour(variant), marker=marker(variant), markersize=3.5, clip_on=False)
            _band(axes, where, figures, variant)
        axes.set_title(escape.plain(kind), fontsize=8.5, fontweight="normal", color=MUTED)
        axes.set_xlim(-0.35, len(transforms) - 0.65)
        axes.set_xticks(range(len(transforms)), [escape.plain(split(t)[1]) for t in transforms])
        axes.set_ylim(0, 100)
        axes.set_yticks([0, 50, 100])
    for axes in list(panels):
        axes.set_visible(False)
    canvas.supylabel("evasion, %", fontsize=8.5, color=MUTED)
    legend(canvas, drawn, paper=False)
    return True


def profile(found: Results, name: str, variant: str) -> list[float | None]:
    """Return the profile of one variant, each dimension in [0, 1]; None for a part that was not run."""
    radius = mean(found.radii(name, variant))
    certified = None
    if any(found.radii(name, other) for other in found.variants):
        certified = min(1.0, radius.value / FULL_RADIUS) if radius else 0.0
    rates = [
        found.average_success("adaptive", name, variant),
        found.average_success("whitebox", name, variant),
        found.average_success("blackbox", name, variant),
        found.lowest_evasion(name, variant),
        found.collisions(name, variant),
    ]
    return [certified, *(None if figure is None else 1 - figure.value for figure in rates)]


def published_profile(name: str, variant: str) -> list[float | None] | None:
    """Return the paper's profile, in which the adaptive attack is None; None if the profile is not complete."""
    rates = [paper.overall(name, column, variant) for column in paper.SUMMARY[:-1]]
    if any(value is None for value in rates):
        return None
    radius = paper.overall(name, "certified", variant) or 0.0
    return [min(1.0, radius / FULL_RADIUS), None, *(1 - (value or 0.0) / 100 for value in rates)]


def _radar(canvas: Canvas, found: Results, name: str) -> bool:
    profiles = {variant: profile(found, name, variant) for variant in found.variants}
    kept = [index for index in range(len(AXES)) if any(values[index] is not None for values in profiles.values())]
    whole = {v: [values[i] for i in kept] for v, values in profiles.items() if all(values[i] is not None for i in kept)}
    if len(kept) < 3 or not whole:
        return False
    angles = np.linspace(0, 2 * np.pi, len(kept), endpoint=False)
    axes: Any = canvas.add_subplot(projection="polar")
    axes.set_theta_zero_location("N")
    axes.set_theta_direction(-1)
    canvas.suptitle(escape.plain(name), x=0.02, ha="left", fontsize=9.5, fontweight="bold")
    published = False
    for variant in paper.VARIANTS:
        theirs = published_profile(name, variant)
        if theirs is not None:
            points = [(angle, theirs[index]) for angle, index in zip(angles, kept, strict=True)]
            known = [(angle, value) for angle, value in points if value is not None]
            closed = _closed([angle for angle, _ in known], [value for _, value in known])
            axes.plot(*closed, color=colour(variant), linewidth=1.0, linestyle=(0, (3, 2)))
            published = True
    for variant, own in whole.items():
        closed = _closed(angles, [value or 0.0 for value in own])
        axes.plot(*closed, color=colour(variant), marker=marker(variant), markersize=3.5, clip_on=False)
        axes.fill(*closed, color=colour(variant), alpha=BAND / 2, linewidth=0)
    axes.set_ylim(0, 1)
    axes.set_yticks([0.25, 0.5, 0.75, 1.0], [])
    axes.set_xticks(angles, [])
    for index, angle in zip(kept, angles, strict=True):
        across, up = np.sin(angle), np.cos(angle)
        beside = "center" if abs(across) < 0.3 else "left" if across > 0 else "right"
        above = "center" if abs(up) < 0.5 else "bottom" if up > 0 else "top"
        axes.text(angle, 1.08, AXES[index], color=MUTED, fontsize=8.5, ha=beside, va=above)
    axes.grid(color=GRID, linewidth=0.7)
    axes.spines["polar"].set_visible(False)
    legend(canvas, list(whole), paper=published, dashed=True)
    return True


def _ablation(canvas: Canvas, found: Results) -> bool:
    """Draw bars by variant, with the paper's averages over its eight hashes as hollow marks."""
    measured = {variant: averages(found, variant) for variant in found.variants}
    measured = {variant: figures for variant, figures in measured.items() if variant != VIEWS or any(figures.values())}
    shown = [measure for measure in ABLATION if any(figures[measure[0]] for figures in measured.values())]
    if not shown:
        return False
    canvas.set_size_inches(0.6 + 2.4 * len(shown), 0.9 + 0.36 * len(measured))
    variants = list(measured)
    for axes, (column, label, _, scale, _) in zip(
        canvas.subplots(1, len(shown), sharey=True, squeeze=False).flat, shown, strict=True
    ):
        for place, variant in enumerate(variants):
            figure, theirs = measured[variant][column], paper.ablation(column, variant)
            if figure is not None:
                axes.barh(place, scale * figure.value, height=0.62, color=colour(variant))
                _reach(axes, place, figure, scale)
            if theirs is not None:
                axes.plot([theirs], [place], marker="D", color=INK, markerfacecolor=PAGE, clip_on=False, zorder=4)
        axes.set_title(label.partition(", ")[0] + (", %" if scale > 1 else ""), fontsize=8.5, fontweight="normal")
        axes.set_yticks(range(len(variants)), [escape.plain(heading(variant)) for variant in variants])
        axes.set_ylim(len(variants) - 0.5, -0.5)
        axes.set_xlim(0, 100 if scale > 1 else None)
        axes.grid(visible=False, axis="y")
        axes.grid(visible=True, axis="x")
    canvas.set_layout_engine("constrained", wspace=0.06)
    canvas.supxlabel("◇ the paper's averages over its eight hashes", fontsize=8, color=MUTED)
    return True


def _reach(axes: Axes, place: float, figure: Figure, scale: float) -> None:
    if figure.low is not None and figure.high is not None:
        axes.plot([scale * figure.low, scale * figure.high], [place, place], color=INK, linewidth=1.0)


def _axes(canvas: Canvas, name: str) -> Axes:
    axes = canvas.subplots()
    axes.set_title(escape.plain(name))
    return axes


def _per_cent(axes: Axes, label: str) -> None:
    axes.set_ylim(0, 100)
    axes.set_yticks([0, 25, 50, 75, 100])
    axes.set_ylabel(label)


def _band(axes: Axes, where: Sequence[float] | Any, figures: Sequence[Figure], variant: str) -> None:
    low, high = ([100 * (f.value if end is None else end) for f, end in ends] for ends in _ends(figures))
    axes.fill_between(where, low, high, color=colour(variant), alpha=BAND, linewidth=0)


def _ends(figures: Sequence[Figure]) -> tuple[list[tuple[Figure, float | None]], list[tuple[Figure, float | None]]]:
    return [(f, f.low) for f in figures], [(f, f.high) for f in figures]


def _paper_points(axes: Axes, points: Sequence[tuple[float, float | None]], variant: str) -> bool:
    known = [(where, value) for where, value in points if value is not None]
    if known:
        axes.plot(*zip(*known, strict=True), linestyle="none", clip_on=False, zorder=4, **hollow(variant))
    return bool(known)


def _closed(angles: Any, values: Sequence[float]) -> tuple[list[float], list[float]]:
    return [*angles, angles[0]], [*values, values[0]]


def _known(figure: Figure | None) -> Figure:
    assert figure is not None  # the list of radii is not empty
    return figure


KINDS = {
    "certified": Kind("CNER over radius", _certified),
    "whitebox": Kind("White-box success over budget", _success("whitebox")),
    "blackbox": Kind("Black-box success over budget", _success("blackbox")),
    "adaptive": Kind("Adaptive success over budget", _success("adaptive")),
    "transforms": Kind("Evasion by transformation and level", _transforms, (7.6, 5.0), wide=True),
    "radar": Kind("Robustness profile", _radar, (4.6, 3.7)),
}
