"""Views: fixed ways to look at an image, so that a framed, cropped, mirrored or turned copy is still recognised.

A view of a *query* trims its edges or mirrors it. That is a linear map of the canonical pixels, one matrix for the rows
and one for the columns, so it becomes part of the hash's front end: noise is still drawn on the canonical pixels, and
radii are still l2 in canonical pixels. A view of a *reference* may also be rotated: only its code is kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dualshield.errors import InputError
from dualshield.images import axes
from dualshield.images.axes import Matrix
from dualshield.images.space import CANONICAL_SIZE, LUMA

MAX_TRIM = 0.6  # of a side, both ends together
_EDGES = ("top", "bottom", "left", "right")
_GREY = np.tile(np.asarray(LUMA, np.float64), (3, 1))

Pixels = npt.NDArray[np.floating]


@dataclass(frozen=True)
class View:
    """Rotate, turn and mirror an image, then trim its edges and enlarge the rest to full size; or show it in grey.

    ``top`` to ``right`` are the trimmed parts of the sides, ``mirror`` swaps left and right, ``turn`` counts quarter
    turns and ``rotation`` degrees, both counter-clockwise.

    >>> str(View(top=0.06, bottom=0.06, left=0.06, right=0.06))
    'trimmed by 6 % on all sides'
    """

    top: float = 0.0
    bottom: float = 0.0
    left: float = 0.0
    right: float = 0.0
    mirror: bool = False
    turn: int = 0
    rotation: float = 0.0
    grey: bool = False

    def __post_init__(self) -> None:
        for name in (*_EDGES, "rotation"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= 360:
                raise InputError(f"a view's {name} is {str(value)[:20]!r}, not a number in its range")
            object.__setattr__(self, name, float(value))
        for name in ("mirror", "grey"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"a view's {name} is {getattr(self, name)!r}, not true or false")
        if not isinstance(self.turn, int) or isinstance(self.turn, bool) or self.turn not in range(4):
            raise InputError(f"a view's turn is {self.turn!r}; give 0, 1, 2 or 3 quarter turns")
        if not -180 <= self.rotation <= 180:
            raise InputError(f"a view's rotation of {self.rotation:g} degrees is not between -180 and 180")
        for name in _EDGES:
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"a view trims {getattr(self, name):g} of the {name}; give a part of at least 0")
        for one, other in (("top", "bottom"), ("left", "right")):
            both = getattr(self, one) + getattr(self, other)
            if both > MAX_TRIM:
                raise InputError(
                    f"a view trims {both:g} of the image at {one} and {other}; at most {MAX_TRIM:g} is allowed"
                )

    @staticmethod
    def trimmed(edge: float, **more: Any) -> View:
        """Return a view with the same part trimmed from all sides."""
        return View(edge, edge, edge, edge, **more)

    @property
    def is_identity(self) -> bool:
        """Whether it shows the image unchanged."""
        return self == IDENTITY

    @property
    def is_separable(self) -> bool:
        """Whether it is one matrix for the rows and one for the columns, as views of a query must be."""
        return not self.rotation and self.turn % 2 == 0

    def factors(self, size: int = CANONICAL_SIZE) -> tuple[Matrix, Matrix]:
        """Return the matrices of a separable view: pixels ``X`` become ``rows X cols^T``."""
        if not self.is_separable:
            raise InputError(f"a query cannot be looked at {self}: only trimming and mirroring are linear in its axes")
        rows, cols = _trim(size, self.top, self.bottom), _trim(size, self.left, self.right)
        half = self.turn == 2
        rows, cols = rows[:, ::-1] if half else rows, cols[:, ::-1] if half != self.mirror else cols
        return np.ascontiguousarray(rows), np.ascontiguousarray(cols)

    @property
    def colour(self) -> Matrix:
        """The matrix that maps the colours of a pixel."""
        return _GREY if self.grey else np.eye(3)

    def __call__(self, pixels: Pixels) -> Pixels:
        """Return the view of canonical pixels ``(channels, size, size)``."""
        shown = np.tensordot(_GREY.astype(pixels.dtype), pixels, 1) if self.grey else pixels
        shown = _rotated(shown, self.rotation) if self.rotation else shown
        shown = np.rot90(shown, self.turn, axes=(1, 2)) if self.turn else shown
        shown = shown[..., ::-1] if self.mirror else shown
        size = pixels.shape[-1]
        if self.top or self.bottom:
            shown = _trim(size, self.top, self.bottom).astype(pixels.dtype) @ shown
        if self.left or self.right:
            shown = shown @ _trim(size, self.left, self.right).T.astype(pixels.dtype)
        return np.ascontiguousarray(shown)

    def __str__(self) -> str:
        parts = [f"rotated by {self.rotation:g} degrees"] if self.rotation else []
        parts += [("", "turned by 90 degrees", "turned by 180 degrees", "turned by 270 degrees")[self.turn]]
        parts += ["mirrored"] if self.mirror else []
        parts += ["in grey"] if self.grey else []
        edges = [getattr(self, name) for name in _EDGES]
        if any(edges) and len(set(edges)) == 1:
            parts.append(f"trimmed by {_percent(edges[0])} on all sides")
        elif any(edges):
            trimmed = (f"{_percent(edge)} at the {name}" for name, edge in zip(_EDGES, edges, strict=True) if edge)
            parts.append(f"trimmed by {', '.join(trimmed)}")
        return ", ".join(part for part in parts if part) or "as it is"

    def to_json(self) -> dict[str, Any]:
        """Return what differs from the identity, as JSON values."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}

    @staticmethod
    def from_json(data: Any) -> View:
        """Read a view from a JSON object."""
        names = {f.name for f in fields(View)}
        if not isinstance(data, dict):
            raise InputError(f'a view is {data!r}, not an object such as {{"mirror": true}}')
        unknown = data.keys() - names
        if unknown:
            raise InputError(f"a view has no {', '.join(sorted(map(str, unknown)))}; it has {', '.join(sorted(names))}")
        return View(**data)


IDENTITY = View()


def _percent(part: float) -> str:
    return f"{100 * part:g} %"


@lru_cache(maxsize=64)
def _trim(size: int, before: float, after: float) -> Matrix:
    """Return the matrix that cuts off both ends and enlarges the rest to ``size``."""
    first, last = round(size * before), size - round(size * after)
    trimmed = np.zeros((size, size))
    trimmed[:, first:last] = axes.resize(last - first, size)
    return trimmed


def _rotated(pixels: Pixels, degrees: float) -> Pixels:
    """Rotate counter-clockwise about the centre; corners that were outside the image are black."""
    from scipy.ndimage import affine_transform

    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    inverse = np.array([[cosine, sine], [-sine, cosine]])  # of (row, column), whose row axis points down
    centre = (pixels.shape[-1] - 1) / 2
    offset = centre - inverse @ np.array([centre, centre])
    turned = [affine_transform(channel, inverse, offset, order=1, mode="constant") for channel in pixels]
    return np.stack(turned).astype(pixels.dtype)
