"""Charts and tables of one feature set: methods, classes, rows to look at, and the map."""

import colorsys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from resultant._core.text import counted
from resultant.analysis.metrics import SIGNIFICANCE, wilson
from resultant.analysis.result import FeatureResult, Method
from resultant.classes.rule import REALIZATIONS
from resultant.report import style
from resultant.report.charts import Axis, Chart, Mark, by_group, level
from resultant.report.table import Column, Table, number, percent, points, seconds, settings, share
from resultant.report.thumbnails import COLUMNS, thumbnail

# Families of methods: their colours, and their names in the legend.
FAMILIES = {"vmf": (style.BLUE, "vMF"), "scikit-learn": (style.ORANGE, "scikit-learn")}
# Classes that are named on axes, and whose rows are counted in the cells of a matrix.
NAMED, COUNTED = 30, 12
# Columns about the row that another row equals.
OTHER_ROW: dict[str, Any] = {"copy in": str, "its file": str, "its row": str}
# Tables of rows to look at: headings, captions, and the last columns.
ROWS = {
    "label": (
        "Likely label errors",
        "Another class is far more likely than the label, by fits that did not see the row. Odds: "
        "how many times as likely.",
        ("more likely", {"odds": "{:,.0f}".format}),
    ),
    "duplicate": (
        "Exact duplicates",
        "Rows with the same features as an earlier row.",
        ("label of the copy", OTHER_ROW),
    ),
    "near": (
        "Near-duplicates",
        "Rows with nearly the same direction as an earlier row, by the angles between neighbours.",
        ("label of the other", {"cosine": "{:.5f}".format, **OTHER_ROW}),
    ),
    "outlier": (
        "Outliers",
        "Rows far from the direction of their class. Deviations: robust standard deviations of the "
        "cosine below the median of the class.",
        ("nearest class", {"deviations": "{:.1f}".format}),
    ),
}


def evaluated(result: FeatureResult) -> Method:
    """Return the recommended method, or the best one if none is recommended."""
    return result.recommended or result.method(result.recommendation.best)


def method_charts(result: FeatureResult) -> list[Chart]:
    """Return dot plots of the metric and of the log-loss, with one row for all vMF rules."""
    data, methods = result.data, drawn(result)
    number_of_rules = len([m for m in result.methods if is_rule(m)])
    rules = f" Of {number_of_rules} vMF rules one is drawn." * (number_of_rules > 1)
    floor = "".join(
        f" Not drawn: {m.name}, {percent(m.metric(data.metric).value)}."
        for m in result.methods
        if m.family == "baseline"
    )
    rows = counted(data.evaluated, "test row", "test rows")
    about = f"on {rows} with 95 % intervals; rings: validation scores ({data.validation})"
    scores = dot_plot(
        *(result, methods, "methods", "All methods"),
        f"{data.metric.capitalize()} {about}, which choose the recommendation. Test rows do not "
        f"choose.{rules}{floor}",
    )
    losses = dot_plot(
        *(result, methods, "losses", "Quality of the probabilities"),
        f"Log-loss {about}. Smaller is better; equal probabilities for all classes have "
        f"{np.log(len(data.class_names)):.2f}.",
        loss=True,
    )
    return [scores, losses]


def rule_charts(result: FeatureResult) -> list[Chart]:
    """Return a dot plot of all vMF rules, if there are several."""
    rules = [m for m in result.methods if is_rule(m)]
    if len(rules) < 2:
        return []
    sentence = "vMF classifiers with one distribution per class. They differ in the gains of their "
    sentence += "classes; see realization in the glossary."
    return [dot_plot(result, rules, "rules", "All vMF rules", sentence)]


def is_rule(method: Method) -> bool:
    """Return True for a vMF classifier with one distribution per class, of its mean."""
    return method.key in REALIZATIONS


def drawn(result: FeatureResult) -> list[Method]:
    """Return all methods but the baseline; of the vMF rules the recommended one or the best."""
    rules = [m for m in result.methods if is_rule(m)]
    first = next((m for m in rules if m.key == result.recommendation.key), rules[0]) if rules else 0
    others = [m for m in result.methods if m.family != "baseline"]
    return [m for m in others if not is_rule(m) or m is first]


