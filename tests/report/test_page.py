"""The page, its files and its style; in a browser: charts, sliders, tables, folds, keys, print."""

import base64
import csv
import hashlib
import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex, to_rgb

from browser import Browser
from resultant import ClassState, Rule, realize
from resultant.analysis.result import AnalysisResult, Recommendation
from resultant.report import page, sections, style, summary
from resultant.report.charts import Axis, Chart, Mark, draw, level, numbers
from resultant.report.page import write_page
from resultant.report.table import SHOWN, Column, Table
from resultant.report.theory import setting


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
    assert len(parts) == 7 and set(parts) <= numbers
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
    worst = [names[c] for c in np.argsort(sections.evaluated(one).class_accuracy, kind="stable")]
    for named in (True, False):
        classes, *_, confused = sections.class_charts(one)
        (drawn,) = sections.map_charts(one, 100)
        assert (list(classes.y.names) == worst) == named
        assert (list(confused.x.names) == list(confused.y.names) == matrix) == named
        assert ([label for label, *_ in drawn.marks[0].legend] == list(names)) == named
        low, high = (np.array(getattr(classes.marks[-1], end)) for end in ("low", "high"))
        assert (bool(len(low)) and bool((low < high).all())) == named
        monkeypatch.setattr(sections, "NAMED", 11)


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
        scores, losses = sections.method_charts(changed)
        best = used if recommended == used else rules[0]
        shown = [one.method(k).name for k in keys if k not in rules or k == best]
        for chart in (scores, losses):
            assert [name.removeprefix("▸ ") for name in chart.y.names] == shown
        (unfolded,) = sections.rule_charts(changed)
        assert len(unfolded.y.names) == len(rules)
    first = next(m for m in one.methods if m.name == shown[0])
    assert losses.marks[1].x[0] == first.log_loss.value
    assert losses.marks[0].x[0] == first.validation_loss.value


def test_sentences_about_the_map_and_the_theory(result: AnalysisResult) -> None:
    one = result.first
    assert one.map is not None and one.theory is not None and one.explorer is not None
    (pca,) = sections.map_charts(one, 100)
    share = f"{100 * sum(one.map.explained):.0f}"
    assert f"has {share}\u00a0% of the variance" in pca.sentence
    unknown = replace(one.map, kind="UMAP", explained=(np.nan, np.nan))
    (other,) = sections.map_charts(replace(one, map=unknown), 100)
    assert "of the variance" not in other.sentence and "Near rows are similar" in other.sentence
    # The paper bounds 1 / tau; here p/2 - 1 = 7.
    for tau, outside in ((0.2, False), (0.1, True)):
        theory = replace(one.theory, space=replace(one.theory.space, tau=tau))
        text = setting(replace(one, theory=theory))
        assert one.explorer.method in text and f"τ = {tau:g}" in text
        assert ("the expansions of the paper are for smaller ones" in text) == outside


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
        weight=np.full(rows, 1 / rows),
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


def test_table(tmp_path: Path) -> None:
    numbers = [0.1234567890123, *map(float, range(SHOWN))]
    values = ["=1+1", *(SHOWN * ["x"])], numbers, (1 + SHOWN) * [None]
    table = Table("t", "T", "", tuple(map(Column, ("name", "v", "none"), values)))
    table.write(tmp_path / "t.csv")
    first, *others = (tmp_path / "t.csv").read_text().splitlines()[1:]
    assert first == "'=1+1,0.1234567890123," and len(others) == SHOWN
    assert len(table.shown()) == SHOWN
    # A column without values is left out of the page.
    assert [(c.name, numeric) for c, numeric in table.heads()] == [("name", False), ("v", True)]
    assert table.shown()[0][1] == ("0.1235", "0.1234567890123", True)


