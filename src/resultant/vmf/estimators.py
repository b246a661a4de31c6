"""The normaliser, the mean resultant length, and estimators of the concentration."""

import math

import torch
from torch import Tensor

from resultant._core import validation
from resultant._core.validation import Number
from resultant.special.bessel import evaluate
from resultant.special.ratio import ratio, ratio_integral, ratio_inverse

# Estimators that need only the mean length, and those that need the number of vectors too.
OF_LENGTH = ("mle", "proco", "banerjee")
OF_SAMPLE = ("corrected", "loo")
ESTIMATORS = (*OF_LENGTH, *OF_SAMPLE)

# The rounding of a mean of float64 unit vectors: it has no direction if it is not longer, and is
# that of equal vectors if 1 - R is not larger.
ROUNDING = 64 * torch.finfo(torch.float64).eps


def log_normalizer(p: int, kappa: Number, *, validate_args: bool | None = None) -> Tensor:
    r"""The logarithm of the normaliser :math:`Z_p(\kappa)` of a vMF distribution.

    This is the log area of the sphere plus :math:`\int_0^\kappa R_\nu(x)\,dx`, :math:`\nu=p/2-1`
    (eq:score-integral).

    Args:
        p, kappa: Dimension >= 2 and concentration >= 0.

    Returns:
        A tensor of the shape of ``kappa``.

    Example:
        >>> round(float(log_normalizer(3, 2.0)), 6)  # log(4 pi sinh(x)/x) at x = 2
        3.126244
    """
    p = validation.dimension(p)

    def log_area_and_integral(nu: float, kappa: Tensor) -> Tensor:
        return log_area(p) + ratio_integral(nu, kappa.new_zeros(()), kappa)

    return evaluate(log_area_and_integral, p / 2 - 1, validate_args, kappa=kappa)


def mean_resultant(p: int, kappa: Number, *, validate_args: bool | None = None) -> Tensor:
    r"""The mean resultant length :math:`A_p(\kappa) = R_{p/2-1}(\kappa)` of a vMF distribution.

    Args:
        p, kappa: Dimension >= 2 and concentration >= 0.

    Returns:
        A tensor of the shape of ``kappa``, in [0, 1).

    Example:
        >>> round(float(mean_resultant(3, 2.0)), 6)  # coth(x) - 1/x at x = 2
        0.537315
    """
    return evaluate(ratio, validation.dimension(p) / 2 - 1, validate_args, kappa=kappa)


def concentration(
    p: int,
    R: Number,
    estimator: str = "mle",
    *,
    n: Number | None = None,
    validate_args: bool | None = None,
) -> Tensor:
    r"""Estimate the concentration from a mean resultant length.

    ``"mle"`` solves :math:`A_p(\kappa) = R`. ``"proco"`` is :math:`pR/(1-R^2)`, and ``"banerjee"``
    is :math:`R(p-R^2)/(1-R^2)` (Banerjee et al. 2005). Two correct R for the number n of vectors:
    ``"corrected"`` solves :math:`A_p(\kappa)^2 = \max\{(nR^2-1)/(n-1), 0\}`, the unbiased square
    (eq:unbiased-resultant-square), for the concentration around the true direction; ``"loo"``
    solves :math:`A_p(\kappa) = (nR^2-1)/\sqrt{n(n-2)R^2+1}`, nearly the mean cosine of a vector and
    the mean of the others, for that around the fitted direction, as a new vector sees it.

    Args:
        p, R: Dimension >= 2, and mean resultant length in [0, 1].
        estimator: ``"mle"``, ``"proco"``, ``"banerjee"``, ``"corrected"`` or ``"loo"``.
        n: Number of vectors >= 1 for ``"corrected"`` and ``"loo"``, which keep R for n = 1.

    Returns:
        A tensor of the broadcast shape of ``R`` and ``n``; infinite at R = 1.

    Example:
        >>> round(float(concentration(8, 0.5, "proco")), 6)  # 8 * 0.5 / (1 - 0.5**2)
        5.333333
        >>> round(float(concentration(10_000, 0.0224, n=2000)), 1)  # nearly all of R is chance
        224.1
        >>> round(float(concentration(10_000, 0.0224, "corrected", n=2000)), 1)
        13.3
    """
    require_estimator(estimator)
    if estimator in OF_SAMPLE and n is None:
        raise ValueError(f"expected n, the number of vectors, for {estimator!r}, got None")
    if n is not None and validation.should_validate(validate_args, n):
        validation.require_in_range("n", n, 1.0, rule=">= 1 and finite")

    def estimate(nu: float, R: Tensor) -> Tensor:
        number = None if n is None else torch.as_tensor(n, dtype=R.dtype, device=R.device)
        return concentration_at(p, R, estimator, number)

    return evaluate(estimate, validation.dimension(p) / 2 - 1, validate_args, 1.0, R=R)


