"""Evaluate all candidates on the same test rows."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from resultant.analysis import metrics
from resultant.analysis.candidate import Candidate, predict
from resultant.analysis.choose import Choice
from resultant.analysis.result import Confusion, Method, Reliability
from resultant.analysis.split import ACCURACY, BALANCED, FeatureSet, Plan, row_weights
from resultant.analysis.theory import named_groups
from resultant.classes.groups import shot_groups
from resultant.classifiers.calibration import calibration_error, confidence_bins

# Rows below which calibration errors are not computed.
FEW_ROWS = 30

# Classes of a confusion matrix at most, and confused pairs that are kept.
MATRIX_CLASSES = 200
PAIRS = 50


def evaluate(
    candidates: Sequence[Candidate], choice: Choice, data: FeatureSet, plan: Plan
) -> tuple[Method, ...]:
    """Fill in the predictions of the test rows; return the numbers, the best validation first."""
    models = [c.model for c in candidates]
    for c, tested in zip(
        candidates, predict(models, data.test, plan.test, data.num_classes), strict=True
    ):
        c.tested = tested
    used = next(c for c in candidates if c.key == choice.used) if choice.able else None
    methods = [measured(c, used, len(candidates) - 1, data, plan) for c in candidates]
    return tuple(sorted(methods, key=lambda m: -m.validation.value))


def measured(
    one: Candidate, used: Candidate | None, comparisons: int, data: FeatureSet, plan: Plan
) -> Method:
    """Return the numbers of one candidate, and its difference from the one that is used."""
    tested, validated, labels = one.tested, one.validated, data.test.y[plan.test]
    same = plan.test_copies
    assert tested is not None and validated is not None, "predict before"
    weights, equal = row_weights(labels, plan.metric), row_weights(labels, ACCURACY)
    hits, difference, reliability = tested.predicted == labels, None, None
    if used is not None and used is not one:
        assert used.tested is not None
        before = used.tested.predicted == labels
        difference = metrics.paired_gain(before, hits, weights, comparisons, same)
    per_class = metrics.class_means(hits.double(), labels, data.num_classes)
    if len(labels) >= FEW_ROWS:
        bins = confidence_bins(tested.confidence.numpy(), hits.double().numpy())
        reliability = Reliability(*bins, calibration_error(*bins))
    names, group = named_groups(data.counts), shot_groups(data.counts)
    note = one.note
    if one.rows < len(data.fitted):
        sample = f"Fitted to a stratified sample of {one.rows:,} of {len(data.fitted):,} rows."
        note = f"{sample} {note}".strip()
    return Method(
        key=one.key,
        name=one.name,
        family=one.family,
        settings=one.settings,
        code=one.code,
        validation=metrics.share(one.hits(plan.labels), plan.weights, plan.copies),
        validation_loss=metrics.mean(validated.loss, plan.weights, plan.copies),
        accuracy=metrics.share(hits, equal, same),
        balanced=metrics.share(hits, row_weights(labels, BALANCED), same),
        log_loss=metrics.mean(tested.loss, equal, same),
        reliability=reliability,
        groups={name: float(per_class[group == g].nanmean()) for g, name in enumerate(names)},
        class_accuracy=per_class.numpy(),
        difference=difference,
        fit_seconds=one.fit_seconds,
        predict_seconds=tested.seconds,
        rows=one.rows,
        note=note,
    )


def confusion(predicted: Tensor, labels: Tensor, num_classes: int) -> Confusion:
    """Count the errors between classes."""
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    wrong = predicted != labels
    cells, count = (labels * num_classes + predicted)[wrong].unique(return_counts=True)
    top = count.argsort(descending=True, stable=True)[:PAIRS]
    true, other = cells[top] // num_classes, cells[top] % num_classes
    rows = torch.bincount(labels, minlength=num_classes)
    matrix = order = None
    if num_classes <= MATRIX_CLASSES:
        whole = torch.bincount(labels * num_classes + predicted, minlength=num_classes**2)
        matrix = whole.view(num_classes, num_classes).numpy()
        order = np.arange(num_classes)
        if num_classes > 2:
            # Confused classes are side by side.
            share = matrix / np.maximum(matrix.sum(1, keepdims=True), 1)
            distance = 1 - np.minimum((share + share.T) / 2, 1)
            np.fill_diagonal(distance, 0.0)
            order = leaves_list(linkage(squareform(distance, checks=False), "average"))
    pairs, part = torch.stack([true, other], 1), (count[top] / rows[true]).double()
    return Confusion(pairs.numpy(), count[top].numpy(), part.numpy(), matrix, order)
