"""A summary to paste: Markdown, and a picture of all methods."""

import io
from pathlib import Path

from resultant.analysis.result import AnalysisResult, FeatureResult
from resultant.report import methods, style
from resultant.report.charts import draw
from resultant.report.table import number, percent

SUMMARY, PICTURE = "summary.md", "methods.png"
FILES = {"summary": SUMMARY, "picture": PICTURE}

# What a table of Markdown takes for its own.
SPECIAL = str.maketrans({c: f"\\{c}" for c in "\\|*_`<>[]#"})


def write_summary(result: AnalysisResult, folder: Path) -> None:
    """Write the summary and the picture of the feature set to use."""
    (folder / SUMMARY).write_text(markdown(result), encoding="utf-8")
    drawn = io.BytesIO()
    with style.style():
        draw(methods.method_charts(result.first)[0]).savefig(drawn, format="png")
    (folder / PICTURE).write_bytes(drawn.getvalue())


def static_chart(result: FeatureResult) -> str:
    """Return the picture of all methods as SVG, for a reader without JavaScript."""
    drawn = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with style.style():
        figure = draw(methods.method_charts(result)[0])
        figure.savefig(drawn, format="svg", metadata=nothing)
    text = drawn.getvalue()
    return text[text.index("<svg") :]


def markdown(result: AnalysisResult) -> str:
    """Return the recommendation, a table of the methods, warnings and next steps."""
    f = result.first
    d, lines = f.data, [f"### {escaped(result.title)}", ""]
    rows = ", ".join(f"{n:,} {escaped(name)}" for name, n in d.splits.items())
    lines += [f"{escaped(d.classes)}, {d.dim:,} dimensions; rows: {rows}.", ""]
    lines += [escaped(c.sentence) for c in result.comparisons]
    lines += [escaped(sentence) for sentence in f.recommendation.sentences]
    lines += ["", f"| method | validation | {d.metric} | 95 % interval | log-loss |"]
    lines.append("| --- | ---: | ---: | ---: | ---: |")
    for m in f.methods:
        v = m.metric(d.metric)
        cells = percent(m.validation.value), percent(v.value)
        ends = f"{percent(v.low)} to {percent(v.high)}"
        name = f"**{escaped(m.name)}**" if m.key == f.recommendation.key else escaped(m.name)
        lines.append(f"| {name} | {' | '.join(cells)} | {ends} | {number(m.log_loss.value)} |")
    for title, texts in (
        ("Warnings", [w.text for w in d.warnings]),
        ("What to do next", list(f.steps)),
    ):
        if texts:
            lines += ["", f"**{title}**", "", *(f"- {escaped(text)}" for text in texts)]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Return a text that Markdown shows as it is."""
    return " ".join(text.split()).translate(SPECIAL)
