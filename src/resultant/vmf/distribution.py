r"""The von Mises-Fisher distribution: density, moments, divergence, samples, fit.

On the unit sphere in dimension p, :math:`f(x) = \exp(\kappa\mu^\top x)/Z_p(\kappa)` with
:math:`Z_p(\kappa) = (2\pi)^{p/2} I_\nu(\kappa)/\kappa^\nu` and :math:`\nu = p/2-1`
(eq:main-exact). The mean is :math:`A_p(\kappa)\mu`, with :math:`A_p = R_\nu`.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.distributions import Distribution, Transform, constraints, kl
from torch.distributions.constraint_registry import biject_to, transform_to

from resultant._core import validation
from resultant._core.arrays import Weights, float64_weights, shape_of, unit_vector
from resultant._core.limits import DOUBLE
from resultant._core.modes import distributions_validate
from resultant._core.validation import COMPUTE_DTYPE, Check, Number, as_dtype
from resultant.special import ratio
from resultant.vmf.angle import angle
from resultant.vmf.estimators import fit_direction, log_area


def _by_default(validate_args: Check) -> Check:
    """Return the choice of the user, or of torch.distributions as a whole."""
    return False if validate_args is None and not distributions_validate() else validate_args


# Beyond it 1 - R, by which entropy and densities are computed, is that of 1.3e140.
LARGEST_CONCENTRATION = DOUBLE.concentration


class VonMisesFisher(Distribution):
    r"""The von Mises-Fisher distribution on the unit sphere, as a ``torch.distributions`` class.

    ``rsample`` carries unbiased gradients in both parameters. ``kl_divergence`` is registered, and
    so are ``transform_to(support)`` and ``biject_to(support)`` of ``torch.distributions``.

    Args:
        loc: Mean directions [..., p], unit vectors, p >= 2.
        concentration: Concentrations [...] in [0, 1e140]; batch shapes broadcast.
        validate_args: Check the values; by default on the CPU only, and not if
            ``Distribution.set_default_validate_args(False)`` was called.

    Example:
        >>> law = VonMisesFisher(torch.tensor([1.0, 0.0, 0.0]), 2.0)
        >>> law.mean.round(decimals=4), law.sample((5,)).shape
        (tensor([0.5373, 0.0000, 0.0000]), torch.Size([5, 3]))
    """

    arg_constraints: ClassVar = {  # type: ignore[assignment]
        "loc": unit_vector,
        "concentration": constraints.nonnegative,
    }
    support = unit_vector  # type: ignore[assignment]
    has_rsample = True

    def __init__(self, loc: Tensor, concentration: Number, validate_args: Check = None) -> None:
        if not isinstance(loc, Tensor) or loc.dim() == 0 or loc.shape[-1] < 2:
            raise ValueError(f"expected loc to be a tensor [..., p], p >= 2, got {shape_of(loc)}")
        shapes = tuple(loc.shape[:-1]), tuple(getattr(concentration, "shape", ()))
        try:
            batch = validation.broadcast(*map(torch.Size, shapes))
        except RuntimeError:
            rule = "expected batch shapes of loc and concentration that broadcast"
            raise ValueError(f"{rule}, got {shapes[0]} and {shapes[1]}") from None
        if shapes[1]:
            concentration = torch.as_tensor(concentration).unsqueeze(-1)
        (mu, kappa), dtype = validation.tensors(loc=loc, concentration=concentration)
        kappa = kappa.squeeze(-1) if shapes[1] else kappa
        validate = validation.should_validate(_by_default(validate_args), mu, kappa)
        if validate:
            unit_vector.require("loc", loc)
            most, rule = LARGEST_CONCENTRATION, f"in [0, {LARGEST_CONCENTRATION:g}]"
            validation.require_in_range("concentration", kappa, 0.0, most, rule=rule)
        self._set(as_dtype(mu, dtype), as_dtype(kappa, dtype), batch, validate)

    def _set(self, loc: Tensor, kappa: Tensor, batch: torch.Size, validate: bool) -> None:
        shape = batch + loc.shape[-1:]
        self.loc = loc if loc.shape == shape else loc.expand(shape)
        self.concentration = kappa if kappa.shape == batch else kappa.expand(batch)
        Distribution.__init__(self, batch, loc.shape[-1:], validate_args=False)
        self._validate_args = validate

    def expand(self, batch_shape: Any, _instance: Any = None) -> VonMisesFisher:
        new = type(self).__new__(type(self)) if _instance is None else _instance
        new._set(self.loc, self.concentration, torch.Size(batch_shape), self._validate_args)
        return new

    @staticmethod
    def fit(
        x: Tensor, weights: Weights | None = None, *, validate_args: bool | None = None
    ) -> VonMisesFisher:
        """Fit the maximum-likelihood vMF distribution.

        Vectors that cancel, up to 64 roundings of float64, are fitted by the uniform law (loc e_1,
        concentration 0), as in `ClassStatistics`.

        Args:
            x: Unit vectors [..., n, p]; not all equal, else the concentration is unbounded.
            weights: Weights [..., n] >= 0 of any real dtype, or a list; by default all one.

        Returns:
            The distribution of batch shape [...].
        """
        validation.tensors(x=x)
        if x.dim() < 2 or x.shape[-2] == 0 or x.shape[-1] < 2:
            raise ValueError(f"expected x [..., n, p], n >= 1 and p >= 2, got {tuple(x.shape)}")
        check = _by_default(validate_args)
        if validation.should_validate(check, x):
            unit_vector.require("x", x)
        weights = float64_weights(weights, x, check, batches=True)
        total, x64 = weights.sum(-1), x.double()
        length = x64.square().sum(-1).sqrt()
        loc, R = fit_direction(((weights / length).unsqueeze(-2) @ x64).squeeze(-2), total)
        share = weights / total.unsqueeze(-1)
        # 1 - R is the mean of |x/|x| - loc|^2/2: from R it would lose the digits of a large
        # concentration.
        chord = (x64 - loc.unsqueeze(-2)).square().sum(-1) - (length - 1).square()
        gap = (share * chord / (2 * length)).sum(-1)
        if validation.should_validate(check, x, weights):
            rule, name = "> 0 and finite", "the total weight"
            validation.require_in_range(name, total, 0.0, rule=rule, open_low=True)
            rounding = max(torch.finfo(x.dtype).eps, 256 * torch.finfo(R.dtype).eps) ** 2 / 8
            rule = "< 1 (equal vectors have an unbounded maximum-likelihood concentration)"
            is_one, name = (gap < rounding).double(), "the mean resultant length"
            validation.require_in_range(name, is_one, 0.0, 0.5, rule=rule)
        kappa = ratio.complement_inverse(
            int(x.shape[-1]) / 2 - 1, gap.clamp(0, 1).masked_fill(R == 0, 1)
        )
        return VonMisesFisher(loc.to(x.dtype), kappa.to(x.dtype), validate_args)

    @property
    def _p(self) -> int:
        # torch.jit.trace makes tensors of sizes.
        return int(self.event_shape[0])

    @property
    def _nu(self) -> float:
        return self._p / 2 - 1

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def mean(self) -> Tensor:
        r"""The mean :math:`A_p(\kappa)\mu` [..., p]."""
        kappa = self.concentration.to(COMPUTE_DTYPE[self.concentration.dtype])
        return ratio.ratio(self._nu, kappa).to(self.loc.dtype).unsqueeze(-1) * self.loc

    @property
    def variance_along(self) -> Tensor:
        r"""The variance of :math:`\mu^\top X`, :math:`A_p'(\kappa)`."""
        return ratio.ratio(self._nu, self.concentration.double(), 1).to(self.loc.dtype)

    @property
    def variance_across(self) -> Tensor:
        r"""The variance in each direction orthogonal to the mean, :math:`A_p(\kappa)/\kappa`."""
        return ratio.inner(self._nu, self.concentration.double() ** 2).to(self.loc.dtype)

    @property
    def variance(self) -> Tensor:
        """The variance of each component of X."""
        square = self.loc * self.loc
        along, across = self.variance_along.unsqueeze(-1), self.variance_across.unsqueeze(-1)
        return along * square + across * (1 - square)

    @property
    def covariance_matrix(self) -> Tensor:
        """The covariance of X, [..., p, p]."""
        along, across = (a[..., None, None] for a in (self.variance_along, self.variance_across))
        axis = self.loc.unsqueeze(-1) * self.loc.unsqueeze(-2)
        identity = torch.eye(self._p, dtype=axis.dtype, device=axis.device)
        return across * (identity - axis) + along * axis

    def entropy(self) -> Tensor:
        r"""The entropy :math:`\log Z_p(\kappa) - \kappa A_p(\kappa)` [...]."""
        gain = ratio.information(self._nu, self.concentration.double())
        return (log_area(self._p) - gain).to(self.loc.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        r"""The log density :math:`\kappa\mu^\top x - \log Z_p(\kappa)` of unit vectors [..., p].

        Computed as :math:`[\kappa - \log Z_p(\kappa)] - \kappa|x-\mu|^2/2`, the bracket in float64
        and as one quantity, :math:`\int_0^\kappa(1-R_\nu)` minus the log area of the sphere: so
        neither large concentrations nor the rounding of x to unit length cost digits.
        """
        p = self._p
        (x, loc), dtype = validation.tensors(value=value, loc=self.loc)
        if x.dim() == 0 or x.shape[-1] != p:
            raise ValueError(f"expected value [..., {p}], got shape {tuple(x.shape)}")
        if validation.should_validate(self._validate_args):
            unit_vector.require("value", value)
        kappa = self.concentration.double()
        peak = ratio.complement_integral(p / 2 - 1, kappa) - log_area(p)
        chord = (x - loc).square().sum(-1)
        return as_dtype(torch.addcmul(peak, kappa, chord, value=-0.5), dtype)

    def rsample(
        self, sample_shape: Any = (), *, generator: torch.Generator | None = None
    ) -> Tensor:
        r"""Draw exact samples [..., p] of batches with unbiased pathwise gradients.

        :math:`X = \cos\theta\,\mu + \sin\theta\,Hv`, with v uniform on the sphere across e_1 and
        H the Householder reflection of e_1 to :math:`\mp\mu`, which is regular everywhere. Under
        ``torch.func.vmap`` its argument ``randomness`` is obeyed.

        Args:
            sample_shape: Shape of the samples.
            generator: Source of random numbers on the device; torch.compile takes none.
        """
        # `_extended_shape` is not traced by torch.compile of torch 2.6.
        shape = (*sample_shape, *self._batch_shape, *self._event_shape)
        kappa = self.concentration.double().expand(shape[:-1])
        theta = angle(kappa, self._p, generator)
        dtype = COMPUTE_DTYPE[self.loc.dtype]
        cos, sin = (a.to(dtype).unsqueeze(-1) for a in (theta.cos(), theta.sin()))
        across = (*shape[:-1], shape[-1] - 1)
        # torch.compile traces sizes as symbols, but not beside the argument, even if it is None.
        normal = torch.randn if generator is None else partial(torch.randn, generator=generator)
        v = normal(across, dtype=dtype, device=self.loc.device)
        # About one in 2^24 float32 normals is 0.
        v = torch.where((v == 0) & (torch.arange(across[-1], device=v.device) == 0), 1e-10, v)
        sin = sin * v.square().sum(-1, keepdim=True).rsqrt()
        head, tail = self.loc.to(dtype).split([1, shape[-1] - 1], dim=-1)
        sign = torch.where(head < 0, -1.0, 1.0)
        dot = sin * (tail * v).sum(-1, keepdim=True)
        rest = sin * v + (cos - dot / (1 + head.abs())) * tail
        return torch.cat([cos * head - sign * dot, rest], dim=-1).to(self.loc.dtype)

    def sample(self, sample_shape: Any = (), *, generator: torch.Generator | None = None) -> Tensor:
        """Draw samples as `rsample`, without gradients."""
        with torch.no_grad():
            return self.rsample(sample_shape, generator=generator)


class HypersphericalUniform(VonMisesFisher):
    r"""The uniform distribution on the unit sphere: vMF of concentration zero.

    Its density is :math:`\Gamma(p/2)/(2\pi^{p/2})` everywhere.

    Args:
        dim, batch_shape: Dimension >= 2, and batch shape of the distribution.
        factory: ``dtype`` and ``device``, as for ``torch.empty``.

    Example:
        >>> round(float(HypersphericalUniform(3).entropy()), 4)  # log(4 pi)
        2.531
    """

    def __init__(
        self, dim: int, batch_shape: Any = (), validate_args: bool | None = None, **factory: Any
    ) -> None:
        first = torch.eye(1, validation.dimension(dim), **factory)[0]
        super().__init__(first.expand(*batch_shape, dim), 0.0, validate_args)


@kl.register_kl(VonMisesFisher, VonMisesFisher)
def _kl_divergence(a: VonMisesFisher, b: VonMisesFisher) -> Tensor:
    """Add the divergence of the concentrations and of the directions (prop:bregman-view)."""
    if a.event_shape != b.event_shape:
        p, q = a.event_shape[0], b.event_shape[0]
        raise ValueError(f"expected distributions on one sphere, got p = {p} and {q}")
    (loc_a, loc_b), dtype = validation.tensors(loc_a=a.loc, loc_b=b.loc)
    chord = (loc_a - loc_b).square().sum(-1).double()
    kappa_a, kappa_b = a.concentration.double(), b.concentration.double()
    turn = ratio.ratio(a._nu, kappa_a) * kappa_b * (0.5 * chord)
    return (ratio.divergence(a._nu, kappa_a, kappa_b) + turn).to(dtype)


class Normalization(Transform):
    """Vectors [..., p] without zero to their directions; the inverse is the direction itself."""

    domain = constraints.real_vector
    codomain = unit_vector  # type: ignore[assignment]

    def _call(self, x: Tensor) -> Tensor:
        return x / x.square().sum(-1, keepdim=True).sqrt()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class Stereographic(Transform):
    r"""The chart :math:`u \mapsto (1-|u|^2, 2u)/(1+|u|^2)` of vectors [..., p-1] to the sphere."""

    domain = constraints.real_vector
    codomain = unit_vector  # type: ignore[assignment]
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        square = x.square().sum(-1, keepdim=True)
        return torch.cat([1 - square, 2 * x], -1) / (1 + square)

    def _inverse(self, y: Tensor) -> Tensor:
        return y[..., 1:] / (1 + y[..., :1])

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.shape[-1] * (math.log(2) - x.square().sum(-1).log1p())

    def forward_shape(self, shape: Any) -> Any:
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Any) -> Any:
        return (*shape[:-1], shape[-1] - 1)


# One chart each, so that charts of the sphere are equal.
_NORMALIZATION, _STEREOGRAPHIC = Normalization(), Stereographic()
transform_to.register(unit_vector, lambda _: _NORMALIZATION)
biject_to.register(unit_vector, lambda _: _STEREOGRAPHIC)
