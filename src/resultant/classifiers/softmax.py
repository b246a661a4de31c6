"""Logistic regression near its optimum, for a solver of scikit-learn to start from.

scikit-learn's softmax takes ten times as long as this one in single precision, and its L-BFGS in
the coordinates of the rows several times the iterations. NumPy and SciPy alone: the process that
fits the references does without torch.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from scipy import linalg, optimize

from resultant._core import chunks

# Largest slope below which values of the loss in float32 no longer tell which of two points is
# lower; slopes still do.
VALUES = 5e-6


class SoftmaxFit:
    r"""Multinomial logistic regression of rows, for any strength of the penalty.

    The loss is scikit-learn's: :math:`\sum_iw_i\ell_i/\sum_iw_i+\|W\|^2/(2C\sum_iw_i)`, the
    intercepts are not penalized. The solver is L-BFGS in coordinates in which the Hessian of equal
    probabilities is the identity; Anderson's mixing of slopes ends it.

    Args:
        x: Rows [n, p] in float32.
        y: Classes [n].
        balanced: Weigh the classes equally.
    """

    def __init__(self, x: np.ndarray, y: np.ndarray, balanced: bool) -> None:
        self.classes, index, count = np.unique(y, return_inverse=True, return_counts=True)
        self.index, self.K = index, len(self.classes)
        # The last column is that of the intercepts.
        self.x = np.concatenate([x, np.ones((len(x), 1), x.dtype)], 1)
        weights = (1 / count)[index] if balanced else np.ones(len(x))
        self.weights = (weights / weights.sum()).astype(x.dtype)
        self.gram = (self.x.T @ (self.weights[:, None] * self.x)).astype(np.float64)
        # Two classes have one row of weights in scikit-learn, whose penalty is half of that of two.
        self.penalty = (2.0 if self.K == 2 else 1.0) / len(x)

    def solve(
        self, cost: float, tolerance: float, iterations: int, start: np.ndarray | None = None
    ) -> np.ndarray:
        """Fit the classifier.

        Args:
            cost: C of scikit-learn, the inverse strength of the penalty.
            tolerance: Largest slope of the loss in a weight at which the solver stops.
            iterations: The most iterations.
            start: Weights [K, p + 1] to start from.

        Returns:
            Weights [K, p + 1] of the ``classes``; the last column are the intercepts.
        """
        l2 = np.full(len(self.gram), self.penalty / cost)
        l2[-1] = 0
        curvature = (self.K - 1) / self.K**2
        root = np.linalg.cholesky(curvature * self.gram + np.diag(l2 + 1e-9))
        back = linalg.solve_triangular(root, np.eye(len(root)), lower=True).astype(self.x.dtype)
        l2 = l2.astype(self.x.dtype)
        first = np.zeros((self.K, len(root))) if start is None else start @ root
        slopes = [np.inf]

        def loss(v: np.ndarray) -> tuple[float, np.ndarray]:
            theta = v.reshape(self.K, -1).astype(self.x.dtype) @ back
            value, slope = self._loss(theta)
            slope += l2 * theta
            slopes.append(float(np.abs(slope).max()))
            value += float((l2 * theta**2).sum(dtype=np.float64)) / 2
            return value, (slope @ back.T).ravel().astype(np.float64)

        def stop(_: np.ndarray) -> None:
            if slopes[-1] <= max(tolerance, VALUES):
                raise StopIteration

        options = {"maxiter": iterations, "ftol": 1e-8, "gtol": 0.0, "maxls": 5}
        v = optimize.minimize(
            loss, first.ravel(), jac=True, method="L-BFGS-B", callback=stop, options=options
        ).x
        if tolerance < slopes[-1] <= 2 * VALUES:
            # It may fail on what float32 leaves: the start is then the result of L-BFGS.
            with suppress(optimize.NoConvergence, ValueError):
                v = optimize.anderson(
                    lambda v: -loss(v)[1],
                    v,
                    # The Hessian is about the identity.
                    alpha=1.0,
                    M=15,
                    line_search=None,
                    maxiter=iterations,
                    f_tol=tolerance,
                    tol_norm=lambda _: slopes[-1],
                )
        return v.reshape(self.K, -1) @ back.astype(np.float64)

    def _loss(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the mean cross-entropy and its slope [K, p + 1]."""
        value, slope = 0.0, np.zeros_like(theta)
        for rows in chunks.row_slices(len(self.x), 4 * self.K, chunks.MATRIX_BYTES):
            x, own, w = self.x[rows], self.index[rows], self.weights[rows]
            # One column per row of x: NumPy reduces columns faster than rows.
            s, columns = theta @ x.T, np.arange(len(x))
            s -= s.max(0)
            mine = s[own, columns]
            e = np.exp(s, out=s)
            total = e.sum(0)
            value += float(w.astype(np.float64) @ (np.log(total) - mine))
            e *= w / total
            e[own, columns] -= w
            slope += e @ x
        return value, slope
