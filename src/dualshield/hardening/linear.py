"""Hardening a hash that is linear up to its median (PDQ), to the optimum and in a second.

Its coefficients are ``c = L Y L^T`` of the luma Y, a bit is ``c_i > median``. Of all changes with the same effect on
``c``, the least visible one (smallest ``||delta / threshold||``) is ``threshold^2 * (L^T A L)`` with a 16 x 16 matrix
A. So half a million pixels reduce to 256 unknowns y with ``c = c_0 + R y`` and visibility ``||y||``, where
``R R^T = G`` is the effect of the threshold map on pairs of coefficients.

Under noise of deviation sigma the bit i flips with probability ``Phi(-z_i / sigma)``, z_i its margin in units of
its own noise. We look for the largest sigma at which the expected number of flips can be kept well below the
matching distance within the budget: the radius grows in proportion to it, and bits that cost too much are left alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.linalg import solve_triangular
from scipy.optimize import minimize
from scipy.special import ndtr

from dualshield.hardening.carrier import Carrier
from dualshield.hardening.visibility import Budget, noticeable
from dualshield.hashes.contract import PerceptualHash

Floats = npt.NDArray[np.float64]

# Expected flips, in matching distances: three deviations of their spread below it, the votes are unanimous.
FLIPS = 0.66
ROUNDS = 4
FULL_SEARCH, NEARBY_SEARCH = 9, 6
PEAK_TOLERANCE = 1.1  # what is left above the peak is cut off
SQRT_2PI = float(np.sqrt(2 * np.pi))


def perturb(
    pixels: torch.Tensor, hash_: PerceptualHash, budget: Budget, threshold: torch.Tensor, guess: Guess | None = None
) -> torch.Tensor:
    """The perturbation ``(3, 512, 512)`` of canonical pixels, within the budget."""
    guess = guess or Guess()
    weight = threshold.double().numpy().clip(1e-6) ** 2
    norm = budget.norm
    delta = torch.zeros_like(pixels)
    for _ in range(ROUNDS):
        luma = _Problem(hash_, pixels, weight).solve(norm, guess)
        # The same shift of all three colours: luma changes, hues do not.
        delta = torch.from_numpy(luma).float().expand(3, -1, -1)
        peaks = np.abs(luma) / (budget.peak * np.sqrt(weight))
        shrink = budget.excess(pixels, (pixels + delta).clamp(0, 1))
        if shrink == 1.0 and peaks.max() <= PEAK_TOLERANCE:
            break
        # Where the change is too high it is made dearer, and the rest of the image takes over.
        weight = weight / np.sqrt(np.maximum(peaks, 1.0))
        norm *= 0.98 * shrink if shrink < 1 else 1.0
    limit = budget.peak * threshold
    delta = delta.clamp(-limit, limit)
    while (shrink := budget.excess(pixels, (pixels + delta).clamp(0, 1))) < 1:
        delta = 0.99 * shrink * delta
    return delta.contiguous()


@dataclass
class Guess:
    """Where to look for sigma and for the (logarithmic) price; problems that differ little share it."""

    sigmas: tuple[float, float] = (0.02, 50.0)
    price: float | None = None
    halvings: int = FULL_SEARCH

    @property
    def prices(self) -> tuple[float, float]:
        return (-20.0, 4.0) if self.price is None or self.halvings == FULL_SEARCH else (self.price - 3, self.price + 3)

    def learn(self, sigma: float) -> None:
        """From now on look nearby."""
        self.sigmas = (sigma / 1.5, sigma * 1.5)
        self.halvings = NEARBY_SEARCH


@dataclass(frozen=True, eq=False)
class _Problem:
    hash: PerceptualHash
    pixels: torch.Tensor
    weight: Floats  # the squared threshold of each pixel

    @cached_property
    def root(self) -> Floats:
        """R, the Cholesky factor of G."""
        rows, cols = self.hash.front_end.rows, self.hash.front_end.cols
        n, m = len(rows), len(cols)
        row_pairs = (rows[:, None] * rows[None]).reshape(n * n, -1)
        col_pairs = (cols[:, None] * cols[None]).reshape(m * m, -1)
        pairs = (row_pairs @ self.weight @ col_pairs.T).reshape(n, n, m, m)
        gram = pairs.transpose(0, 2, 1, 3).reshape(n * m, n * m)
        ridge = 1e-9 * np.trace(gram) / len(gram)
        root: Floats = np.linalg.cholesky(gram + ridge * np.eye(len(gram)))
        return root

    @cached_property
    def luma_gain(self) -> float:
        """What a grey change of one does to the luma."""
        return float(self.hash.front_end.colour.sum())

    @cached_property
    def margins(self) -> tuple[Floats, Floats]:
        """Slopes and values of the margins over y in units of their noise, turned so that positive is stable."""
        front_end = self.hash.front_end
        coefficients = front_end(self.pixels)[0].double().flatten().numpy()
        noise = np.outer(np.linalg.norm(front_end.rows, axis=1), np.linalg.norm(front_end.cols, axis=1)).ravel()
        noise = noise * np.linalg.norm(front_end.colour)
        middle = len(coefficients) // 2
        boundary = np.sort(coefficients)[middle - 1 : middle + 1].mean()
        side = np.where(coefficients > boundary, 1.0, -1.0)
        slopes = self.luma_gain * self.root * (side / noise)[:, None]
        return slopes, side * (coefficients - boundary) / noise

    def flips(self, y: Floats, sigma: float) -> float:
        """Expected number of flipped bits under noise."""
        slopes, values = self.margins
        return float(ndtr(-(values + slopes @ y) / sigma).sum())

    def solve(self, norm: float, guess: Guess) -> Floats:
        """The grey change ``(512, 512)`` of at most this visibility that bears the largest sigma."""
        best = np.zeros(len(self.root))
        allowed = FLIPS * self.hash.max_distance
        low, high = guess.sigmas
        for _ in range(guess.halvings):
            sigma = float(np.sqrt(low * high))
            y = self._fewest_flips(sigma, norm, best, guess)
            if self.flips(y, sigma) <= allowed:
                low, best = sigma, y
            else:
                high = sigma
        if not best.any():
            best = self._fewest_flips(low, norm, best, guess)
        guess.learn(low)
        weights = solve_triangular(self.root.T, best, lower=False)
        front_end = self.hash.front_end
        shape = (len(front_end.rows), len(front_end.cols))
        change: Floats = self.weight * (front_end.rows.T @ weights.reshape(shape) @ front_end.cols)
        return change

    def _fewest_flips(self, sigma: float, norm: float, start: Floats, guess: Guess) -> Floats:
        """Least expected flips with ``||y|| <= norm``, by the price of visibility that just exhausts the budget."""
        slopes, values = self.margins

        def priced(y: Floats, price: float) -> tuple[float, Floats]:
            z = (values + slopes @ y) / sigma
            density = np.exp(-z * z / 2) / SQRT_2PI
            return float(ndtr(-z).sum() + price * (y @ y)), 2 * price * y - slopes.T @ density / sigma

        y = start
        low, high = guess.prices
        for _ in range(guess.halvings):
            middle = (low + high) / 2
            options: dict[str, Any] = {"maxiter": 60}
            y = minimize(priced, y, args=(float(np.exp(middle)),), jac=True, method="L-BFGS-B", options=options).x
            if np.linalg.norm(y) > norm:
                low = middle
            else:
                high = middle
        guess.price = middle
        length = float(np.linalg.norm(y))
        return y * min(1.0, norm / length) if length else y


def perturb_through(
    pixels: torch.Tensor,
    hash_: PerceptualHash,
    budget: Budget,
    *,
    opacity: torch.Tensor | None = None,
    carrier: Carrier | None = None,
) -> torch.Tensor:
    """``perturb``, and once more with what the published file (``carrier``) makes of it; the better as published."""
    threshold = noticeable(pixels, opacity)
    guess = Guess()
    first = perturb(pixels, hash_, budget, threshold, guess)
    if carrier is None:
        return first
    published = carrier(first)
    second = perturb((published - first).clamp(0, 1), hash_, budget, threshold, guess)
    return min((first, published), (second, carrier(second)), key=lambda d: _flips(d[1], hash_, guess.sigmas[1]))[0]


def _flips(pixels: torch.Tensor, hash_: PerceptualHash, sigma: float) -> float:
    problem = _Problem(hash_, pixels, np.ones(pixels.shape[-2:]))
    return problem.flips(np.zeros(hash_.bits), sigma)