def require_estimator(estimator: str, among: tuple[str, ...] = ESTIMATORS) -> None:
    """Raise unless the name is that of an estimator."""
    if estimator not in among:
        raise ValueError(f"expected estimator to be one of {among}, got {estimator!r}")


def concentration_at(p: int, R: Tensor, estimator: str, n: Tensor | None = None) -> Tensor:
    """Compute `concentration`."""
    if estimator in OF_SAMPLE:
        assert n is not None
        R = corrected_length(R, n, estimator)
    if estimator in ("mle", *OF_SAMPLE):
        return ratio_inverse(p / 2 - 1, R)
    numerator = p * R if estimator == "proco" else R * (p - R * R)
    return numerator / ((1 - R) * (1 + R))


def corrected_length(R: Tensor, n: Tensor, estimator: str) -> Tensor:
    """Return the mean length that ``corrected`` or ``loo`` put in place of R; R for n <= 1."""
    several = n > 1
    n = torch.where(several, n, 2.0)
    square = unbiased_square(R, n)
    # Zero with a zero gradient where the square is not positive.
    length = torch.where(square > 0, torch.where(square > 0, square, 1.0).sqrt(), 0.0)
    if estimator == "loo":
        # U/sqrt(U + (1 - U)/(n - 1)), written so that R = 1 has 1 without rounding.
        square = length * length
        length = square / (square + (1 - length) * (1 + length) / (n - 1)).sqrt()
    return torch.where(several, length, R)


def unbiased_square(R: Tensor, n: Tensor) -> Tensor:
    r"""Compute :math:`(nR^2-1)/(n-1)`, whose expectation is A^2; negative where R^2 < 1/n."""
    return R * R - (1 - R) * (1 + R) / (n - 1)


def log_area(p: int) -> float:
    """The logarithm of the area of the unit sphere in dimension p."""
    return math.log(2) + p / 2 * math.log(math.pi) - math.lgamma(p / 2)


def fit_length(length: Tensor, weight: Tensor) -> Tensor:
    """Compute the mean lengths R [...] from the lengths [...] of sums and from weights [...]."""
    R = length / torch.where(weight > 0, weight, 1.0)
    # NaN stays NaN. The mean of rounded unit vectors may be longer than one.
    return R.masked_fill((R <= ROUNDING) | (weight <= 0), 0.0).clamp_max(1)


def fit_direction(total: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Compute mu [..., p] and R [...] from float64 sums and weights of unit vectors; sums that
    cancel up to `ROUNDING`, and no weight, have R = 0 and mu = e_1, without a gradient."""
    length = torch.linalg.vector_norm(total, dim=-1)
    R = fit_length(length, weight)
    mu = total / length.masked_fill(R == 0, math.inf).unsqueeze(-1)
    mu[..., 0].masked_fill_(R == 0, 1.0)
    return mu, R


def fit_kappa(p: int, R: Tensor, estimator: str, n: Tensor | None = None) -> Tensor:
    """Fit the concentration to R, the mean length of n vectors; it is finite also at R = 1."""
    # Numbers are written out: torch.compile may turn a constant into a symbol, and trace twice.
    if estimator == "proco":
        return concentration_at(p, R, estimator).clamp_max(1e5)
    if estimator in OF_SAMPLE:
        assert n is not None
        R = corrected_length(R, n, estimator)
    R = R.clamp_max(1 - 64 * torch.finfo(R.dtype).eps)
    return concentration_at(p, R, "banerjee" if estimator == "banerjee" else "mle").clamp_max(
        2.0**60
    )
