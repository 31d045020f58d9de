"""Search for views: as few as bring every everyday edit of some photos within the plain hash's threshold.

Views are added one at a time, or one of the query together with one of the reference, whichever covers most for what it
costs. A view of the query costs more than one of the reference: its draws are paid for with every query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from dualshield.calibration.plain_views import PlainViews
from dualshield.hashes.codes import distance_table
from dualshield.images.canonical import CanonicalImage
from dualshield.images.views import IDENTITY, View
from dualshield.smoothing.views import Views
from dualshield.transforms import EVERYDAY_EDITS

QUERY_POOL = (
    IDENTITY,
    *(View.trimmed(edge) for edge in (0.04, 0.06, 0.08, 0.1, 0.12)),
    View(top=0.1),
    View(top=0.14),
    View(bottom=0.1),
    View(top=0.09, bottom=0.09),
    View(top=0.115, bottom=0.115),
    View(left=0.09, right=0.09),
    View(grey=True),
    View(bottom=0.45),
    View(top=0.45),
    View(right=0.45),
    View(bottom=0.42, right=0.42),
)
REFERENCE_POOL = (
    IDENTITY,
    View(mirror=True),
    *(View(turn=turn) for turn in (1, 2, 3)),
    *(View(rotation=angle) for angle in (8, -8, 4, -4)),
    *(View.trimmed(edge) for edge in (0.065, 0.125, 0.1, 0.035)),
    View(bottom=0.18, right=0.18),
    View(bottom=0.18, left=0.18),
    View(top=0.18, right=0.18),
    View(top=0.18, left=0.18),
    *(View.trimmed(0.1, rotation=angle) for angle in (8, -8)),
    View(grey=True),
    View(bottom=0.45),
    View(top=0.45),
    View(right=0.45),
    View(bottom=0.42, right=0.42),
    View.trimmed(0.16),
)


@dataclass(frozen=True)
class Wish:
    """What a preset shall reach: each edit may evade ``goal`` of the photos, at ``margin`` times the threshold."""

    goal: float
    margin: float
    query_cost: float = 4.0
    most_query_views: int = 8
    most_reference_views: int = 24


STANDARD, THOROUGH = Wish(0.02, 0.8), Wish(0.0, 0.65, 2.0, 12, 40)


def near_views(
    plain: PlainViews,
    photos: Sequence[CanonicalImage],
    *,
    seed: int = 2026,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> torch.Tensor:
    """Return the distances ``(photos, edits, query views, reference views)`` of edited photos, for all views."""
    table = []
    for i, photo in enumerate(photos):
        progress("search of views", i, len(photos))
        known = plain.codes(photo.pixels, REFERENCE_POOL)
        edited = (edit(photo.pixels, seed=seed) for edit in EVERYDAY_EDITS)
        table.append(torch.stack([distance_table(plain.codes(image, QUERY_POOL), known) for image in edited]))
    return torch.stack(table)


def search_views(distances: torch.Tensor, most: int, wish: Wish) -> Views:
    """Choose views for one wish; ``most`` is the plain hash's largest distance, ``distances`` are from `near_views`."""
    near = distances <= wish.margin * most
    query, reference = [0], [0]
    while True:
        covered = near[:, :, query][..., reference].any(-1).any(-1)
        missing = (~covered).float().mean(0) > wish.goal  # edits that still evade too often
        if not missing.any():
            break
        open_ = ~covered & missing
        best: tuple[float, list[int], list[int]] | None = None
        for q, r, cost in _steps(query, reference, wish):
            gain = int((near[:, :, q][..., r].any(-1).any(-1) & open_).sum())
            if gain and (best is None or gain / cost > best[0]):
                best = gain / cost, q, r
        if best is None:
            break
        query, reference = best[1], best[2]
    ordered = _ordered(query, reference, near)
    return symmetric(Views(tuple(REFERENCE_POOL[r] for r in reference), tuple(QUERY_POOL[q] for q in ordered)))


def symmetric(views: Views) -> Views:
    """Return the views with the mirror images of one-sided ones of the reference: edits come from either side."""
    found = dict.fromkeys(views.reference)
    for view in views.reference:
        found[replace(view, left=view.right, right=view.left, rotation=-view.rotation)] = None
    return Views(tuple(found), views.query)


def _steps(query: list[int], reference: list[int], wish: Wish) -> Iterator[tuple[list[int], list[int], float]]:
    """Yield the views after each possible addition, and its cost."""
    other_q = [q for q in range(len(QUERY_POOL)) if q not in query] if len(query) < wish.most_query_views else []
    other_r = [r for r in range(len(REFERENCE_POOL)) if r not in reference]
    other_r = other_r if len(reference) < wish.most_reference_views else []
    yield from ((query, [*reference, r], 1.0) for r in other_r)
    yield from (([*query, q], reference, wish.query_cost) for q in other_q)
    yield from (([*query, q], [*reference, r], 1.0 + wish.query_cost) for q in other_q for r in other_r)


def _ordered(query: list[int], reference: list[int], near: torch.Tensor) -> list[int]:
    """Order the views of the query by worth: each next one covers the most that those before it do not."""
    ordered, rest = [query[0]], query[1:]
    by_view = near[..., reference].any(-1)
    while rest:
        covered = by_view[:, :, ordered].any(-1)
        ordered.append(max(rest, key=lambda q: int((by_view[:, :, q] & ~covered).sum())))
        rest = [q for q in rest if q not in ordered]
    return ordered
