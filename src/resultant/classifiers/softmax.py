"""Linear classifiers, and the fit of logistic regression by a preconditioned L-BFGS."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from resultant._core import chunks
from resultant._core.arrays import exponentials
from resultant._core.background import require_process

# Pairs of steps that L-BFGS remembers, the decrease that it asks for, and the shortest step.
MEMORY = 10
DECREASE = 1e-4
SHORTEST = 1e-6


@dataclass(frozen=True)
class Linear:
    """A linear classifier: weights [C, p] and intercepts [C], -inf for a class without rows."""

    weight: Tensor
    bias: Tensor

    @staticmethod
    def of(weight: Tensor, bias: Tensor, classes: Tensor, num_classes: int) -> Linear:
        """Return the classifier in float32 of the ``classes`` [K] among C."""
        w = weight.new_zeros(num_classes, weight.shape[1], dtype=torch.float32)
        b = weight.new_full((num_classes,), -torch.inf, dtype=torch.float32)
        w[classes], b[classes] = weight.float(), bias.float()
        return Linear(w, b)

    def __call__(self, x: Tensor) -> Tensor:
        """Score rows [n, p]."""
        return torch.addmm(self.bias.to(x), x, self.weight.T.to(x))

    def normalized(self, exponent: float, center: Tensor) -> Linear:
        """Divide weights by a power of their lengths; all classes score zero at ``center`` [p]."""
        length = self.weight.norm(dim=1, keepdim=True)
        weight = self.weight / torch.where(length > 0, length, 1.0) ** exponent
        bias = torch.where(self.bias > -torch.inf, -weight @ center, -torch.inf)
        return Linear(weight, bias)


class SoftmaxFit:
    r"""Multinomial logistic regression of rows, for any strength of the penalty.

    The loss is scikit-learn's: :math:`\sum_iw_i\ell_i/\sum_iw_i+\|W\|^2/(2C\sum_iw_i)`, the
    intercepts are not penalized. The solver is L-BFGS in coordinates in which the Hessian of equal
    probabilities is the identity; those of the rows would take several times the iterations.

    Args:
        x: Rows [n, p] in float32.
        y: Classes [n].
        num_classes: C.
        balanced: Weigh the classes equally.
    """

    def __init__(self, x: Tensor, y: Tensor, num_classes: int, balanced: bool) -> None:
        self.classes, self.index, count = y.unique(return_inverse=True, return_counts=True)
        self.num_classes, self.K = num_classes, len(self.classes)
        # The last column is that of the intercepts.
        self.x = torch.cat([x, x.new_ones(len(x), 1)], 1)
        weights = x.new_ones(len(x))
        if balanced:
            weights = (len(y) / (self.K * count)).to(x)[self.index]
        self.weights = weights / weights.sum()
        self.gram = (self.x.T @ (self.weights[:, None] * self.x)).double()
        # Two classes have one row of weights in scikit-learn, whose penalty is half of that of two.
        self.penalty = (2.0 if self.K == 2 else 1.0) / len(x)

    def solve(
        self, cost: float, tolerance: float, iterations: int, start: Linear | None = None
    ) -> tuple[Linear, int]:
        """Fit the classifier.

        Args:
            cost: C of scikit-learn, the inverse strength of the penalty.
            tolerance: Largest slope of the loss in a weight at which the solver stops.
            iterations: The most iterations.
            start: A fit of the same classes to start from.

        Returns:
            The classifier, and the number of iterations.
        """
        l2 = self.gram.new_full((len(self.gram),), self.penalty / cost)
        l2[-1] = 0
        curvature = (self.K - 1) / self.K**2
        root = torch.linalg.cholesky(curvature * self.gram + torch.diag(l2 + 1e-9))
        back = torch.linalg.inv(root)
        theta = self.gram.new_zeros(self.K, len(self.gram))
        if start is not None:
            known = torch.cat([start.weight, start.bias[:, None]], 1)[self.classes].double()
            theta = torch.where(known.isfinite(), known, 0.0)

        def loss(v: Tensor) -> tuple[float, Tensor, bool]:
            theta = v @ back
            value, slope = self._loss(theta.to(self.x.dtype))
            value += float((l2 * theta.square()).sum()) / 2
            slope += l2 * theta
            return value, slope @ back.T, bool(slope.abs().max() <= tolerance)

        v, steps = minimize(loss, theta @ root, iterations)
        theta = v @ back
        return Linear.of(theta[:, :-1], theta[:, -1], self.classes, self.num_classes), steps

    def _loss(self, theta: Tensor) -> tuple[float, Tensor]:
        """Return the mean cross-entropy and its slope [K, p + 1] in float64."""
        value, slope = 0.0, torch.zeros_like(theta, dtype=torch.float64)
        for rows in chunks.row_slices(len(self.x), 4 * self.K, chunks.MATRIX_BYTES, self.x.device):
            require_process()
            x, own, w = self.x[rows], self.index[rows, None], self.weights[rows]
            s = x @ theta.T
            s -= s.amax(1, keepdim=True)
            mine = s.gather(1, own)[:, 0]
            e = exponentials(s)
            total = e.sum(1)
            value += float(w.double() @ (total.log() - mine).double())
            e *= (w / total)[:, None]
            e.scatter_add_(1, own, -w[:, None])
            slope += e.T @ x
        return value, slope


def minimize(
    loss: Callable[[Tensor], tuple[float, Tensor, bool]], v: Tensor, iterations: int
) -> tuple[Tensor, int]:
    """Minimize a smooth convex function by L-BFGS.

    Args:
        loss: Function of v that returns its value, its slope, and True to stop.
        v: First guess; unit steps along the slope must be of the right size.
        iterations: The most iterations.

    Returns:
        The minimum and the number of iterations.
    """
    value, slope, done = loss(v)
    memory: deque[tuple[Tensor, Tensor, float]] = deque(maxlen=MEMORY)
    for step in range(iterations):
        if done:
            return v, step
        direction = _direction(slope, memory)
        fall = float((slope * direction).sum())
        length = 1.0
        while True:
            moved = v + length * direction
            new_value, new_slope, done = loss(moved)
            if new_value <= value + DECREASE * length * fall:
                break
            length /= 2
            if length < SHORTEST:
                # The decrease is below rounding.
                return v, step
        s, y = moved - v, new_slope - slope
        bend = float((s * y).sum())
        if bend > 0:
            memory.append((s, y, bend))
        v, value, slope = moved, new_value, new_slope
    return v, iterations


def _direction(slope: Tensor, memory: deque[tuple[Tensor, Tensor, float]]) -> Tensor:
    """Return the product of the negative slope with the inverse Hessian of the remembered steps."""
    d, factors = -slope, []
    for s, y, bend in reversed(memory):
        factors.append(float((s * d).sum()) / bend)
        d = d - factors[-1] * y
    if memory:
        _, y, bend = memory[-1]
        d = d * (bend / float(y.square().sum()))
    for (s, y, bend), factor in zip(memory, reversed(factors), strict=True):
        d = d + (factor - float((y * d).sum()) / bend) * s
    return d
