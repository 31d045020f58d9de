from __future__ import annotations

import pytest
import torch


@pytest.fixture(scope="module")
def photo() -> torch.Tensor:
    """Smooth waves, edges and texture in colour, reaching both ends of [0,1]."""
    y, x = torch.meshgrid(torch.linspace(0, 1, 512), torch.linspace(0, 1, 512), indexing="ij")
    waves = torch.stack([torch.sin(9 * x + 4 * y), torch.cos(7 * y * x), torch.sin(11 * y - 5 * x)]) / 2 + 0.5
    edges = ((x * 8).floor() + (y * 8).floor()) % 2
    texture = torch.rand(3, 512, 512, generator=torch.Generator().manual_seed(3))
    return (0.6 * waves + 0.25 * edges + 0.15 * texture).clamp(0, 1)