@pytest.mark.slow
def test_tables_and_figures_as_files(result: AnalysisResult, tmp_path: Path) -> None:
    text = write_page(result, tmp_path, figures=True).read_text()
    assert {p.stem for p in (tmp_path / "tables").iterdir()} == {"methods", "confused", "classes"}
    with (tmp_path / "tables" / "methods.csv").open() as file:
        first, *_ = csv.DictReader(file)
    assert float(first["accuracy"]) == result.first.methods[0].accuracy.value
    drawn = re.findall(r'data-chart="([^"]+)"', text)
    assert len(drawn) == 14
    assert {p.name for p in (tmp_path / "figures").iterdir()} == {
        f"{name}.{suffix}" for name in drawn for suffix in ("pdf", "png")
    }
    assert 'href="figures/gains.pdf"' in text


def test_marks_as_json_and_in_matplotlib(tmp_path: Path) -> None:
    names, plain = Axis(names=("a", "b")), Axis()
    marks = level(0.0), Mark("points", np.array([0.123456789, np.nan]), [1.0, 2.0])
    chart = Chart("c", "C", "", Axis("x", log=True), plain, marks)
    assert not chart.empty and Chart("c", "C", "", plain, plain, marks[:1]).empty
    assert numbers(chart)["x"] == {"label": "x", "log": True} and numbers(plain) == {}
    assert numbers(marks[0])["at"] == 0.0 and numbers(marks[1])["x"] == [0.123457, None]
    points = Mark(
        *("points", [1.0, 2.0], [0.0, 1.0], "p", ["#000000", "#ff0000"]),
        low=[0.5, 1.5],
        high=[1.5, 3.0],
    )
    line = Mark("line", [1.0, 2.0], [0.0, 1.0], "line", marks=True)
    (ax,) = draw(Chart("c", "C", "", Axis("x", log=True), names, (points, line))).axes
    assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "b"]
    assert ax.yaxis_inverted() and ax.get_xscale() == "log"
    segments: Any = ax.collections[0]
    assert [s[:, 0].tolist() for s in segments.get_segments()] == [[0.5, 1.5], [1.5, 3.0]]
    cells = Mark("cells", [0, 1], [0, 1], share=[0.5, 1.0], text=["", ""])
    (ax,) = draw(Chart("c", "C", "", names, names, (cells,), square=True)).axes
    assert len(ax.collections) == 1
    chart = Chart("c", "C", "", plain, plain, (Mark("bars", [0, 1], [2, 3], width=0.5),))
    figure, again = draw(chart), draw(chart)
    bars: Any = figure.axes[0].patches
    assert [bar.get_height() for bar in bars] == [2.0, 3.0]
    files = style.save(figure, tmp_path / "new" / "a.b")
    assert [f.name for f in files] == ["a.b.pdf", "a.b.png"]
    before = files[0].read_bytes()
    assert before.startswith(b"%PDF") and files[1].read_bytes().startswith(b"\x89PNG")
    # No dates within: the same figure gives the same file.
    style.save(again, tmp_path / "new" / "a.b")
    assert files[0].read_bytes() == before


def contrast(*colours: str) -> float:
    """The contrast of WCAG 2: 1 for equal colours, 21 for black on white."""
    parts = np.array([to_rgb(colour) for colour in colours])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    low, high = sorted(linear @ (0.2126, 0.7152, 0.0722))
    return (high + 0.05) / (low + 0.05)


def test_marks_and_text_are_visible_on_light_and_dark() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    figures = pytest.importorskip("resultant_reproduction.cells.charts")
    shades = [to_hex(shade) for n in (1, 2, 5, 9) for shade in figures.shades(n)]
    css = Path(page.__file__).with_name("templates") / "page.css"
    roots = re.findall(r":root \{(.*?)\}", css.read_text(), re.DOTALL)
    assert len(roots) == 2
    for root in roots:
        palette = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", root))
        for colour in (*style.CYCLE, style.GREY, *shades):
            # WCAG asks for 3, which orange and sky blue do not have on white.
            assert contrast(colour, palette["card"]) > 2
        for ground in ("page", "card", "hint", "good"):
            # WCAG: 4.5 for text.
            for ink in ("text", "soft", "link", "accent", "warn"):
                assert contrast(palette[ink], palette[ground]) > 4.5, (ink, ground)


