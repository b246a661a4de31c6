r"""Other fits of the classes: do gains or decisions depend on the estimator of kappa, or on one
vMF per class?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from resultant.analysis import metrics
from resultant.analysis.plain import Result, UnansweredError
from resultant.analysis.space import FrozenSpace, unit
from resultant.classes.cosines import cosines
from resultant.classes.finite_sample import held_out_state
from resultant.classes.realization import realize
from resultant.classes.rule import Rule
from resultant.classes.statistics import ClassState
from resultant.classifiers.em import AUTO, Components, fit_components
from resultant.vmf.estimators import log_normalizer_at

# Rules under which decisions are compared.
REALIZATIONS = ("native", "angular")

# Estimators of kappa, kappa of held-out rows, and mixtures of vMF per class.
FITS = ("mle", "corrected", "loo", "held-out", "components")

# The most scores of the test rows under one fit.
CELLS = 8_000_000


@dataclass(frozen=True, eq=False)
class FitDecision(Result):
    """Decisions of one fit under one rule, against those of the fit of the space."""

    realization: str  #: name of the rule, at the temperature of the space and beta 0
    accuracy: float  #: accuracy on the test rows
    gain: float  #: accuracy less that of the fit of the space
    low: float  #: lower end of the paired 95 % interval of the gain
    high: float  #: upper end
    p_value: float  #: p-value of McNemar's test
    changed: float  #: fraction of the rows with another decision


@dataclass(frozen=True, eq=False)
class FitRow(Result):
    """One fit of the classes."""

    name: str  #: one of `FITS`
    gains: Tensor  #: gains [C]; of a mixture the weighted means of its components
    mean_gain: float
    rank_correlation: float | None  #: Spearman's with the gains of the space; None if constant
    fitted: float  #: mean over the classes of the mean cosine that the fit expects of new rows
    seen: float  #: mean over the classes of the mean cosine of the test rows with their direction
    log_density: float  #: mean log density of the test rows under their own class
    decisions: tuple[FitDecision, ...]  #: one per rule
    components: float  #: mean number of components per class


@dataclass(frozen=True, eq=False)
class FitComparison(Result):
    """Fits of the classes on the same rows: the fit of the space first."""

    rows: tuple[FitRow, ...]  #: the fits
    judged: int  #: number of test rows; the other held-out rows fit kappa of ``held-out``


@torch.no_grad()
def compare_fits(
    space: FrozenSpace, fits: Iterable[str] = ("corrected", "loo", "held-out")
) -> FitComparison:
    """Compare other fits of the classes with that of the space.

    Half of the held-out rows of each class, every second one, are the test rows, or a sample of
    them where rows times classes are many; kappa of ``held-out`` is fitted to the others.

    Args:
        fits: Names of `FITS`. ``components`` chooses the number of components of each class by BIC
            and reads all training rows several times.

    Raises:
        UnansweredError: No class has two held-out rows.
        ValueError: A name is not in `FITS`.

    Example:
        >>> z, y = torch.eye(4).repeat(3, 1) + 0.1, torch.arange(4).repeat(3)
        >>> [row.name for row in compare_fits(FrozenSpace.fit(z, y, z, y), ["loo"]).rows]
        ['mle', 'loo']
    """
    names = [name for name in fits if name != space.estimator]
    unknown = [name for name in names if name not in FITS]
    if unknown:
        raise ValueError(f"expected fits among {', '.join(FITS)}, got {unknown}")
    second = metrics.rank_in_class(space.test_labels) % 2 == 1
    judging, fitting = (a.nonzero().squeeze(1) for a in (second, ~second))
    judging = judging[metrics.sample_rows(len(judging), max(1, CELLS // space.num_classes), 0)]
    if not len(judging):
        raise UnansweredError("expected two held-out rows of some class, got none")
    fitted = [_plain(space.state), *(_fit(space, name, fitting) for name in names)]
    judged = [_judge(space, components, judging) for components in fitted]
    rows = [
        _row(space, name, components, result, judged[0][0], space.test_labels[judging])
        for name, components, result in zip([space.estimator, *names], fitted, judged, strict=True)
    ]
    return FitComparison(tuple(rows), len(judging))


def _plain(state: ClassState) -> Components:
    """Return one component per class."""
    C = state.num_classes
    zeros, ones = torch.zeros(C, dtype=torch.float64), torch.ones(C).long()
    return Components(state, torch.arange(C), zeros, ones)


def _fit(space: FrozenSpace, name: str, fitting: Tensor) -> Components:
    if name == "held-out":
        z = space.units("test", fitting).cpu()
        return _plain(held_out_state(space.statistics, z, space.test_labels[fitting]))
    if name != "components":
        return _plain(space.statistics.state(name))
    rows = torch.arange(len(space.train))
    if space.fitting is not None:
        rows = space.fitting.nonzero().squeeze(1)
    X = unit(space.train[rows], "train", rows, space.device).to(space.dtype)
    weight = torch.ones(len(rows), dtype=torch.float64, device=X.device)
    y = space.labels[rows].to(X.device)
    found = fit_components(X, y, weight, space.num_classes, AUTO, space.estimator)
    return Components.of(found.tensors(), torch.device("cpu"))


def _judge(space: FrozenSpace, components: Components, judging: Tensor) -> tuple[Tensor, ...]:
    """Return decisions [R, n] of the rules, own cosines [n] and own log densities [n]."""
    on = Components.of(components.tensors(), space.device)
    state = on.state.to(dtype=space.dtype)
    rules = [
        realize(state, Rule(space.tau, name, offset=on.log_weight), validate_args=False)
        for name in REALIZATIONS
    ]
    floor = on.log_weight - log_normalizer_at(space.dim, on.state.kappa)
    decided, cosine, density = [], [], []
    for _, x, y in space.queries(judging):
        rho = cosines(x, state.mu)
        scores = (on.of_classes(rule.at(rho)) for rule in rules)
        decided.append(torch.stack([s.max(1).indices for s in scores]).cpu())
        rho = cosines(x.double(), on.state.mu)
        joint = on.of_classes(torch.addcmul(floor, on.state.kappa, rho))
        density.append(joint.gather(1, y[:, None])[:, 0].cpu())
        own = rho.masked_fill(on.owner != y[:, None], -torch.inf)
        cosine.append(own.amax(1).cpu())
    return torch.cat(decided, 1), torch.cat(cosine), torch.cat(density)


def _row(
    space: FrozenSpace,
    name: str,
    components: Components,
    result: tuple[Tensor, ...],
    base: Tensor,
    labels: Tensor,
) -> FitRow:
    gains, (decided, cosine, density) = components.gain(space.tau), result
    decisions = []
    for realization, before, after in zip(REALIZATIONS, base, decided, strict=True):
        d = metrics.paired_gain(before == labels, after == labels)
        gain = d.gain, d.low, d.high, d.p_value
        accuracy, changed = ((after == labels).double().mean(), (before != after).double().mean())
        decisions.append(FitDecision(realization, float(accuracy), *gain, float(changed)))
    return FitRow(
        name=name,
        gains=gains,
        mean_gain=float(gains.mean()),
        rank_correlation=metrics.rank_correlation(gains, space.gain),
        fitted=float(gains.mean()) * space.tau,
        seen=float(metrics.class_means(cosine, labels, space.num_classes).nanmean()),
        log_density=float(density.mean()),
        decisions=tuple(decisions),
        components=float(components.number.double().mean()),
    )
