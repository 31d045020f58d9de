"""Find the shortest change that flips enough bits of a plain hash, by linearising the hash.

Near an image the margins are ``g + J d``, d a change of the core (an isometry of the change of the pixels). Of all d
that push a set of k bits past the boundary by a confidence c, the shortest is a non-negative combination of those
bits' gradients: a problem of k unknowns, solved exactly. The cheapest bits form the set, c is the largest that the
budget allows, and the hash is then linearised again at the result. The cost is one gradient per bit and round. Sign or
normalised gradient steps need up to twice the l2 (docs/results/attacks.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from scipy.linalg import solve_triangular
from scipy.optimize import nnls

from dualshield.attacks.l2_ball import project
from dualshield.attacks.objective import nearest_view
from dualshield.attacks.victim import Victim
from dualshield.attacks.viewed import behind
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images.eight_bit import to_8bit

Floats = npt.NDArray[np.float64]
Bits = npt.NDArray[np.intp]

SPARE_BITS = 2
HALVINGS = 12
SWAPS = 8
# With several trials: how often each is linearised, on average, and the distance that is far enough.
ROUNDS_PER_TRIAL = 2
ENOUGH = 1.05


def flip(victim: Victim, query: torch.Tensor, l2: float, rounds: int) -> torch.Tensor:
    """Return the perturbation within the budget that flips the most bits of the plain hash, in one view of the query.

    Of several views of the reference it leaves the nearest one, which may be another one in each round.
    """
    view, known = victim.way.view, victim.way.level.codes
    hash_ = behind(victim.hash, view)
    front_end = hash_.front_end
    clean = front_end.core(query)
    flips = min(hash_.bits, hash_.max_distance + 1 + SPARE_BITS)
    best = delta = torch.zeros_like(query)
    most = -1
    signs = victim.signs
    for _ in range(rounds):
        core = front_end.core(query + delta)
        margins, jacobian = _linearise(hash_, core)
        if not jacobian.isfinite().all():
            break  # the hash cannot be linearised here
        if len(known) > 1:
            signs = nearest_view(margins[None], victim.view_signs)
        jacobian = jacobian * signs[:, None]
        at_query = margins * signs - jacobian @ (core - clean).flatten()
        sides = signs.cpu().numpy() if hash_.is_balanced else None
        problem = _LeastNorm(_gram(jacobian), _floats(at_query), flips, sides)
        weights = torch.from_numpy(problem.within(l2)).to(jacobian)
        delta = project(query, -front_end.lift((weights @ jacobian).reshape(core.shape)), l2)
        flipped = int((victim.plain_code(to_8bit(query + delta), view) ^ known).sum(-1).min())
        if flipped > most:
            best, most = delta, flipped
        if most >= flips:
            break
    return best


def flip_all(trials: Sequence[Victim], query: torch.Tensor, l2: float) -> torch.Tensor:
    """Return a perturbation within the budget that moves a plain hash away in all trials, the nearest one each time."""
    steps = ROUNDS_PER_TRIAL * len(trials)
    delta = torch.zeros_like(query)
    for _ in range(steps):
        image = to_8bit(query + delta)
        distances = [trial.plain_distance(image) / trial.boundary for trial in trials]
        nearest = min(range(len(trials)), key=distances.__getitem__)
        if distances[nearest] > ENOUGH:
            break
        own = flip(trials[nearest], query + delta, l2 / steps**0.5, 1)
        delta = project(query, delta + own, l2)
    return delta


def _linearise(hash_: PerceptualHash, core: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the margins at a core, and the gradient of each margin."""
    variable = core[None].detach().requires_grad_()
    margins = hash_.network(hash_.front_end.expansion().to(core.device)(variable))[0]
    rows = [torch.autograd.grad(margin, variable, retain_graph=True)[0].flatten() for margin in margins]
    return margins.detach(), torch.stack(rows)


def _gram(jacobian: torch.Tensor) -> Floats:
    """Return the Gram matrix of the gradients, precise enough for a Cholesky factor with a small ridge."""
    gram = _floats(jacobian @ jacobian.T)
    try:
        _root(gram)
    except np.linalg.LinAlgError:
        # If there are more bits than core values, the matrix is singular, and single precision makes it indefinite.
        rows = _floats(jacobian)
        return rows @ rows.T
    return gram


def _root(gram: Floats) -> Floats:
    """Return the Cholesky factor with a small ridge; contradictory gradients then lead to very long changes."""
    ridge = 1e-9 * np.trace(gram) / len(gram) + 1e-30
    return np.linalg.cholesky(gram + ridge * np.eye(len(gram)))


def _floats(tensor: torch.Tensor) -> Floats:
    return tensor.double().cpu().numpy()


class _LeastNorm:
    """Minimise ``||J^T w||`` subject to ``at_query - J J^T w <= -confidence`` on the ``flips`` cheapest bits."""

    def __init__(self, gram: Floats, at_query: Floats, flips: int, sides: Floats | None) -> None:
        self.gram = gram
        self.at_query = at_query
        self.flips = flips
        self.sides = sides
        # If a hash compares with its median, the gradient of the bit at the median vanishes.
        self.lengths = np.sqrt(np.diag(gram)).clip(1e-6 * np.sqrt(np.diag(gram).max()) + 1e-30)

    def within(self, l2: float) -> Floats:
        """Return the weights for the largest confidence that the budget allows."""
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
            chosen = self._cheapest(missing - self.gram @ weights)  # includes bits that flip as a side effect
        return best, least

    def _cheapest(self, missing: Floats) -> Bits:
        order = np.argsort(missing / self.lengths)
        if self.sides is None:
            return order[: self.flips]
        # Take as many ones as zeros; otherwise the median moves along with the bits.
        half = (self.flips + 1) // 2
        return np.concatenate([order[self.sides[order] > 0][:half], order[self.sides[order] < 0][:half]])

    def _push(self, chosen: Bits, missing: Floats) -> tuple[Floats, float]:
        """Return weights and length of the shortest change that pushes the chosen bits; infinite length if none."""
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
