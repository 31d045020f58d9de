"""The matching threshold of hashes that have none of their own."""

from __future__ import annotations

DEFAULT_THRESHOLD = 0.2