def dot_plot(
    result: FeatureResult,
    methods: list[Method],
    name: str,
    title: str,
    sentence: str,
    loss: bool = False,
) -> Chart:
    """Return a dot plot of the metric, or of the log-loss, of some methods."""
    metric, recommended = result.data.metric, result.recommendation.key
    pairs = [
        (m.log_loss, m.validation_loss) if loss else (m.metric(metric), m.validation)
        for m in methods
    ]
    unit, place = 1 if loss else 100, np.arange(len(methods))
    low, value, high = (
        unit * np.array([getattr(v, end) for v, _ in pairs]) for end in ("low", "value", "high")
    )
    families = dict.fromkeys(m.family for m in methods)
    shown = number if loss else percent
    return Chart(
        *(name, title, sentence),
        Axis("log-loss (nats)" if loss else f"{metric} (%)"),
        Axis(names=tuple("▸ " * (m.key == recommended) + m.name for m in methods)),
        (
            Mark(
                *("points", unit * np.array([v.value for _, v in pairs]), place),
                colour=style.GREY,
                hollow=True,
                size=9,
                legend=[("validation", style.GREY, "ring")],
                text=[
                    f"{m.name}\nvalidation: {shown(v.value)}"
                    for m, (_, v) in zip(methods, pairs, strict=True)
                ],
            ),
            Mark(
                *("points", value, place),
                low=low,
                high=high,
                size=9,
                colour=[FAMILIES[m.family][0] for m in methods],
                legend=[(FAMILIES[f][1], FAMILIES[f][0], "circle") for f in families],
                text=[
                    f"{m.name}\ntest: {number(v.value)} [{number(v.low)}, {number(v.high)}]"
                    if loss
                    else _method_text(result, m)
                    for m, (v, _) in zip(methods, pairs, strict=True)
                ],
            ),
        ),
    )


def _method_text(result: FeatureResult, method: Method) -> str:
    value, d = method.metric(result.data.metric), method.difference
    lines = [method.name, f"test: {percent(value.value)} [{share(value.low)}, {share(value.high)}]"]
    if d is not None:
        lines.append(f"{points(d.gain)} points from the recommended method: {d.verdict}")
    return "\n".join([*lines, settings(method.settings)])


def methods_table(result: FeatureResult) -> Table:
    """Return all numbers of all methods."""
    data, recommended, methods = result.data, result.recommendation.key, result.methods
    keys = [m.key for m in methods]
    differences = [None if m.key == recommended else m.difference for m in methods]
    verdicts = ["" if d is None else d.verdict for d in differences]
    if recommended in keys:
        verdicts[keys.index(recommended)] = "recommended"
    errors = [None if m.reliability is None else m.reliability.error for m in methods]
    ends = [(share(m.accuracy.low), share(m.accuracy.high)) for m in methods]
    columns = [
        Column("method", [m.name for m in methods]),
        Column("validation", [m.validation.value for m in methods], share, "%"),
        Column("accuracy", [m.accuracy.value for m in methods], share, "%"),
        Column("95 % interval", [f"{low}\u00a0to\u00a0{high}" for low, high in ends]),
        Column("balanced accuracy", [m.balanced.value for m in methods], share, "%"),
        *(Column(g, [m.groups.get(g) for m in methods], share, "%") for g in data.group_names),
        Column("difference", [d and d.gain for d in differences], points, "points"),
        Column("verdict", verdicts),
        Column("log-loss", [m.log_loss.value for m in methods]),
        Column("calibration error", errors, share, "%"),
        Column("fit time", [m.fit_seconds for m in methods], seconds, "s"),
        Column("predict time", [m.predict_seconds for m in methods], seconds, "s"),
        Column("training rows", [m.rows for m in methods]),
        Column("settings", [settings(m.settings) for m in methods]),
        Column("note", [m.note for m in methods]),
    ]
    return Table(
        "methods",
        "All numbers",
        f"Validation: {data.metric}, {data.validation}. Other numbers: the same test rows for all "
        f"methods. Difference: {data.metric} minus that of the recommended method; the intervals "
        "hold for all comparisons together.",
        columns,
        keys.index(recommended) if recommended in keys else None,
    )


def curve_charts(result: FeatureResult) -> list[Chart]:
    """Return the learning curve, if there is one."""
    if len(result.curve) < 2 or result.explorer is None:
        return []
    low, value, high = (
        100 * np.array([getattr(p.test, end) for p in result.curve])
        for end in ("low", "value", "high")
    )
    rows = [p.rows for p in result.curve]
    curves = [("high", high, "dotted"), ("value", value, "solid"), ("low", low, "dotted")]
    return [
        Chart(
            "curve",
            "Learning curve",
            f"{result.explorer.method}, fitted with its settings to parts of the training rows; "
            "dotted: 95 % intervals.",
            Axis("training rows", log=True),
            Axis(f"{result.data.metric} (%)"),
            tuple(
                Mark("line", rows, y, colour=style.BLUE, dash=dash, marks=name == "value")
                for name, y, dash in curves
            ),
        )
    ]


def class_charts(result: FeatureResult) -> list[Chart]:
    """Return accuracies per class, by shot group, and the confusion matrix."""
    charts = [_sorted_classes(result), *_groups(result), *_matrix(result)]
    return [chart for chart in charts if not chart.empty]


