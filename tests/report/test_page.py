"""The page, its files, its sentences, and pictures of the rows of a user's folder."""

import base64
import csv
import hashlib
import io
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import resultant
from resultant.analysis.result import AnalysisResult, Recommendation
from resultant.report import classes, methods, page, rows, summary
from resultant.report.page import write_page
from resultant.report.theory import setting
from resultant.report.thumbnails import SIDE, thumbnail


def html(result: AnalysisResult) -> str:
    return page.render(result)[1]


def test_sections(result: AnalysisResult) -> None:
    """In order, with the promised contents, and without another resource or script."""
    text = html(result)
    anchors = ("use", "which", "look", "the-map", "try", "theory", "glossary")
    places = [text.index(f'id="{name}"') for name in anchors]
    assert places == sorted(places)
    for sentence in result.first.recommendation.sentences:
        assert sentence.replace(" %", "\u00a0%") in text
    assert "2 rows are in train and in another split, as exact duplicates" in text
    steps = [step.replace(" %", "\u00a0%") for step in result.first.steps]
    assert steps and all(step in text for step in steps)
    opened = text.index("VMFClassifier.load(&#34;classifier.safetensors&#34;)")
    assert text.index("<details>") > opened
    tables = [table for table in result.first.rows.values() if len(table.label)]
    assert text.count('href="rows.csv"') == 1 + len(tables) >= 2
    # Numbers below the theory are those of the paper; its labels of LaTeX are not shown.
    root = Path(__file__).parents[2] / "reproduction" / "resultant_reproduction"
    paper = tomllib.loads((root / "printed" / "paper.toml").read_text())
    printed = re.findall(r'<p class="paper">((?:Figure|Table|App|Eq).*?)</p>', text)
    parts = [part for parts in printed for part in parts.split("; ")]
    numbers = {one["number"].translate({40: None, 41: None}) for one in paper.values()}
    assert len(parts) == 2 and set(parts) <= numbers
    assert not re.findall(r"\b(?:fig|tab|eq|sec):[a-z]", text)
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', text)
    (allowed,) = re.findall(r"script-src '(sha256-[^']+)'", text)
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert allowed == f"sha256-{digest}"
    # The name of the first class is text.
    assert "</script><b>&" not in text.replace("\n", "")
    assert "&lt;/script&gt;&lt;b&gt;&amp;" in text


def test_feature_sets_and_verdict(several: AnalysisResult, tmp_path: Path) -> None:
    text = write_page(several, tmp_path).read_text()
    assert several.comparisons[0].sentence in text
    # The chosen set is open.
    sets = re.findall(r'<details class="set" id="([^"]+)"( open)?>', text)
    assert sets == [("1-store-npz", ""), ("2-b-npz", " open")]
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    files = {p.name for p in (tmp_path / "tables").iterdir()}
    assert {"1-store-npz-methods.csv", "2-b-npz-methods.csv"} <= files


