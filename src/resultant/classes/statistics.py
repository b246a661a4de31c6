"""Class statistics of a labelled sample: sums that merge or subtract, and the classes fitted."""

from __future__ import annotations

import os
from dataclasses import InitVar, dataclass
from pathlib import Path

import torch
from torch import Tensor

from resultant._core import distributed, validation
from resultant._core.arrays import (
    Weights,
    float64_weights,
    normalized,
    require_features,
    require_labels,
    unit_vector,
)
from resultant._core.memory import feature_slices
from resultant._core.tensor_files import load_tensors, write_tensors
from resultant._core.validation import Check
from resultant.score.limits import LARGEST_KAPPA
from resultant.vmf.estimators import (
    ROUNDING,
    fit_direction,
    fit_kappa,
    fit_length,
    mean_resultant,
    require_estimator,
)

Device = torch.device | str

FORMAT = "resultant.ClassStatistics 1"


@dataclass(frozen=True, eq=False)
class ClassState:
    r"""A snapshot of C classes, each a von Mises-Fisher distribution.

    Args:
        mu: Unit directions [C, p], p >= 2.
        kappa: Concentrations [C] from 0 to 2^60 = 1.15e18, in the dtype of mu.
        count: Sample counts [C] >= 0.
        validate_args: Check values, also on a GPU.

    Example:
        >>> ClassState(torch.eye(2), torch.tensor([1.0, 2.0]), torch.ones(2)).resultant
        tensor([0.4464, 0.6978])
    """

    mu: Tensor
    kappa: Tensor
    count: Tensor
    validate_args: InitVar[bool] = True

    def __post_init__(self, validate_args: bool) -> None:
        mu, kappa, count = parts = self.mu, self.kappa, self.count
        for name, a in zip(("mu", "kappa", "count"), parts, strict=True):
            if not isinstance(a, Tensor):
                raise ValueError(f"expected {name} to be a tensor, got {type(a).__name__}")
        shapes = [tuple(a.shape) for a in parts]
        if mu.dim() != 2 or mu.shape[1] < 2 or shapes[1:] != [(len(mu),)] * 2:
            rule = "expected mu [C, p] with p >= 2, kappa [C] and count [C]"
            raise ValueError(f"{rule}, got {shapes[0]}, {shapes[1]} and {shapes[2]}")
        if mu.dtype not in validation.COMPUTE_DTYPE or kappa.dtype != mu.dtype:
            got = f"{mu.dtype} and {kappa.dtype}"
            raise ValueError(f"expected mu and kappa of one floating dtype, got {got}")
        if not mu.device == kappa.device == count.device:
            got = f"{mu.device}, {kappa.device} and {count.device}"
            raise ValueError(f"expected mu, kappa and count on one device, got {got}")
        if validation.should_validate(validate_args, *parts):
            unit_vector.require("mu", mu)
            most, rule = LARGEST_KAPPA, ">= 0 and finite"
            validation.require_within("kappa", kappa, 0.0, most, rule, torch.float32)
            validation.require_in_range("count", count.double(), 0.0, rule=">= 0 and finite")

    @property
    def num_classes(self) -> int:
        """Number of classes C."""
        return self.mu.shape[0]

    @property
    def dim(self) -> int:
        """Dimension p."""
        return self.mu.shape[1]

    @property
    def resultant(self) -> Tensor:
        r"""Mean resultant lengths :math:`A_c = A_p(\kappa_c)` [C] of the fitted kappa."""
        return mean_resultant(self.dim, self.kappa, validate_args=False)

    def to(self, device: Device | None = None, dtype: torch.dtype | None = None) -> ClassState:
        """Copy the state to a device, mu and kappa to a floating dtype; count keeps its dtype. A
        kappa beyond the range of the dtype, 65504 in float16, is a ValueError."""
        if dtype not in (None, self.kappa.dtype):
            if dtype not in validation.COMPUTE_DTYPE:
                raise ValueError(f"expected a floating dtype, got {dtype}")
            if validation.should_validate(True, self.kappa):
                validation.require_in_range(
                    "kappa",
                    self.kappa,
                    0.0,
                    torch.finfo(dtype).max,
                    rule=f"<= {torch.finfo(dtype).max:g} in {dtype}",
                    remedy="scores in half precision are computed in float32: keep the state so",
                )
        mu, kappa = (a.to(device=device, dtype=dtype) for a in (self.mu, self.kappa))
        return ClassState(mu, kappa, self.count.to(device=device), validate_args=False)


