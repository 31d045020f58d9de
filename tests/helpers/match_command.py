"""``dualshield match`` with few draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

CHEAP = ("--n", 200, "--n0", 20)
Match = Callable[..., dict[str, Any]]
