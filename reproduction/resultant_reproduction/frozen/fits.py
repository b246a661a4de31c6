r"""Other fits of the classes, compared by gains and decisions (sec:support-fit-protocol)."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from resultant.analysis import metrics
from resultant.analysis.metrics import Result, UnansweredError
from resultant.analysis.space import CPU, FrozenSpace
from resultant.classes.finite_sample import held_out_state
from resultant.classes.rule import Rule
from resultant.classes.scores import cosines, realize
from resultant.classifiers.em import AUTO, Components, fit_components
from resultant.vmf.estimators import log_normalizer
from resultant_reproduction.frozen.paired import paired_gain

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
    tested: int  #: number of test rows; the other held-out rows fit kappa of ``held-out``


@torch.no_grad()
def compare_fits(
    space: FrozenSpace, fits: Iterable[str] = ("corrected", "loo", "held-out")
) -> FitComparison:
    """Compare other fits of the classes with that of the space, on every second held-out row of
    each class, or a sample of them; kappa of ``held-out`` is fitted to the others.

    Args:
        fits: Names of `FITS`; ``components`` chooses a number of components per class by BIC.

    Raises:
        UnansweredError: No class has two held-out rows.
        ValueError: A name is not in `FITS`.

    Example:
        >>> [row.name for row in compare_fits(space, ["loo"]).rows]
        ['mle', 'loo']
    """
    names = [name for name in fits if name != space.estimator]
    if unknown := [name for name in names if name not in FITS]:
        raise ValueError(f"expected fits among {', '.join(FITS)}, got {unknown}")
    second = metrics.rank_in_class(space.test_labels) % 2 == 1
    tested, fitting = (a.nonzero().squeeze(1) for a in (second, ~second))
    tested = tested[metrics.sample_rows(len(tested), max(1, CELLS // space.num_classes), 0)]
    if not len(tested):
        raise UnansweredError("expected two held-out rows of some class, got none")
    rows, base = [], None
    for name in (space.estimator, *names):
        components = _fit(space, name, fitting)
        decided, cosine, density = _evaluate(space, components, tested)
        base = decided if base is None else base
        gains, labels, decisions = components.gain(space.tau), space.test_labels[tested], []
        for realization, before, after in zip(REALIZATIONS, base, decided, strict=True):
            d, right = paired_gain(before == labels, after == labels), after == labels
            gain, changed = (d.gain, d.low, d.high, d.p_value), (before != after).double().mean()
            accuracy = float(right.double().mean())
            decisions.append(FitDecision(realization, accuracy, *gain, float(changed)))
        row = FitRow(
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
        rows.append(row)
    return FitComparison(tuple(rows), len(tested))


def _fit(space: FrozenSpace, name: str, fitting: Tensor) -> Components:
    """Fit components of the classes, one of each but for ``components``."""
    if name == "components":
        rows = torch.arange(len(space.train))
        if space.fitting is not None:
            rows = space.fitting.nonzero().squeeze(1)
        X = space.units("train", rows).to(space.dtype)
        weight = torch.ones(len(rows), dtype=torch.float64, device=X.device)
        y = space.labels[rows].to(X.device)
        found = fit_components(X, y, weight, AUTO, space.estimator)
        return Components.of(found.tensors(), CPU)
    if name == "held-out":
        z = space.units("test", fitting).cpu()
        state = held_out_state(space.statistics, z, space.test_labels[fitting])
    else:
        state = space.statistics.state(name)
    return Components.single(state)


def _evaluate(space: FrozenSpace, components: Components, tested: Tensor) -> tuple[Tensor, ...]:
    """Return decisions [R, n] of the rules, own cosines [n] and own log densities [n]."""
    on = Components.of(components.tensors(), space.device)
    state = on.state.to(dtype=space.dtype)
    rules = [
        realize(state, Rule(space.tau, name, offset=on.log_weight), validate_args=False)
        for name in REALIZATIONS
    ]
    floor = on.log_weight - log_normalizer(space.dim, on.state.kappa)
    columns = []
    for _, x, y in space.queries(tested):
        rho = cosines(x, state.mu)
        decided = [on.of_classes(rule.at(rho)).max(1).indices for rule in rules]
        rho = cosines(x.double(), on.state.mu)
        joint = on.of_classes(torch.addcmul(floor, on.state.kappa, rho))
        own = rho.masked_fill(on.owner != y[:, None], -torch.inf).amax(1)
        density = joint.gather(1, y[:, None])[:, 0]
        columns.append((torch.stack(decided).cpu(), own.cpu(), density.cpu()))
    return tuple(torch.cat(column, -1) for column in zip(*columns, strict=True))
