"""The names that parameters and results use for the parts of smoothing."""

from __future__ import annotations

from typing import Literal

Method = Literal["exact", "votes"]
ReferenceMode = Literal["code", "bank", "paired"]
NoiseName = Literal["linear", "clipped", "clipped-limit"]
Origin = Literal["secret", "seeded"]