def _sorted_classes(result: FeatureResult) -> Chart:
    data, method = result.data, evaluated(result)
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
    data, method = result.data, evaluated(result)
    names = [g for g in data.group_names if np.isfinite(method.groups.get(g, np.nan))]
    if not names:
        return
    others = [m for m in result.methods if m.family not in (method.family, "baseline")]
    shown = [method, *others[:1]]
    width = 0.8 / len(shown)
    bars = tuple(
        Mark(
            *("bars", np.arange(len(names)) + (i - (len(shown) - 1) / 2) * width),
            100 * np.array([m.groups[g] for g in names]),
            label=m.name,
            colour=style.CYCLE[i],
            width=0.9 * width,
        )
        for i, m in enumerate(shown)
    )
    worst = min(names, key=lambda g: method.groups[g])
    yield Chart(
        "groups",
        "Head, medium and tail",
        f"Mean accuracy of classes by training rows; {worst} classes are the least accurate, "
        f"{percent(method.groups[worst])}.",
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
    sentence = f"Most frequent errors of {evaluated(result).name} on the test rows."
    return [Table("confused", "Most confused pairs", sentence, columns)] if len(c.pairs) else []


def classes_table(result: FeatureResult) -> Table:
    """Return numbers of all classes, the least accurate first."""
    data, method, theory = result.data, evaluated(result), result.theory
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


def row_tables(result: FeatureResult, file: str) -> list[Table]:
    """Return the rows to look at; ``file`` is the CSV file that has all of them."""
    names, tables = result.data.class_names, []
    for kind, (title, sentence, (other, last)) in ROWS.items():
        table = result.rows.get(kind)
        if table is None or not len(table.label):
            continue
        places, copies = table.places, table.copies
        # A name is relative to the file of the features, or to the folder of the command.
        folders = [Path(), *dict.fromkeys(Path(file).parent for file in places.file)]
        picture = partial(_picture, folders=folders)
        scores: list[Any] = [np.minimum(np.exp(table.score), 1e6).tolist()]
        if kind in ("outlier", "near"):
            scores = [table.score.tolist()]
        if copies is not None:
            scores = scores if kind == "near" else []
            scores += [copies.split.tolist(), copies.file.tolist(), copies.row.tolist()]
        columns = (
            Column("row", places.row.tolist(), str),
            Column("file", places.file.tolist()),
            *(
                Column(name, values, picture if name.lower() in COLUMNS else shortened)
                for name, values in places.columns.items()
            ),
            Column("split", places.split.tolist()),
            Column("label", [names[c] for c in table.label]),
            Column(other, [names[c] if c >= 0 else "" for c in table.other]),
            *(Column(n, v, form) for (n, form), v in zip(last.items(), scores, strict=True)),
        )
        total = f"{counted(table.total, 'row', 'rows')}, counted from 0 in the file. "
        tables.append(Table(f"rows-{kind}", title, total + sentence, columns, file=file))
    return tables


def _picture(name: Any, folders: list[Path]) -> Any:
    """Return the image of a name, or the beginning of the name."""
    found = thumbnail(str(name), folders)
    return shortened(found) if found == str(name) else found


def map_charts(result: FeatureResult, most: int) -> list[Chart]:
    """Return the map of at most ``most`` test rows, if there is one."""
    if (m := result.map) is None or not len(m.x):
        return []
    names = result.data.class_names
    chosen = np.linspace(0, len(m.x) - 1, min(most, len(m.x))).round().astype(int)
    label, predicted = m.label[chosen], m.predicted[chosen]
    wrong = label != predicted
    text = [
        f"{shortened(m.places.name(i))}\n{names[y]}"
        + (f"\npredicted: {names[p]}" if y != p else "")
        for i, y, p in zip(chosen.tolist(), label, predicted, strict=True)
    ]
    axes = ("first", "second")
    if np.isfinite(m.explained).all():
        axes = tuple(
            f"{a} component, {percent(e, 0)} of the variance"
            for a, e in zip(axes, m.explained, strict=True)
        )
    by_class = [class_colour(y) for y in label.tolist()]
    by_error = [style.RED if w else style.GREY for w in wrong]
    of = f"{len(chosen):,} of {len(m.x):,}" if len(chosen) < len(m.x) else f"{len(chosen):,}"
    sentence = (
        f"{m.kind} of {of} test rows; {int(wrong.sum()):,} are misclassified by "
        f"{evaluated(result).name}. "
    )
    if np.isfinite(m.explained).all():
        sentence += f"The picture has {percent(sum(m.explained), 0)} of the variance: rows that "
        sentence += "are far apart here differ, rows side by side may differ in other directions."
    else:
        sentence += "Near rows are similar; distances between far ones mean little."
    present = np.unique(label) if len(names) <= NAMED else []
    points = Mark(
        *("points", m.x[chosen], m.y[chosen], "", by_class),
        size=5,
        classes=label,
        text=text,
        legend=[(names[c], class_colour(int(c)), "circle") for c in present],
        colours={"class": by_class, "error": by_error},
    )
    x, y = map(Axis, axes)
    return [Chart("map", "Map of the test rows", sentence, x, y, (points,))]


def shortened(text: Any) -> str:
    """Return the beginning of a long text."""
    text = str(text)
    return text if len(text) <= 120 else f"{text[:117]}..."


def class_colour(c: int) -> str:
    """Return the colour of a class; steps of the golden ratio spread any number of hues."""
    rgb = colorsys.hls_to_rgb((0.58 + 0.618034 * c) % 1, 0.5, 0.65)
    return "#" + "".join(f"{round(255 * v):02x}" for v in rgb)
