"""Charts and tables of all methods: the metric, the log-loss, and a learning curve."""

import numpy as np

from resultant._core.text import counted
from resultant.analysis.result import FeatureResult, Method
from resultant.classes.rule import REALIZATIONS
from resultant.report import style
from resultant.report.charts import Axis, Chart, Mark
from resultant.report.table import Column, Table, number, percent, points, seconds, settings, share

# Families of methods: their colours, and their names in the legend.
FAMILIES = {"vmf": (style.BLUE, "vMF"), "scikit-learn": (style.ORANGE, "scikit-learn")}
# Marks of methods that are fitted to all rows, and to a sample of them.
SHAPES = ("circle", "square")


def method_charts(result: FeatureResult) -> list[Chart]:
    """Return dot plots of the metric and of the log-loss, with one row for all vMF rules."""
    data, methods = result.data, drawn(result)
    number_of_rules = len([m for m in result.methods if is_rule(m)])
    refined = any(m.family == "vmf" and not is_rule(m) for m in methods)
    rules = f" One of {number_of_rules} vMF rules is drawn" + ", and refined classes" * refined
    rules = f"{rules}." * (number_of_rules > 1)
    floor = "".join(
        f" Not drawn: {m.name}, {percent(m.metric(data.metric).value)}."
        for m in result.methods
        if m.family == "baseline"
    )
    rows = counted(data.evaluated, "test row", "test rows")
    about = f"on {rows} with 95 % intervals; rings: validation scores ({data.validation})"
    choice = f"{data.metric.capitalize()} {about}, which choose the recommendation. Test rows do "
    choice += f"not choose.{rules}{floor}"
    losses = f"Log-loss {about}. Smaller is better; equal probabilities for all classes have "
    losses += f"{np.log(len(data.class_names)):.2f}."
    return [
        dot_plot(result, methods, "methods", "All methods", choice),
        dot_plot(result, methods, "losses", "Quality of the probabilities", losses, loss=True),
    ]


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
    most = max(m.rows for m in result.methods)
    kinds = [(m.family, m.rows < most) for m in methods]
    legend = [
        (FAMILIES[f][1] + ", fitted to a sample" * part, FAMILIES[f][0], SHAPES[part])
        for f, part in dict.fromkeys(kinds)
    ]
    shown = number if loss else percent
    rings = Mark(
        "points",
        unit * np.array([v.value for _, v in pairs]),
        place,
        colour=style.GREY,
        hollow=True,
        size=9,
        legend=[("validation", style.GREY, "ring")],
        text=[
            f"{m.name}\nvalidation: {shown(v.value)}"
            for m, (_, v) in zip(methods, pairs, strict=True)
        ],
    )
    tested = Mark(
        "points",
        value,
        place,
        low=low,
        high=high,
        size=9,
        colour=[FAMILIES[f][0] for f, _ in kinds],
        shape=[SHAPES[part] for _, part in kinds],
        legend=legend,
        text=[
            f"{m.name}\ntest: {number(v.value)} [{number(v.low)}, {number(v.high)}]"
            if loss
            else _method_text(result, m)
            for m, (v, _) in zip(methods, pairs, strict=True)
        ],
    )
    x = Axis("log-loss (nats)" if loss else f"{metric} (%)")
    y = Axis(names=tuple("▸ " * (m.key == recommended) + m.name for m in methods))
    return Chart(name, title, sentence, x, y, (rings, tested))


def _method_text(result: FeatureResult, method: Method) -> str:
    value, d = method.metric(result.data.metric), method.difference
    lines = [method.name, f"test: {percent(value.value)} [{share(value.low)}, {share(value.high)}]"]
    if d is not None:
        lines.append(f"{points(d.gain)} points from the recommended method: {d.word}")
    return "\n".join(filter(None, [*lines, settings(method.settings), method.note]))


def methods_table(result: FeatureResult) -> Table:
    """Return all numbers of all methods."""
    data, recommended, methods = result.data, result.recommendation.key, result.methods
    keys = [m.key for m in methods]
    differences = [None if m.key == recommended else m.difference for m in methods]
    verdicts = ["" if d is None else d.word for d in differences]
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
    if len(result.curve) < 2:
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
            f"{result.used.name}, fitted with its settings to parts of the training rows; "
            "dotted: 95 % intervals.",
            Axis("training rows", log=True),
            Axis(f"{result.data.metric} (%)"),
            tuple(
                Mark("line", rows, y, colour=style.BLUE, dash=dash, marks=name == "value")
                for name, y, dash in curves
            ),
        )
    ]
