"""The page in a browser: charts, sliders, cards, tables, folds, keys, print."""

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_digits, load_wine

from browser import Browser
from resultant import ClassState, Rule, analyze, realize
from resultant.analysis.result import AnalysisResult
from resultant.report.page import write_page
from resultant.report.table import percent

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
    # A folded chart is drawn in the frame after it is shown, and text is not scaled.
    browser.wait("""[...document.querySelectorAll("svg.chart")].every((svg) =>
        svg.targets && Math.abs(svg.drawnWidth - svg.clientWidth) <= 1)""")
    assert browser.errors == []
    assert browser.requests == [path.as_uri()]
    # Nothing is wider than the window.
    assert browser.js("document.documentElement.scrollWidth") <= width
    charts = browser.js("""[...document.querySelectorAll("svg.chart")].map((svg) =>
        [svg.targets.length, /NaN/.test(svg.innerHTML)])""")
    assert len(charts) == 12
    assert all(targets > 0 and not broken for targets, broken in charts)


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
    rows = browser.js("document.querySelector('[name=rows]').value")
    few = "the test rows, each with its 4 nearest of 12 classes; the tables have all"
    assert rows == ("all 240 test rows of the tables" if width == 12 else few)
    label, weight, equal = map(torch.tensor, (e.label, e.weight, e.equal))
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
        assert seen["loss"] == pytest.approx(float((losses * equal).sum()), abs=1e-4), move
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
    browser.wait("document.getElementById('1-store-npz-theory').open")
    assert browser.js(opened) == [True, True]
    assert browser.errors == []
    browser.open(path)
    browser.js("dispatchEvent(new Event('beforeprint'))")
    assert browser.js("document.querySelectorAll('details:not([open])').length") == 0
    browser.send("Emulation.setEmulatedMedia", media="print")
    heights = "[...document.querySelectorAll('svg.chart')].map((e) => e.clientHeight)"
    browser.wait(f"Math.min(...{heights}) > 50")
    assert len(browser.js(heights)) == 24
    browser.send("Emulation.setEmulatedMedia", media="")
    browser.js("dispatchEvent(new Event('afterprint'))")
    assert browser.js("document.querySelectorAll('details:not([open])').length") > 0
    assert base64.b64decode(browser.send("Page.printToPDF")["data"]).startswith(b"%PDF")


def whitened() -> pd.DataFrame:
    """Digits in a long tail, with wrong labels, whose covariance hardly shrinks."""
    (x, y), rng = load_digits(return_X_y=True), np.random.default_rng(2)
    sizes = (170, 150, 120, 100, 80, 60, 45, 35, 25, 15)
    rows = [rng.permutation(np.flatnonzero(y == c))[:n] for c, n in enumerate(sizes)]
    index = rng.permutation(np.concatenate(rows))
    x = np.tanh(x[index] / 16 @ rng.normal(size=(64, 96)) / 8).astype(np.float32)
    y = y[index]
    wrong = rng.choice(len(y), 40, replace=False)
    y[wrong] = (y[wrong] + rng.integers(1, 10, 40)) % 10
    return pd.DataFrame({"embedding": list(x), "label": y})


def plain() -> pd.DataFrame:
    """Spherical classes in a long tail, which need no whitening."""
    rng, sizes = np.random.default_rng(3), np.geomspace(60, 3, 40).round().astype(int)
    y = np.repeat(np.arange(40), sizes)
    centres = rng.normal(size=(40, 48))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    x = (centres[y] + 0.22 * rng.normal(size=(len(y), 48))).astype(np.float32)
    return pd.DataFrame({"embedding": list(x), "label": y})


def columns() -> pd.DataFrame:
    """Columns in float64 of very different units."""
    x, y = load_wine(return_X_y=True)
    return pd.DataFrame(x).add_prefix("column ").assign(label=y)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "options", "off"),
    [
        (whitened, {}, False),
        (plain, {}, True),
        (plain, {"metric": "accuracy", "temperature": 0.0123456}, True),
        (columns, {"fit_fraction": 0.7}, False),
    ],
)
def test_sliders_begin_with_the_numbers_of_the_table(
    browser: Browser,
    table: Callable[[], pd.DataFrame],
    options: dict[str, Any],
    off: bool,
    tmp_path: Path,
) -> None:
    """From a user's table to the digits that are printed: settings, accuracies, log-loss and
    calibration error of the same method on the same rows, at the start and by the button."""
    one = analyze(table(), labels="label", out=tmp_path, **options).first
    assert one.explorer is not None
    (method,) = (m for m in one.methods if m.name == one.explorer.method)
    assert method.reliability is not None and bool(method.settings.get("whiten")) != off
    browser.open(tmp_path / "index.html")
    form = "document.querySelector('form.explorer')"
    shown = {"accuracy": f"{one.data.metric} {percent(method.metric(one.data.metric).value)}"}
    shown |= {name: f"{name} {percent(v)}" for name, v in method.groups.items() if v == v}
    status = f"{', '.join(shown.values())}; log-loss {method.log_loss.value:.3f}, "
    status += f"calibration error {percent(method.reliability.error)}."
    for _ in range(2):
        assert browser.js(f"{form}.querySelector('.status').textContent") == status
        shrinkage = browser.js(f"{form}.elements.metric.nextElementSibling.value")
        assert shrinkage == ("off" if off else f"{method.settings['shrinkage']:g}")
        browser.js(f"{MOVE}({json.dumps(MOVES[1])})")
        assert browser.js(f"{form}.querySelector('.status').textContent") != status
        browser.js(f"{form}.querySelector('button').click()")
        browser.settle()
    rows = browser.js(f"{form}.closest('section').querySelector('[name=rows]').value")
    assert rows == f"all {one.data.evaluated} test rows of the tables"
    assert browser.errors == []