# Realization, beta, position of the temperature, prior, and metric.
MOVES = [
    ("angular", 0.5, 0.5, 0.0, 0),
    ("native", 0.5, 0.3, 1.0, 1),
    ("temperature", 0.25, 0.6, 0.0, 0),
    ("preserve", 1.5, 0.5, -0.5, 1),
    ("cosine", 0.0, 0.8, 0.0, 0),
]
MOVE = """(([realization, beta, temperature, prior, metric]) => {
  const form = document.querySelector("form.explorer");
  for (const [name, value] of Object.entries({ realization, beta, temperature, prior, metric }))
    form.elements[name].value = value;
  form.dispatchEvent(new Event("input", { bubbles: true }));
  return JSON.parse(form.dataset.result);
})"""


@pytest.fixture(scope="module")
def path(result: AnalysisResult, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(result, tmp_path_factory.mktemp("page"))


@pytest.mark.slow
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, False), (1280, True)])
def test_everything_is_drawn(browser: Browser, path: Path, width: int, dark: bool) -> None:
    browser.open(path, width=width, dark=dark)
    browser.js("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    browser.settle()
    assert browser.errors == []
    assert browser.requests == [path.as_uri()]
    # Nothing is wider than the window, and text is not scaled.
    assert browser.js("document.documentElement.scrollWidth") <= width
    charts = browser.js("""[...document.querySelectorAll("svg.chart")].map((svg) =>
        [svg.targets.length, svg.drawnWidth - svg.clientWidth, /NaN/.test(svg.innerHTML)])""")
    assert len(charts) == 17
    assert all(targets > 0 and abs(gap) <= 1 and not broken for targets, gap, broken in charts)


@pytest.mark.slow
@pytest.mark.parametrize("width", [12, 4])
def test_sliders_equal_the_library(
    browser: Browser, result: AnalysisResult, width: int, tmp_path: Path
) -> None:
    """For all classes or four per row; sliders start with any settings, and move to others."""
    e = result.first.explorer
    assert e is not None
    index = ((torch.tensor(e.label)[:, None] + torch.arange(width)) % 12).sort(1).values
    cosine = np.take_along_axis(e.cosine, index[None].repeat(len(e.cosine), 1, 1).numpy(), 2)
    start = {"scale": 1.0, "temperature": 0.002, "prior": -1.5, "beta": 2.5, "metric": 1}
    start = {**e.start, **start}
    e = replace(e, candidates=index.numpy(), cosine=cosine, start=start)
    browser.open(write_page(AnalysisResult("t", (replace(result.first, explorer=e),)), tmp_path))
    seen = browser.js("JSON.parse(document.querySelector('form.explorer').dataset.result)")
    assert seen["settings"] == {name: v for name, v in start.items() if name != "scale"}
    label, weight = torch.tensor(e.label), torch.tensor(e.weight)
    mu = torch.eye(12, e.dim, dtype=torch.float64)
    for move in MOVES:
        seen = browser.js(f"{MOVE}({json.dumps(move)})")
        realization, beta, _, prior, metric = move
        state = ClassState(mu, torch.tensor(e.kappa[metric]), torch.ones(12))
        classes = realize(state, Rule(seen["settings"]["temperature"], realization, beta))
        rho = torch.zeros(len(label), 12, dtype=torch.float64)
        scores = classes.at(rho.scatter(1, index, torch.tensor(e.cosine[metric]).double()))
        scores = scores + prior * torch.tensor(e.log_prior)
        kept = torch.zeros_like(rho, dtype=torch.bool).scatter(1, index, True)
        scores = scores.masked_fill(~kept, -torch.inf)
        accuracy = float(((scores.argmax(1) == label) * weight).sum())
        losses = torch.nn.functional.cross_entropy(scores, label, reduction="none")
        assert seen["all"] == pytest.approx(accuracy, abs=1e-12), move
        assert seen["loss"] == pytest.approx(float((losses * weight).sum()), abs=1e-4), move
    assert browser.errors == []
    # A class of kappa zero has no temperature.
    for realization in ("temperature", "preserve"):
        rule = f"vmf.realize([0, 50], 0.1, 16, '{realization}', 0.5)[0]"
        for values in ("score(0.5)", "slope(0.5)"):
            assert browser.js(f"Number.isNaN({rule}.{values})")


@pytest.mark.slow
def test_cards_map_and_tables(browser: Browser, path: Path, result: AnalysisResult) -> None:
    """Cards by pointer and keys; colours, zoom and search; a table sorted by a column."""
    browser.open(path)
    box = browser.js("""(() => { const svg = document.querySelector("svg[data-chart=methods]");
        svg.scrollIntoView({ block: "center" }); const { left, top } = svg.getBoundingClientRect();
        const [x, y] = svg.targets.at(-1); return [left + x + 3, top + y + 3]; })()""")
    browser.mouse(*box)
    card = "document.querySelector('.chart-card')"
    last = result.first.methods[-2].name
    assert f"{last}\ntest: " in browser.js(f"{card}.textContent")
    browser.mouse(2, 2)
    assert browser.js(f"{card}.hidden")
    browser.js("document.querySelector('svg[data-chart=gains]').closest('details').open = true")
    browser.js("document.querySelector('svg[data-chart=classes]').focus()")
    browser.key("ArrowRight", 39)
    (method,) = (m for m in result.first.methods if m.key == "angular")
    first = method.class_accuracy.argmin()
    assert browser.js(f"{card}.textContent").startswith(result.first.data.class_names[first])
    browser.key("Escape", 27)
    assert browser.js(f"{card}.hidden")
    svg = "document.querySelector('svg[data-chart=map]')"
    circles = f"[...{svg}.querySelectorAll('circle')]"
    colours = f"new Set({circles}.map((c) => c.style.fill)).size"
    assert browser.js(colours) == 12
    browser.js("document.querySelector('[value=error]').click()")
    assert browser.js(colours) == 2
    number = browser.js(f"{circles}.length")
    browser.js("document.querySelector('[data-map] button[value=\"2\"]').click()")
    assert 0 < browser.js(f"{circles}.length") < number
    browser.js("document.querySelector('[data-map] button[value=\"0\"]').click()")
    assert browser.js(f"{circles}.length") == number
    browser.js("""(() => { const form = document.querySelector("[data-search]");
        form.elements.name.value = "class 12"; form.dispatchEvent(new Event("input")); })()""")
    assert browser.js(f"{svg}.querySelectorAll('.ring').length") == 20
    assert browser.js("document.querySelectorAll('tr.followed').length") >= 1
    column = """[...document.querySelectorAll("[aria-label='All classes'] tbody tr")]
        .map((row) => Number(row.cells[2].dataset.key))"""
    click = "document.querySelectorAll(\"table[aria-label='All classes'] th button\")[2].click()"
    browser.js(click)
    falling = browser.js(column)
    assert falling == sorted(falling, reverse=True) and len(falling) == 12
    browser.js(click)
    assert browser.js(column) == falling[::-1]


@pytest.mark.slow
def test_links_and_print_open_folds(
    browser: Browser, several: AnalysisResult, tmp_path: Path
) -> None:
    browser.open(path := write_page(several, tmp_path))
    opened = "[...document.querySelectorAll('details.set')].map((e) => e.open)"
    assert browser.js(opened) == [False, True]
    browser.js("location.hash = '#1-store-npz-theory'")
    browser.settle()
    assert browser.js(opened) == [True, True]
    assert browser.js("document.getElementById('1-store-npz-theory').open")
    assert browser.errors == []
    browser.open(path)
    browser.js("dispatchEvent(new Event('beforeprint'))")
    assert browser.js("document.querySelectorAll('details:not([open])').length") == 0
    browser.send("Emulation.setEmulatedMedia", media="print")
    browser.settle()
    heights = browser.js("[...document.querySelectorAll('svg.chart')].map((e) => e.clientHeight)")
    assert len(heights) == 34 and min(heights) > 50
    browser.send("Emulation.setEmulatedMedia", media="")
    browser.js("dispatchEvent(new Event('afterprint'))")
    assert browser.js("document.querySelectorAll('details:not([open])').length") > 0
    assert base64.b64decode(browser.send("Page.printToPDF")["data"]).startswith(b"%PDF")


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
    for name in sections.method_charts(several.first)[0].y.names:
        assert name.replace("▸ ", "") in drawn