class ClassStatistics:
    r"""Sums over the samples of each class, from which a `ClassState` is fitted.

    The sums are ``count`` [C] int64 and, in float64, ``weight`` [C], ``total`` [C, p] of weighted
    unit vectors and, on request, ``scatter`` [p, p] of weighted outer products of all samples, to
    which a `Metric` is fitted. Statistics of any split of a sample merge to those of the whole. A
    class without sample or weight, or whose samples cancel (R below 64 float64 roundings), has
    R = 0, mu = e_1 and kappa = 0. A class of one sample, or of equal ones, has no finite maximum of
    the likelihood: its kappa is that of 1 - R = 64 float64 roundings, the smallest that a sum of
    unit vectors can tell from zero, about 3.5e13 (p - 1); under ``proco`` it is 1e5, the cap of the
    authors' code. Its gain is 1/tau in either case.

    Args:
        num_classes, dim: Number of classes C >= 1 and dimension p >= 2.
        device, scatter: Device of the sums, and True to sum the outer products as well.

    Example:
        >>> z, y = torch.eye(3), torch.tensor([0, 0, 1])
        >>> ClassStatistics(num_classes=2, dim=3).update(z, y).mean_length
        tensor([0.7071, 1.0000], dtype=torch.float64)
    """

    def __init__(
        self, num_classes: int, dim: int, *, device: Device | None = None, scatter: bool = False
    ) -> None:
        num_classes = validation.integer("num_classes", num_classes, 1)
        dim = validation.dimension(dim)
        self.total = torch.zeros(num_classes, dim, dtype=torch.float64, device=device)
        self.weight = self.total.new_zeros(num_classes)
        self.count = self.weight.long()
        self.scatter = self.total.new_zeros(dim, dim) if scatter else None

    def __repr__(self) -> str:
        scatter = "" if self.scatter is None else ", scatter=True"
        return f"ClassStatistics(num_classes={self.num_classes}, dim={self.dim}{scatter})"

    @property
    def num_classes(self) -> int:
        """Number of classes C."""
        return self.total.shape[0]

    @property
    def dim(self) -> int:
        """Dimension p."""
        return self.total.shape[1]

    @property
    def device(self) -> torch.device:
        """Device of the sums."""
        return self.total.device

    def _sums(self) -> dict[str, Tensor]:
        return {name: a for name, a in vars(self).items() if a is not None}

    @staticmethod
    def of(**sums: Tensor) -> ClassStatistics:
        """Build statistics of given sums, by their names."""
        new = ClassStatistics(*sums["total"].shape, device="meta")
        vars(new).update(sums)
        return new

    def to(self, device: Device) -> ClassStatistics:
        """Copy the statistics to a device, without shared memory."""
        return self.of(**{n: a.to(device, copy=True) for n, a in self._sums().items()})

    @torch.no_grad()
    def update(
        self, z: Tensor, y: Tensor, weights: Weights | None = None, *, validate_args: Check = None
    ) -> ClassStatistics:
        """Add unit vectors z [N, p] with labels y [N] and ``weights`` [N] >= 0 of any real dtype or
        a list, by default 1, and return these statistics. Vectors are normalized in float64."""
        return self.add(z, y, self._require(z, y, weights, validate_args))

    @torch.no_grad()
    def add(
        self, z: Tensor, y: Tensor, weights: Tensor | None = None, *, exact: bool = False
    ) -> ClassStatistics:
        """Add samples unchecked, with float64 weights; a vector of zeros has no direction. Vectors
        that are ``exact`` are of unit length in float64."""
        # A comparison on a GPU would wait for it.
        on_host = weights is not None and weights.device.type == "cpu"
        unweighted = weights is None or (on_host and bool((weights == 1).all()))
        self.count.index_add_(0, y, torch.ones_like(y))
        weights = z.new_ones(len(z), dtype=torch.float64) if weights is None else weights
        self.weight.index_add_(0, y, weights)
        for rows in feature_slices(z):
            # A rounded length would change 1 - R, and with it a large concentration.
            x = z[rows] if exact else normalized(z[rows])
            weighted = x if unweighted else x * weights[rows, None]
            self.total.index_add_(0, y[rows], weighted)
            if self.scatter is not None:
                self.scatter.addmm_(x.T, weighted)
        return self

    def _require(self, z: Tensor, y: Tensor, weights: Weights | None, validate: Check) -> Tensor:
        """Return weights in float64, by default one; raise unless the samples fit."""
        require_features(z, self.dim, self.device, validate)
        require_labels(y, len(z), self.num_classes, self.device, validate)
        return float64_weights(weights, z, validate)

    def merge(self, other: ClassStatistics) -> ClassStatistics:
        """Add the samples of other statistics of the same shape, and return these statistics."""
        self._require_same_shape(other)
        for name, mine in self._sums().items():
            mine.add_(getattr(other, name).to(self.device))
        return self

    def all_reduce(self) -> ClassStatistics:
        """Add up the samples of all processes of torch.distributed, on every process."""
        for a in self._sums().values():
            distributed.all_reduce_sum(a)
        return self

    def without(self, other: ClassStatistics) -> ClassStatistics:
        """Build statistics without the samples of a part of these."""
        self._require_same_shape(other)
        mine, theirs = self._sums(), other._sums()
        rest = self.of(**{name: a - theirs[name].to(self.device) for name, a in mine.items()})
        for c in (rest.count < 0).nonzero().flatten().tolist()[:1]:
            got = f"{int(other.count[c])} samples of {int(self.count[c])} in class {c}"
            raise ValueError(f"expected statistics of a part of these, got {got}")
        rest.weight, rest.total = _emptied(rest.count, rest.weight, rest.total, self.weight)
        return rest

    def _require_same_shape(self, other: ClassStatistics) -> None:
        if repr(other) != repr(self):
            raise ValueError(f"expected statistics of the shape of {self!r}, got {other!r}")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a safetensors file atomically."""
        tensors = {name: a.cpu().contiguous() for name, a in self._sums().items()}
        write_tensors(Path(path), tensors, {"format": FORMAT})

    @staticmethod
    def load(path: str | os.PathLike[str], *, device: Device | None = None) -> ClassStatistics:
        """Read the statistics that `save` wrote; any other file is a ValueError that names it."""
        rule = f"expected {os.fspath(path)} to be a whole safetensors file of ClassStatistics"
        try:
            tensors, metadata = load_tensors(path)
        except ValueError as error:
            raise ValueError(f"{rule}, got a file that cannot be read ({error})") from None
        C, p = (*tensors.get("total", torch.empty(0)).shape, 0, 0)[:2]
        like = ClassStatistics(max(C, 1), max(p, 2), device="meta", scatter="scatter" in tensors)
        wanted, found = (
            {name: f"{a.dtype} {tuple(a.shape)}" for name, a in sums.items()}
            for sums in (like._sums(), tensors)
        )
        if metadata.get("format") != FORMAT or found != wanted:
            rule += f" ({FORMAT!r}: count [C] int64, total [C, p] and weight [C] float64)"
            got = ", ".join(f"{name} {kind}" for name, kind in found.items())
            raise ValueError(f"{rule}, got format {metadata.get('format')!r} with {got}")
        count, weight, total = (tensors[name] for name in ("count", "weight", "total"))
        bounded = total.square().sum(-1).sqrt() <= weight * (1 + 1e-6)
        if not ((count >= 0) & (weight >= 0) & weight.isfinite() & bounded).all():
            got = "negative, infinite or undefined values, or a mean longer than one"
            raise ValueError(f"{rule}, got {got}")
        return ClassStatistics.of(**{name: a.to(device) for name, a in tensors.items()})

    @property
    def mean_length(self) -> Tensor:
        r"""Lengths :math:`R_c=|\bar z_c|` [C] of the class means, between 0 and 1."""
        return fit_length(torch.linalg.vector_norm(self.total, dim=-1), self.weight)

    def state(self, estimator: str = "mle") -> ClassState:
        r"""Fit the classes in float64: :math:`\mu_c=\bar z_c/R_c` and `concentration` of R_c by an
        estimator. A sample of weight two counts as two samples."""
        require_estimator(estimator)
        mu, R = fit_direction(self.total, self.weight)
        kappa = fit_kappa(self.dim, R, estimator, self.weight)
        return ClassState(mu, kappa, self.count.clone(), validate_args=False)

    @torch.no_grad()
    def leave_one_out(
        self,
        z: Tensor,
        y: Tensor,
        estimator: str = "mle",
        *,
        weights: Weights | None = None,
        validate_args: Check = None,
    ) -> tuple[Tensor, Tensor]:
        """Fit each query's own class without the query (sec:self-inclusion): directions [N, p] and
        concentrations [N] in float64, e_1 and 0 for a class left empty. The queries z [N, p] with
        labels y [N] are among the samples, with their ``weights`` [N]."""
        require_estimator(estimator)
        w = self.require_queries(z, y, weights, validate_args)
        mu, kappa = z.new_empty(z.shape, dtype=torch.float64), z.new_empty(len(z)).double()
        for rows in feature_slices(z):
            mu[rows], kappa[rows] = self.left_out(normalized(z[rows]), y[rows], w[rows], estimator)
        return mu, kappa

    def require_queries(
        self, z: Tensor, y: Tensor, weights: Weights | None, check: Check
    ) -> Tensor:
        """Return the weights of queries; raise unless the queries can be among the samples."""
        weights = self._require(z, y, weights, check)
        if validation.should_validate(check, z, y):
            for i in (self.count[y] == 0).nonzero().flatten().tolist()[:1]:
                got = f"one of class {int(y[i])}, which has no sample, at index {i}"
                raise ValueError(f"expected queries that are among the samples, got {got}")
        return weights

    def left_out(self, x: Tensor, y: Tensor, w: Tensor, estimator: str) -> tuple[Tensor, Tensor]:
        """Compute `leave_one_out` of float64 unit vectors x, without checks and chunks."""
        count, before = self.count[y] - 1, self.weight[y]
        total = self.total[y] - w.unsqueeze(-1) * x
        weight, total = _emptied(count, before - w, total, before)
        mu, R = fit_direction(total, weight)
        return mu, fit_kappa(self.dim, R, estimator, weight)


def _emptied(count: Tensor, weight: Tensor, total: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
    """Set the sums of classes that a subtraction left empty to zero, without its rounding."""
    empty = (count <= 0) | (weight <= ROUNDING * before)
    return weight.masked_fill(empty, 0.0), total.masked_fill(empty.unsqueeze(-1), 0.0)
