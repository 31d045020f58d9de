"""The shortest change that flips enough bits of a plain hash, by linearising it.

Near an image the margins are ``g + J d``, d a change of the core (an isometry of the change of the pixels). Of all d
that push a set of k bits past the boundary by a confidence c, the shortest is a non-negative combination of those
bits' gradients: a problem of k unknowns, solved exactly. The cheapest bits form the set, c is the largest that the
budget allows, and the hash is linearised again where that leads. One gradient per bit and round is what it costs;
sign or normalised gradient steps need up to twice the l2 (docs/results/attacks.md).
"""

from __future__ import annotations

from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from scipy.linalg import solve_triangular
from scipy.optimize import nnls

from dualshield.attacks.l2_ball import project
from dualshield.attacks.victim import Victim
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images.eight_bit import to_8bit

Floats = npt.NDArray[np.float64]
Bits = npt.NDArray[np.intp]

SPARE_BITS = 2
HALVINGS = 12
SWAPS = 8


def flip(victim: Victim, query: torch.Tensor, l2: float, rounds: int) -> torch.Tensor:
    """The perturbation within the budget that flips most bits of the plain hash."""
    hash_ = victim.hash
    signs = victim.signs
    front_end = hash_.front_end
    clean = front_end.core(query)
    flips = min(hash_.bits, hash_.max_distance + 1 + SPARE_BITS)
    best = delta = torch.zeros_like(query)
    most = -1
    for _ in range(rounds):
        core = front_end.core(query + delta)
        margins, jacobian = _linearise(hash_, core)
        if not jacobian.isfinite().all():
            break  # there is no linear hash here
        jacobian = jacobian * signs[:, None]
        at_query = margins * signs - jacobian @ (core - clean).flatten()
        sides = signs.cpu().numpy() if hash_.is_balanced else None
        problem = _LeastNorm(_gram(jacobian), _floats(at_query), flips, sides)
        weights = torch.from_numpy(problem.within(l2)).to(jacobian)
        delta = project(query, -front_end.lift((weights @ jacobian).reshape(core.shape)), l2)
        flipped = int((hash_.code(to_8bit(query + delta)) ^ victim.reference.code).sum())
        if flipped > most:
            best, most = delta, flipped
        if most >= flips:
            break
    return best


def _linearise(hash_: PerceptualHash, core: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Margins at the core, and the gradient of each."""
    variable = core[None].detach().requires_grad_()
    margins = hash_.network(hash_.front_end.expansion().to(core.device)(variable))[0]
    rows = [torch.autograd.grad(margin, variable, retain_graph=True)[0].flatten() for margin in margins]
    return margins.detach(), torch.stack(rows)


def _gram(jacobian: torch.Tensor) -> Floats:
    """Products of the gradients, exact enough to have a Cholesky factor behind the ridge."""
    gram = _floats(jacobian @ jacobian.T)
    try:
        _root(gram)
    except np.linalg.LinAlgError:
        # More bits than the core has numbers: single precision makes a singular matrix indefinite.
        rows = _floats(jacobian)
        return rows @ rows.T
    return gram


def _root(gram: Floats) -> Floats:
    """The Cholesky factor; where gradients contradict each other, its ridge makes what they ask for very long."""
    ridge = 1e-9 * np.trace(gram) / len(gram) + 1e-30
    return np.linalg.cholesky(gram + ridge * np.eye(len(gram)))


def _floats(tensor: torch.Tensor) -> Floats:
    return tensor.double().cpu().numpy()


class _LeastNorm:
    """Least ``||J^T w||`` with ``at_query - J J^T w <= -confidence`` on ``flips`` bits of our choice."""

    def __init__(self, gram: Floats, at_query: Floats, flips: int, sides: Floats | None) -> None:
        self.gram = gram
        self.at_query = at_query
        self.flips = flips
        self.sides = sides
        # The gradient of the bit at the boundary itself vanishes for a hash that compares with its median.
        self.lengths = np.sqrt(np.diag(gram)).clip(1e-6 * np.sqrt(np.diag(gram).max()) + 1e-30)

    def within(self, l2: float) -> Floats:
        """The weights of the largest confidence that the budget allows."""
        scale = float(np.sort(np.abs(self.at_query))[self.flips - 1])
        low, high = -scale, 8 * scale
        weights = np.zeros(len(self.at_query))
        for _ in range(HALVINGS):
            confidence = (low + high) / 2
            found, norm = self._solve(confidence)
            if norm <= l2:
                low, weights = confidence, found
            else:
                high = confidence
        return weights

    def _solve(self, confidence: float) -> tuple[Floats, float]:
        missing = self.at_query + confidence
        chosen = self._cheapest(missing)
        best, least = np.zeros(len(missing)), np.inf
        for _ in range(SWAPS):
            weights, norm = self._push(chosen, missing)
            if norm >= least:
                break
            best, least = weights, norm
            chosen = self._cheapest(missing - self.gram @ weights)  # bits that came along by themselves
        return best, least

    def _cheapest(self, missing: Floats) -> Bits:
        order = np.argsort(missing / self.lengths)
        if self.sides is None:
            return order[: self.flips]
        # As many ones as zeros: bits flip in pairs, or the boundary follows them.
        half = (self.flips + 1) // 2
        return np.concatenate([order[self.sides[order] > 0][:half], order[self.sides[order] < 0][:half]])

    def _push(self, chosen: Bits, missing: Floats) -> tuple[Floats, float]:
        """The shortest change that pushes the chosen bits; infinitely long where there is none."""
        weights = np.zeros(len(missing))
        gram = self.gram[np.ix_(chosen, chosen)]
        try:
            root = _root(gram)
            part, _ = nnls(root.T, solve_triangular(root, missing[chosen], lower=True), maxiter=50 * len(gram))
        except (np.linalg.LinAlgError, RuntimeError, ValueError):  # not finite, or out of iterations
            return weights, np.inf
        weights[chosen] = part
        norm = cast(float, np.linalg.norm(root.T @ part))
        return weights, norm if np.isfinite(norm) else np.inf
