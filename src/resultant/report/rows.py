"""Rows to look at, and the map of the test rows."""

import colorsys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from resultant._core.text import counted
from resultant.analysis.advice import MOSTLY_RIGHT, own_errors
from resultant.analysis.result import FeatureResult
from resultant.features.origins import IMAGES
from resultant.report import style
from resultant.report.charts import Axis, Chart, Mark
from resultant.report.classes import NAMED
from resultant.report.table import Column, Table, percent
from resultant.report.thumbnails import thumbnail

# Columns about the row that another row equals.
OTHER_ROW: dict[str, Any] = {"copy in": str, "its file": str, "its row": str}
# Larger odds are shown as more than this.
MOST_ODDS = 1e6


def odds(value: float) -> str:
    return f"over {MOST_ODDS:,.0f}" if value > MOST_ODDS else f"{value:,.0f}"


# Tables of rows to look at: headings, captions, and the last columns.
ROWS = {
    "label": (
        "Likely label errors",
        "Another class is at least twice as likely as the label, by fits that did not see the "
        "row. Odds: how many times as likely.",
        ("more likely", {"odds": odds}),
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
        "Rows far from the direction of their class: three or more robust standard deviations of "
        "the logarithm of the angle above the median of its training rows.",
        ("nearest class", {"deviations": "{:.1f}".format}),
    ),
}


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
        # A file of numbers has no infinity.
        scores: list[Any] = [np.exp(table.score.clip(max=700)).tolist()]
        if kind in ("outlier", "near"):
            scores = [table.score.tolist()]
        if copies is not None:
            scores = scores if kind == "near" else []
            scores += [copies.split.tolist(), copies.file.tolist(), copies.row.tolist()]
        columns = (
            Column("row", places.row.tolist(), str),
            Column("file", places.file.tolist()),
            *(
                Column(name, values, picture if name.lower() in IMAGES else shortened)
                for name, values in places.columns.items()
            ),
            Column("split", places.split.tolist()),
            Column("label", [names[c] for c in table.label]),
            Column(other, [names[c] if c >= 0 else "" for c in table.other]),
            *(Column(n, v, form) for (n, form), v in zip(last.items(), scores, strict=True)),
        )
        if kind == "label":
            used = result.used
            title = "Unexpected labels" if used.accuracy.value < MOSTLY_RIGHT else title
            sentence += f" These labels disagree with {own_errors(used)}."
        total = f"{counted(table.total, 'row', 'rows')}, counted from 0 in the file. "
        if table.total > len(table.label):
            sentence += f" The CSV has the first {len(table.label)} rows, rows.parquet all."
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
    x, y = (
        Axis(f"{name} component, {percent(part, 0)} of the variance")
        for name, part in zip(("first", "second"), m.explained, strict=True)
    )
    by_class = [class_colour(y) for y in label.tolist()]
    by_error = [style.RED if w else style.GREY for w in wrong]
    rows, number = result.data.splits[result.data.test], f"{len(chosen):,}"
    of, these = number, ""
    if len(chosen) < rows:
        of, these = f"{number} of {rows:,}", f" of the {number} rows drawn"
    sentence = (
        f"PCA of {of} test rows; {int(wrong.sum()):,}{these} are misclassified by "
        f"{result.used.name}. "
        f"The picture has {percent(sum(m.explained), 0)} of the variance: rows that "
        "are far apart here differ, rows side by side may differ in other directions."
    )
    present = np.unique(label) if len(names) <= NAMED else []
    points = Mark(
        "points",
        m.x[chosen],
        m.y[chosen],
        colour=by_class,
        size=5,
        classes=label,
        text=text,
        legend=[(names[c], class_colour(int(c)), "circle") for c in present],
        colours={"class": by_class, "error": by_error},
    )
    return [Chart("map", "Map of the test rows", sentence, x, y, (points,))]


def shortened(text: Any) -> str:
    """Return the beginning of a long text."""
    text = str(text)
    return text if len(text) <= 120 else f"{text[:117]}..."


def class_colour(c: int) -> str:
    """Return the colour of a class; steps of the golden ratio spread any number of hues."""
    rgb = colorsys.hls_to_rgb((0.58 + 0.618034 * c) % 1, 0.5, 0.65)
    return "#" + "".join(f"{round(255 * v):02x}" for v in rgb)
