"""A map of the test rows, and the numbers of the sliders."""

import numpy as np
import torch
from torch import Tensor

from resultant.analysis.candidate import Candidate
from resultant.analysis.explain import places_of
from resultant.analysis.fit import sample_of, unit_rows
from resultant.analysis.metrics import stratified
from resultant.analysis.result import Explorer, FeatureMap
from resultant.analysis.split import ACCURACY, FeatureSet, Plan, row_weights
from resultant.classes.metric import Metric
from resultant.classes.scores import cosines
from resultant.classes.statistics import ClassState
from resultant.classifiers.folds import shuffled_ranks

# Training rows times dimension that a metric is fitted to, its dimensions at most (directions are
# not whitened beyond), and points of the map.
METRIC_ENTRIES = 2e7
METRIC_DIM = 2_048
MAP_ROWS = 2_000

# Shrinkages of the slider beside that of its method; the map has the second one.
SHRINKAGES = (0.1, 0.3, 0.6, 0.9)

# Test rows of the sliders, candidates per row, and numbers of all of them.
EXPLORED_ROWS = 500
CANDIDATES = 100
EXPLORED_CELLS = 300_000

# Classes in one metric; None for the plain directions.
Directions = tuple[Metric | None, ClassState]


def fit_directions(data: FeatureSet, estimator: str) -> list[Directions]:
    """Fit the classes of a stratified sample in the plain and in the whitened directions."""
    rows = data.fitted[stratified(data.train.y[data.fitted], METRIC_ENTRIES / data.dim)]
    sample = sample_of(data, data.train.read(rows), data.train.y[rows])
    whiten = data.dim <= METRIC_DIM
    plain = sample.sums(scatter=whiten)
    fitted: list[Directions] = [(None, plain.state(estimator))]
    if whiten:
        metric = Metric.fit(plain, SHRINKAGES[0])
        sums = sample.metric_sums(torch.arange(len(rows)), metric, SHRINKAGES)
        for shrinkage, own in zip(SHRINKAGES, sums, strict=True):
            fitted.append((metric.with_shrinkage(shrinkage), own.state(estimator)))
    return fitted


def feature_map(
    data: FeatureSet, plan: Plan, fitted: list[Directions], predicted: Tensor
) -> FeatureMap:
    """Map test rows to two dimensions by PCA of the whitened rows."""
    at = stratified(data.test.y[plan.test], MAP_ROWS)
    rows, predicted = plan.test[at], predicted[at]
    z = unit_rows(fitted[min(2, len(fitted) - 1)][0], data.test.read(rows)).float()
    centred = z - z.mean(0)
    variance, axes = torch.linalg.eigh(centred.T @ centred)
    top = axes[:, [-1, -2]]
    # The sign of an axis is arbitrary: its largest coordinate is positive.
    top = top * top.gather(0, top.abs().argmax(0, keepdim=True)).sign()
    x, y = (centred @ top).numpy().astype(np.float32).T
    first, second = variance.clamp_min(0)[[-1, -2]] / variance.clamp_min(0).sum().clamp_min(1e-30)
    label, explained = data.test.y[rows].numpy(), (float(first), float(second))
    return FeatureMap(x, y, places_of(data.test, rows), label, predicted.numpy(), explained)


def explorer(data: FeatureSet, plan: Plan, fitted: list[Directions], vmf: Candidate) -> Explorer:
    """Return the numbers of the sliders, which start with a vMF method."""
    # The metric and the classes of this method are those of its numbers in the tables.
    model, steps = vmf.model, {None if m is None else m.shrinkage: (m, s) for m, s in fitted}
    own = None if model.metric_ is None else model.metric_.to("cpu")
    shrinkage = None if own is None else own.shrinkage
    steps[shrinkage] = own, model.state_.to("cpu")
    order = sorted(steps, key=lambda s: -1.0 if s is None else s)
    sample = int(fitted[0][1].count.sum())
    fitted = [steps[s] for s in order]
    C, S, rows = data.num_classes, len(fitted), plan.test
    most = min(EXPLORED_ROWS, EXPLORED_CELLS // (S * min(C, CANDIDATES)))
    # As many rows of each class as possible.
    spread = shuffled_ranks(data.test.y[rows]).argsort(stable=True)[:most]
    rows = rows[spread.sort().values]
    # In the dtype in which the method reads them.
    x = torch.cat([x for _, x, _ in data.test.chunks(rows)])
    label = data.test.y[rows]
    states = [state for _, state in fitted]
    rho = torch.stack([cosines(unit_rows(m, x), state.mu) for m, state in fitted]).float()
    # The classes of each row with the largest cosine under any metric, and its own.
    nearest = rho.amax(0).scatter(1, label[:, None], 2.0).topk(min(C, CANDIDATES), 1)
    candidates = nearest.indices.sort(1).values
    counts = torch.bincount(data.train.y[data.fitted], minlength=C).double()
    log_prior = (counts / counts.sum()).log()
    evaluated = torch.bincount(data.test.y[plan.test], minlength=C)
    names = ("realization", "beta", "temperature", "prior", "scale")
    start = {name: vmf.settings.get(name) for name in names}
    return Explorer(
        dim=data.dim,
        shrinkage=np.array([np.nan if s is None else s for s in order]),
        kappa=torch.stack([state.kappa for state in states]).numpy(),
        resultant=torch.stack([state.resultant for state in states]).numpy(),
        log_prior=log_prior.numpy(),
        row=rows.numpy(),
        label=label.numpy(),
        weight=row_weights(label, plan.metric, evaluated).numpy(),
        equal=row_weights(label, ACCURACY, evaluated).numpy(),
        candidates=candidates.numpy(),
        cosine=rho.gather(2, candidates.expand(S, -1, -1)).numpy(),
        start={**start, "metric": order.index(shrinkage)},
        method=vmf.name,
        sample=sample if sample < len(data.fitted) else None,
    )
