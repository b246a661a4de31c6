"""Charts and tables of the classes: accuracies, shot groups, confused pairs."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from resultant._core.text import counted
from resultant.analysis.metrics import SIGNIFICANCE, wilson
from resultant.analysis.result import FeatureResult
from resultant.report import style
from resultant.report.charts import Axis, Chart, Mark, by_group, level
from resultant.report.table import Column, Table, percent, share

# Classes that are named on axes, and whose rows are counted in the cells of a matrix.
NAMED, COUNTED = 30, 12


def class_charts(result: FeatureResult) -> list[Chart]:
    """Return accuracies per class, by shot group, and the confusion matrix."""
    charts = [_sorted_classes(result), *_groups(result), *_matrix(result)]
    return [chart for chart in charts if not chart.empty]


def _sorted_classes(result: FeatureResult) -> Chart:
    data, method = result.data, result.used
    accuracy = method.class_accuracy
    order = np.argsort(accuracy, kind="stable")
    order = order[np.isfinite(accuracy[order])]
    values, names = accuracy[order], [data.class_names[c] for c in order]
    low = int((values < 0.5).sum())
    half = counted(low, "class is", "classes are") + " below 50 %" if low else "None is below 50 %"
    look: dict[str, Any] = {"classes": order, **by_group(data.group[order], data.group_names)}
    place, sentence = np.arange(len(order)), f"{method.name} on the test rows of each class"
    if len(names) > NAMED:
        marks = (
            level(100 * float(values.mean()) if len(values) else 0.0),
            Mark("points", place, 100 * values, **look),
        )
        x, y = Axis("class, by accuracy"), Axis("accuracy (%)", ends=(0, 102))
    else:
        distinct = np.maximum(1, data.distinct_count[order])
        ends = [wilson(v, n, SIGNIFICANCE) for v, n in zip(values, distinct, strict=True)]
        text = [
            f"{name}\n{percent(v)} of {counted(int(n), 'test row', 'test rows')}"
            for name, v, n in zip(names, values, data.test_count[order], strict=True)
        ]
        reach = {"low": [100 * e for e, _ in ends], "high": [100 * e for _, e in ends]}
        marks = (Mark("points", 100 * values, place, text=text, **reach, **look),)
        x, y = Axis("accuracy (%)", ends=(0, 102)), Axis(names=tuple(names))
        sentence += ", with 95 % intervals"
    sentence = f"{sentence[0].upper()}{sentence[1:]}, the lowest first. {half}."
    return Chart("classes", "Accuracy per class", sentence, x, y, marks)


def _groups(result: FeatureResult) -> Iterator[Chart]:
    data, method = result.data, result.used
    names = [g for g in data.group_names if np.isfinite(method.groups.get(g, np.nan))]
    if not names:
        return
    others = [m for m in result.methods if m.family not in (method.family, "baseline")]
    shown = [method, *others[:1]]
    width = 0.8 / len(shown)
    bars = tuple(
        Mark(
            "bars",
            np.arange(len(names)) + (i - (len(shown) - 1) / 2) * width,
            100 * np.array([m.groups[g] for g in names]),
            label=m.name,
            colour=style.CYCLE[i],
            width=0.9 * width,
        )
        for i, m in enumerate(shown)
    )
    means = ", ".join(f"{g} {percent(method.groups[g])}" for g in names)
    yield Chart(
        "groups",
        "Head, medium and tail",
        f"Mean accuracy of classes by training rows, with {method.name}: {means}.",
        Axis(names=tuple(names)),
        Axis("mean accuracy (%)", ends=(0, 100)),
        bars,
    )


def _matrix(result: FeatureResult) -> Iterator[Chart]:
    matrix, order = result.confusion.matrix, result.confusion.order
    if matrix is None or order is None:
        return
    names = result.data.class_names
    shown = tuple(names[c] for c in order) if len(order) <= NAMED else ("",) * len(order)
    ordered = matrix[np.ix_(order, order)]
    true, predicted = np.nonzero(ordered)
    count = ordered[true, predicted]
    part = count / ordered.sum(1)[true]
    text = [
        f"{names[order[t]]}\npredicted: {names[order[p]]}\n{c:,} rows, {percent(s)} of the class"
        for t, p, c, s in zip(true, predicted, count, part, strict=True)
    ]
    inside = [f"{c:,}" for c in count] if len(order) <= COUNTED else []
    yield Chart(
        "confusion",
        "Confusion matrix",
        "Rows are true classes, columns predicted ones; darker cells hold a larger share of the "
        "true class. Classes that are confused stand side by side.",
        Axis("predicted class", names=shown),
        Axis("true class", names=shown),
        (Mark("cells", predicted, true, share=part, text=text, inside=inside),),
        square=True,
    )


def pairs_tables(result: FeatureResult) -> list[Table]:
    """Return the most confused pairs of classes, if there are any."""
    c, names = result.confusion, result.data.class_names
    columns = (
        Column("true class", [names[true] for true, _ in c.pairs]),
        Column("predicted class", [names[predicted] for _, predicted in c.pairs]),
        Column("test rows", [int(n) for n in c.count]),
        Column("share of the class", [float(s) for s in c.share], share, "%"),
    )
    sentence = f"Most frequent errors of {result.used.name} on the test rows."
    return [Table("confused", "Most confused pairs", sentence, columns)] if len(c.pairs) else []


def classes_table(result: FeatureResult) -> Table:
    """Return numbers of all classes, the least accurate first."""
    data, method, theory = result.data, result.used, result.theory
    gain = None if theory is None else theory.gains and theory.gains.gain
    order = np.argsort(method.class_accuracy, kind="stable")
    groups = [data.group_names[data.group[c]] if data.group_names else "" for c in order]
    columns = (
        Column("class", [data.class_names[c] for c in order]),
        Column("accuracy", method.class_accuracy[order].tolist(), share, "%"),
        Column("training rows", [int(data.train_count[c]) for c in order]),
        Column("test rows", [int(data.test_count[c]) for c in order]),
        Column("group", groups),
        Column("gain g", [None if gain is None else float(gain[c]) for c in order]),
    )
    sentence = f"Accuracy of {method.name}, and rows of each class."
    return Table("classes", "All classes", sentence, columns)