def test_classes_are_named_up_to_thirty(
    result: AnalysisResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the axes, in the matrix and in the legend of the map."""
    one = result.first
    assert one.confusion.order is not None
    names, matrix = one.data.class_names, [one.data.class_names[c] for c in one.confusion.order]
    worst = [names[c] for c in np.argsort(one.used.class_accuracy, kind="stable")]
    for named in (True, False):
        ranked, *_, confused = classes.class_charts(one)
        (drawn,) = rows.map_charts(one, 100)
        assert (list(ranked.y.names) == worst) == named
        assert (list(confused.x.names) == list(confused.y.names) == matrix) == named
        assert ([label for label, *_ in drawn.marks[0].legend] == list(names)) == named
        low, high = (np.array(getattr(ranked.marks[-1], end)) for end in ("low", "high"))
        assert (bool(len(low)) and bool((low < high).all())) == named
        for module in (classes, rows):
            monkeypatch.setattr(module, "NAMED", 11)


def test_one_row_for_all_vmf_rules(result: AnalysisResult) -> None:
    """The recommended one or the best; the others are in a chart of their own."""
    one = result.first
    keys = [m.key for m in one.methods if m.family != "baseline"]
    rules = [k for k in keys if one.method(k).family == "vmf" and k not in ("mixture", "refined")]
    used = one.recommendation.key
    assert len(rules) > 1 and used in rules
    for recommended in (used, "LogisticRegression"):
        advice = replace(one.recommendation, key=recommended)
        changed = replace(one, recommendation=advice)
        scores, losses = methods.method_charts(changed)
        best = used if recommended == used else rules[0]
        shown = [one.method(k).name for k in keys if k not in rules or k == best]
        for chart in (scores, losses):
            assert [name.removeprefix("▸ ") for name in chart.y.names] == shown
        (unfolded,) = methods.rule_charts(changed)
        assert len(unfolded.y.names) == len(rules)
    first = next(m for m in one.methods if m.name == shown[0])
    assert losses.marks[1].x[0] == first.log_loss.value
    assert losses.marks[0].x[0] == first.validation_loss.value


def test_a_method_of_a_sample_has_another_mark(result: AnalysisResult) -> None:
    one, sampled = result.first, "LogisticRegression(balanced)"
    note = "Fitted to a stratified sample of 9 of 99 rows."
    some = replace(one.method(sampled), rows=9, note=note)
    changed = replace(one, methods=tuple(some if m.key == sampled else m for m in one.methods))
    charts = methods.method_charts(changed)
    named: list[str] = []
    for chart in charts:
        mark, named = chart.marks[1], [n.removeprefix("▸ ") for n in chart.y.names]
        squares = [n for n, shape in zip(named, mark.shape, strict=True) if shape == "square"]
        assert squares == [some.name]
        assert [label for label, _, shape in mark.legend if shape == "square"] == [
            "scikit-learn, fitted to a sample"
        ]
    assert note in charts[0].marks[1].text[named.index(some.name)]


def test_sentences_about_the_map_and_the_theory(result: AnalysisResult) -> None:
    one = result.first
    assert one.map is not None and one.theory is not None and one.explorer is not None
    (pca,) = rows.map_charts(one, 100)
    share = f"{100 * sum(one.map.explained):.0f}"
    assert f"has {share}\u00a0% of the variance" in pca.sentence
    # The paper bounds 1 / tau; here p/2 - 1 = 7.
    for tau, outside in ((0.2, False), (0.1, True)):
        text = setting(replace(one, theory=replace(one.theory, tau=tau)))
        assert one.explorer.method in text and f"τ = {tau:g}" in text
        assert ("the expansions of the paper are for smaller ones" in text) == outside


def test_flags_of_a_weak_classifier_are_not_called_errors(result: AnalysisResult) -> None:
    one = result.first
    for right, title, sentence in (
        (0.95, "Likely label errors", "Odds: how many times as likely."),
        (0.45, "Unexpected labels", "which is itself wrong on 55.0 % of the test rows"),
    ):
        used = replace(one.used, accuracy=replace(one.used.accuracy, value=right))
        found = {**one.rows, "label": replace(one.rows["duplicate"], kind="label", copies=None)}
        first, *_ = rows.row_tables(replace(one, methods=(used,), rows=found), "rows.csv")
        assert first.title == title and sentence in first.sentence
        assert "The CSV has the first" not in first.sentence
    score = np.full(len(one.rows["duplicate"].label), np.log(50.0))
    score[0] = 20.0
    more = replace(found["label"], total=300, score=score)
    first, *_ = rows.row_tables(replace(one, rows={"label": more}), "rows.csv")
    kept = len(more.label)
    assert "300 rows, counted from 0" in first.sentence
    odds = first.columns[-1]
    shown = [odds.format(value) for value in odds.values[:2]]
    assert odds.values[0] == pytest.approx(np.exp(20.0)) and shown == ["over 1,000,000", "50"]
    assert f"The CSV has the first {kept} rows, rows.parquet all." in first.sentence


def test_without_recommendation_and_optional_parts(result: AnalysisResult) -> None:
    sentence = "These features do not carry these labels."
    bare = replace(
        result.first,
        **dict.fromkeys(("map", "explorer", "theory")),
        recommendation=Recommendation(None, "native", (sentence,), ""),
        rows={},
        data=replace(result.first.data, group_names=()),
        methods=tuple(replace(m, groups={}) for m in result.first.methods),
    )
    text = html(replace(result, features=(bare,)))
    shown = re.sub(r"<(style|script|dl)\b.*?</\1>", "", text, flags=re.DOTALL)
    assert not re.findall(r"\b(?:medium|tail)\b", shown)
    assert sentence in text
    assert "VMFClassifier.load" not in text and 'class="explorer"' not in text
    assert "No likely label errors" in text


@pytest.mark.slow
@pytest.mark.parametrize("sets", [1, 4])
def test_large_pages(result: AnalysisResult, sets: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """They stay below the limit: with more cosines than fit, and a limit that needs fewer rows."""
    e = result.first.explorer
    assert e is not None
    rng, rows, width = np.random.default_rng(0), 4000, 200
    large = replace(
        e,
        **{name: np.arange(rows) % 12 for name in ("row", "label")},
        **dict.fromkeys(("weight", "equal"), np.full(rows, 1 / rows)),
        candidates=rng.integers(12, size=(rows, width)),
        cosine=rng.uniform(-1, 1, (len(e.shrinkage), rows, width)),
    )
    one = replace(result.first, explorer=large)
    many = replace(result, features=(one,) * sets)
    size = len(html(many).encode())
    assert size <= page.LARGEST == 4_000_000
    monkeypatch.setattr(page, "LARGEST", round(0.9 * size))
    text = html(many)
    assert len(text.encode()) <= 0.9 * size and "class 12" in text


@pytest.mark.slow
def test_tables_and_figures_as_files(result: AnalysisResult, tmp_path: Path) -> None:
    text = write_page(result, tmp_path, figures=True).read_text()
    assert {p.stem for p in (tmp_path / "tables").iterdir()} == {"methods", "confused", "classes"}
    with (tmp_path / "tables" / "methods.csv").open() as file:
        first, *_ = csv.DictReader(file)
    assert float(first["accuracy"]) == result.first.methods[0].accuracy.value
    drawn = re.findall(r'data-chart="([^"]+)"', text)
    assert len(drawn) == 10
    assert {p.name for p in (tmp_path / "figures").iterdir()} == {
        f"{name}.{suffix}" for name in drawn for suffix in ("pdf", "png")
    }
    assert 'href="figures/gains.pdf"' in text


def test_a_summary_to_paste(result: AnalysisResult, tmp_path: Path) -> None:
    """Markdown in which no name of a class is a link or a tag, and a picture."""
    summary.write_summary(result, tmp_path)
    text = (tmp_path / "summary.md").read_text()
    one = result.first
    for sentence in (*one.recommendation.sentences, *one.steps):
        assert summary.escaped(sentence) in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 2 + len(one.methods)
    for line, method in zip(table[2:], one.methods, strict=True):
        bold = f"**{method.name}**" if method.key == one.recommendation.key else method.name
        assert line.startswith(f"| {bold} | {100 * method.validation.value:.1f}")
    assert summary.escaped("[a](b) <i>\n# x | `y`") == r"\[a\](b) \<i\> \# x \| \`y\`"
    assert (tmp_path / "methods.png").read_bytes().startswith(b"\x89PNG")


def test_without_javascript(several: AnalysisResult) -> None:
    """The chart of the methods of the chosen set, once, and no empty boxes."""
    text = html(several)
    hidden, drawn = re.findall(r"<noscript>(.*?)</noscript>", text, re.DOTALL)
    assert "svg.chart" in hidden and "display: none" in hidden
    assert drawn.count("<svg") == 1 and "script" not in drawn.lower().replace("javascript", "")
    for name in methods.method_charts(several.first)[0].y.names:
        assert name.replace("▸ ", "") in drawn


@pytest.mark.slow
@pytest.mark.usefixtures("one_precision")
def test_rows_to_look_at_have_their_pictures(tmp_path: Path) -> None:
    """From a table that names images to the page: the first row's picture is of its colour."""
    rng, y = np.random.default_rng(0), np.arange(120) % 3
    X = np.eye(6)[y] + 0.3 * rng.normal(size=(120, 6))
    shown = np.where(np.arange(120) == 7, (y + 1) % 3, y)
    (tmp_path / "pictures").mkdir()
    for i in range(120):
        colour = (255, 0, 0) if i == 7 else (0, 0, 255)
        Image.new("RGB", (200, 100), colour).save(tmp_path / "pictures" / f"{i}.png")
    table = pd.DataFrame(X, columns=[f"x{i}" for i in range(6)])
    table = table.assign(label=np.array(list("abc"))[shown])
    table["image"] = [f"pictures/{i}.png" for i in range(120)]
    table.to_parquet(tmp_path / "z.parquet")
    resultant.analyze(tmp_path / "z.parquet", out=tmp_path / "out", references="none")
    page = (tmp_path / "out" / "index.html").read_text()
    _, rows = page.split('aria-label="Likely label errors"', 1)
    source, name = re.findall(r'src="data:image/jpeg;base64,([^"]+)"[^>]*> ([^<]+)<', rows)[0]
    assert name == "pictures/7.png"
    picture: Any = Image.open(io.BytesIO(base64.b64decode(source)))
    assert picture.size == (SIDE, SIDE // 2)
    assert picture.getpixel((9, 9))[0] > 200 > 50 > picture.getpixel((9, 9))[2]
    written = pd.read_csv(tmp_path / "out" / "rows.csv")
    assert written.image[0] == "pictures/7.png"


def test_other_names_stay_text(tmp_path: Path) -> None:
    """Pictures outside of the folder, broken ones, and names that are markup."""
    folder = tmp_path / "data"
    folder.mkdir()
    Image.new("RGB", (9, 9)).save(tmp_path / "secret.png")
    (folder / "broken.png").write_bytes(b"no image")
    Image.new("RGB", (9, 9)).save(folder / "<b>.png")
    for name in ("../secret.png", str(tmp_path / "secret.png"), "broken.png", "no.png", "x.txt"):
        found = thumbnail(name, [folder])
        assert found == name and type(found) is str
    assert str(thumbnail("<b>.png", [folder])).endswith("> &lt;b&gt;.png")
