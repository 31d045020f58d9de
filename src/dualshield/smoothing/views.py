"""The views of a deployment: how each reference and each query is looked at.

A pair matches if any view of the query matches any view of the reference. Views of the reference cost one more code at
enrollment. Views of the query cost draws, so they are tried in their order, and a proven match ends the search.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dualshield._common.checks import PATH, require
from dualshield._common.files import read_limited
from dualshield.errors import InputError
from dualshield.images.views import IDENTITY, View

MAX_REFERENCE_VIEWS, MAX_QUERY_VIEWS = 256, 32
MAX_BYTES = 2**20
PRESETS = ("none", "standard", "thorough")


@dataclass(frozen=True)
class Views:
    """The views of references and of queries; the first of each is the image as it is.

    >>> Views((IDENTITY, View(mirror=True)))
    <Views: 2 of the reference, 1 of the query>
    """

    reference: tuple[View, ...] = (IDENTITY,)
    query: tuple[View, ...] = (IDENTITY,)

    def __post_init__(self) -> None:
        sides = (("reference", self.reference, MAX_REFERENCE_VIEWS), ("query", self.query, MAX_QUERY_VIEWS))
        for side, views, most in sides:
            if not isinstance(views, tuple) or not all(isinstance(view, View) for view in views):
                raise InputError(f"the views of the {side} are not a tuple of View")
            if not 1 <= len(views) <= most:
                raise InputError(f"{len(views)} views of the {side}; give 1 to {most}")
            if not views[0].is_identity:
                raise InputError(f"the first view of the {side} is {views[0]}; it must be the image as it is")
            if len(set(views)) < len(views):
                twice = next(view for view in views if views.count(view) > 1)
                raise InputError(f"the {side} is looked at twice {twice}; leave one out")
        for view in self.query:
            if not view.is_separable:
                raise InputError(f"a query cannot be looked at {view}: only trims and mirrors are linear in its axes")

    @property
    def is_none(self) -> bool:
        """Whether images are looked at as they are only."""
        return len(self.reference) == len(self.query) == 1

    def __repr__(self) -> str:
        return f"<Views: {len(self.reference)} of the reference, {len(self.query)} of the query>"

    def to_json(self) -> dict[str, list[dict[str, Any]]]:
        """Return the views as JSON values."""
        return {side: [view.to_json() for view in getattr(self, side)] for side in ("reference", "query")}

    @staticmethod
    def from_json(data: Any) -> Views:
        """Read views from a JSON object with the lists ``reference`` and ``query``."""
        if not isinstance(data, dict) or set(data) != {"reference", "query"}:
            raise InputError('views are an object with the two lists "reference" and "query"')
        for side, views in data.items():
            most = MAX_REFERENCE_VIEWS if side == "reference" else MAX_QUERY_VIEWS
            if not isinstance(views, list) or len(views) > most:
                raise InputError(f"the views of the {side} are not a list of at most {most}")
        return Views(*(tuple(map(View.from_json, data[side])) for side in ("reference", "query")))

    @staticmethod
    def load(file: str | os.PathLike[str]) -> Views:
        """Read a JSON file of views."""
        require("views", file, *PATH)
        raw = read_limited(Path(file), MAX_BYTES)
        try:
            return Views.from_json(json.loads(raw))
        except InputError as error:
            why = str(error)
        except (ValueError, RecursionError, OverflowError) as error:
            why = f"it is not JSON ({error})"
        raise InputError(
            f"{os.fspath(file)!s} is not a file of views: {why}; correct it, or use a preset such as standard"
        )


NO_VIEWS = Views()
