"""The page of a report in Chromium: sliders, hover, clicks, keyboard, colours, paper."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from browser import Browser
from resultant import certificate, class_scores, realize
from resultant.analysis import FrozenSpace
from resultant.analysis.arcs import arcs
from resultant.classes.groups import GROUPS
from resultant.classes.rule import REALIZATIONS, Rule
from resultant.decisions.boundaries import short_arc_roots
from resultant.report.comparison import verdict
from resultant.report.comparison_page import comparison_page
from resultant.report.explorer import Side
from resultant.report.page import write_page
from small_features import NAMES

pytestmark = pytest.mark.slow

PAPER = {"width": 718, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
GROUP = "pro-jection"
EXPLORER = f"explorers['{GROUP}']"
# Text of what appears beside the mouse.
TOOLTIP = (
    "[...document.querySelectorAll('.bk-Tooltip')].map((e) => e.shadowRoot.textContent).join()"
)


@pytest.fixture
def kept(browser: Browser, folder: Path) -> Browser:
    """The page in a wide window as the test before left it: tests set all that they read."""
    page = folder / "index.html"
    if browser.js("location.href + innerWidth") != f"{page.as_uri()}1280":
        browser.open(page)
    return browser


def settings(browser: Browser, rule: str, tau: int, beta: float, gamma: float) -> None:
    """Move the controls as a person does, to the temperature of number ``tau``."""
    values = {"rule": REALIZATIONS.index(rule), "tau": tau, "beta": beta, "gamma": gamma}
    browser.js(f"""for (const [name, value] of Object.entries({json.dumps(values)})) {{
      const input = document.querySelector("form.explore").elements[name];
      input.value = value;
      input.dispatchEvent(new Event("input", {{ bubbles: true }}));
    }}""")


def place(browser: Browser, chart: str, c: int) -> dict[str, float]:
    """The position in the window of a class in a figure."""
    return browser.js(f"""(() => {{
      const own = Object.values(figures.drawn).find((o) => o.tables["{GROUP}-{chart}"]);
      const view = own.plots.map((p) => Bokeh.index.find_one(p))
        .find((v) => v?.el?.closest("#plot-{GROUP}-{chart}"));
      view.el.scrollIntoView({{ block: "center", behavior: "instant" }});
      const {{ x, y, source }} = own.rings.find((r) => r.x.startsWith("{GROUP}-{chart}-"));
      const box = view.el.getBoundingClientRect();
      return {{
        x: box.left + view.frame.x_scale.compute(source.data[x][{c}]),
        y: box.top + view.frame.y_scale.compute(source.data[y][{c}]),
      }};
    }})()""")


@pytest.mark.parametrize(("width", "dark"), [(390, True), (834, False), (1280, False)])
def test_the_page_opens(browser: Browser, folder: Path, width: int, dark: bool) -> None:
    """All sections are drawn within the window, without errors and without requests."""
    path = folder / "index.html"
    browser.open(path, width=width, dark=dark)
    browser.js("for (const e of document.querySelectorAll('details.section')) e.open = true")
    browser.wait("""[...document.querySelectorAll(".plot")].every((e) => {
      const box = e.firstElementChild?.getBoundingClientRect();
      return box && box.width > 200 && box.height > 150;
    })""")
    browser.settle()
    assert browser.js("document.documentElement.scrollWidth") <= width
    assert browser.errors == []
    assert [r for r in browser.requests if not r.startswith("data:")] == [path.as_uri()]
    ink, back = (
        sum(map(int, re.findall(r"\d+", browser.js(f"getComputedStyle(document.body).{name}"))[:3]))
        for name in ("color", "backgroundColor")
    )
    assert (back > 600) != dark and abs(ink - back) > 400
    axis = browser.js(f"figures.drawn['{GROUP}-explore'].plots[0].below[0].axis_label_text_color")
    assert (axis == "#e8eaed") == dark


def test_errors_and_requests_are_seen(browser: Browser, tmp_path: Path) -> None:
    """Those of a page that has some."""
    html = "<title>x</title><img src='http://example.invalid/a.png'><script>throw 1</script>"
    (tmp_path / "bad.html").write_text(html)
    browser.open(tmp_path / "bad.html")
    assert browser.errors and "http://example.invalid/a.png" in browser.requests


@pytest.mark.parametrize(
    ("rule", "tau", "beta", "gamma"),
    [
        ("angular", 2, 0.5, 0.0),
        ("angular", 0, 0.0, -0.5),
        ("temperature", 3, 1.5, 1.0),
        ("preserve", 1, 0.0, 0.0),
        ("cosine", 4, 1.0, 0.5),
        ("native", 2, 1.0, -1.0),
    ],
)
def test_sliders_give_the_numbers_of_class_scores(
    kept: Browser, space: FrozenSpace, side: Side, rule: str, tau: int, beta: float, gamma: float
) -> None:
    settings(kept, rule, tau, beta, gamma)
    z = space.units("test", torch.arange(len(space.test))).float()
    state, y, t = space.state.to(dtype=torch.float32), space.test_labels, side.taus[tau]
    right = []
    for name in ("native", rule):
        scores = class_scores(z, state, t, name, beta, offset=space.offset(gamma))
        right.append((scores.argmax(1) == y).double())
    per_class = [torch.stack([r[y == c].mean() for c in range(6)]) for r in right]
    assert kept.js(f"{EXPLORER}.now[0]") == pytest.approx(per_class[1].tolist())
    assert kept.js(f"{EXPLORER}.before[0]") == pytest.approx(per_class[0].tolist())
    rows: dict[str, list[str]] = dict(
        kept.js("""[...document.querySelectorAll(".settings tbody tr")].map((r) =>
          [r.cells[0].textContent, [...r.cells].slice(1).map((c) => c.textContent)])""")
    )
    # Native is shown once.
    own = 0 if rule == "native" else 1
    shown = [f"{100 * float(r.mean()):.2f}\u00a0%" for r in right]
    assert rows["accuracy"][: own + 1] == shown[: own + 1]
    nll = torch.nn.functional.cross_entropy(scores.double(), y)
    assert float(rows["log-loss, not scaled"][own]) == pytest.approx(float(nll), abs=6e-4)
    change = kept.js(f"figures.source('{GROUP}-class').data['{GROUP}-classes-2-y']")
    assert change == pytest.approx((100 * (per_class[1] - per_class[0])).tolist())
    texts = kept.js(f"figures.source('{GROUP}-class').data['change (points)']")
    assert [float(text.replace("−", "-")) for text in texts] == pytest.approx(change, abs=0.005)
    groups = [i for i in range(3) if (space.groups == i).any()]
    means = [100 * float(per_class[1][space.groups == i].mean()) for i in groups]
    assert kept.js(f"figures.source('{GROUP}-groups-0-rule').data.y") == pytest.approx(means)
    for i, mean in zip(groups, means, strict=True):
        assert rows[GROUPS[i]][own] == f"{mean:.2f}\u00a0%"
    # Without changes there is no figure of them.
    hidden = kept.js(f"document.getElementById('plot-{GROUP}-classes').closest('figure').hidden")
    assert hidden == (rule == "native")
    assert kept.errors == []


def test_between_grid_points_numbers_are_interpolated(kept: Browser) -> None:
    accuracy = []
    for beta in (0.0, 0.25, 0.5):
        settings(kept, "angular", 2, beta, 0.0)
        accuracy.append(kept.js(f"{EXPLORER}.sides[0].at('accuracy', {EXPLORER}.settings)"))
    assert accuracy[1] == pytest.approx((accuracy[0] + accuracy[2]) / 2)


@pytest.mark.parametrize("rule", REALIZATIONS)
def test_scores_on_the_arc_are_exact(
    kept: Browser, space: FrozenSpace, side: Side, rule: str
) -> None:
    """Scores of two classes, their boundary and the certificate, against the library."""
    settings(kept, rule, 1, 0.5, 0.5)
    tau, state, pair = side.taus[1], space.state, (0, 3)
    offset = space.offset(0.5)
    kept.js(f"{EXPLORER}.pairs[0].choose({list(pair)})")
    result: dict[str, Any] = kept.js(f"{EXPLORER}.pairs[0].result")
    edited = realize(state, Rule(tau, rule, 0.5, offset=offset))
    native = realize(state, Rule(tau, offset=offset))
    for when, scores in (("before", native), ("after", edited)):
        roots = short_arc_roots(scores, torch.tensor([pair]))
        assert result["theta"] == pytest.approx(float(roots.theta.rad2deg()), abs=1e-4)
        if roots.root.isfinite():
            assert result[when] == pytest.approx(roots.root.rad2deg().tolist(), abs=1e-3)
    rho = torch.linspace(-1, 1, 9, dtype=torch.float64)
    found = kept.js(f"""{json.dumps(rho.tolist())}.map((rho) => [0, 3].map((k) =>
      {EXPLORER}.pairs[0].score(k, rho, {EXPLORER}.settings)))""")
    expected = edited.at(rho[:, None], torch.tensor(pair))
    assert torch.allclose(torch.tensor(found, dtype=torch.float64), expected, atol=1e-6)


def test_certificate_on_the_arc(kept: Browser, space: FrozenSpace, side: Side) -> None:
    settings(kept, "angular", 2, 0.0, 0.0)
    kept.js("document.querySelector('[id$=-pairs]').open = true")
    kept.js(f"{EXPLORER}.pairs[0].choose([1, 4])")
    mu = space.state.mu
    theta = (mu[1] @ mu[4]).acos()
    t = theta * torch.linspace(0, 1, 201, dtype=torch.float64)[:, None]
    z = ((theta - t).sin() * mu[1] + t.sin() * mu[4]) / theta.sin()
    only = torch.full((6,), -torch.inf, dtype=torch.float64)
    only[[1, 4]] = 0
    c = certificate(z, space.state, side.taus[2], offset=only)
    for name, expected in (("margin", c.margin), ("residual", c.residual_range)):
        found = kept.js(f"figures.source('{GROUP}-arc-certificate-{name}').data.y")
        assert torch.allclose(torch.tensor(found, dtype=torch.float64), expected, atol=1e-5)
    share = kept.js(f"{EXPLORER}.pairs[0].result.sure")
    assert share == pytest.approx(c.coverage, abs=2 / 201)


def test_hover_tells_the_class_and_click_follows_it(kept: Browser, side: Side) -> None:
    gains = side.analysis.gains
    assert gains is not None
    at = place(kept, "gains", 4)
    kept.mouse(at["x"], at["y"])
    kept.wait(f"{TOOLTIP}.includes('five')")
    text = kept.js(TOOLTIP)
    number = re.search(r"gain:?\s*([\d.]+)", text)
    assert number is not None and float(number[1]) == pytest.approx(float(gains.gain[4]), abs=1e-4)
    kept.mouse(at["x"], at["y"], click=True)
    kept.wait(f"{EXPLORER}.followed === 4")
    rings = """Object.values(figures.drawn).flatMap((o) => o.rings).filter((r) =>
      r.kind === "class").map((r) => r.ring.data.name.join())"""
    assert set(kept.js(rings)) == {"five"}
    told = kept.js("document.querySelector('.followed').textContent")
    assert told.startswith(f"five: {int(gains.count[4])} training rows")
    rows = "[...document.querySelectorAll('.followed-row')].map((r) => r.cells[0].textContent)"
    assert "five" in kept.js(rows)
    # A section that is unfolded later follows the class too.
    kept.js("document.querySelector('[id$=-fit]').open = true")
    kept.wait(f"figures.source('{GROUP}-self-inclusion-followed')?.data.name.join() === 'five'")
    kept.js("[...document.querySelectorAll('.followed button')].at(-1).click()")
    assert kept.js(f"{EXPLORER}.followed") is None
    assert set(kept.js(rings)) == {""}


def test_search_and_keyboard(kept: Browser) -> None:
    """Everything can be reached without a mouse."""
    kept.js("document.querySelector('form.explore').elements.follow.focus()")
    kept.type("quo")
    kept.key("Enter", 13, "\r")
    assert kept.js(f"{EXPLORER}.followed") == NAMES.index('"quoted"')
    first = kept.js("document.querySelector('form.pair').elements.first.value")
    assert first == '"quoted"'
    before = kept.js("document.querySelector('.live').textContent")
    kept.js("document.querySelector('form.explore').elements.beta.focus()")
    kept.key("Home", 36)
    assert kept.js("document.querySelector('form.explore').elements.beta.value") == "0"
    kept.key("ArrowRight", 39)
    value = "document.querySelector('form.explore').elements.beta.getAttribute('aria-valuetext')"
    assert kept.js(value) == "0.01"
    kept.key("End", 35)
    assert kept.js("document.querySelector('.live').textContent") != before
    kept.js("document.querySelector('#glossary > summary').focus()")
    kept.key("Enter", 13, "\r")
    assert kept.js("document.querySelector('#glossary').open")
    # The tab key visits the controls in their order, and shows where it is.
    kept.js("document.querySelector('form.explore').elements.rule.focus()")
    visited = []
    for _ in range(6):
        kept.key("Tab", 9)
        visited.append(kept.js("document.activeElement.name || document.activeElement.className"))
        look = kept.js("getComputedStyle(document.activeElement).outlineStyle")
        assert look != "none"
    assert visited == ["term", "beta", "term", "tau", "term", "gamma"]
    # Every row and every column of a table has a heading.
    bare = kept.js("""[...document.querySelectorAll("table.sortable tr")]
      .filter((row) => !row.querySelector("th[scope]")).length""")
    assert bare == 0
    # Every control and every figure has a name.
    nameless = kept.js("""[...document.querySelectorAll("input, select, button, [role=img]")]
      .filter((e) => !(e.labels?.length || e.textContent.trim() || e.getAttribute("aria-label")))
      .length""")
    assert nameless == 0


def test_terms_explain_themselves(kept: Browser) -> None:
    """The card of a term follows the focus and the mouse, and Escape closes it."""
    link = "document.querySelector('.answer a.term')"
    kept.js(f"{link}.focus()")
    assert not kept.js("document.getElementById('card').hidden")
    words = kept.js("document.getElementById('card').textContent")
    assert words and kept.js(f"{link}.getAttribute('aria-describedby')") == "card"
    kept.key("Escape", 27)
    assert kept.js("document.getElementById('card').hidden")
    box = kept.js(f"{link}.getBoundingClientRect().toJSON()")
    kept.mouse(box["x"] + 2, box["y"] + 5)
    assert kept.js("document.getElementById('card').textContent") == words
    for name in ("gain", "realization", "beta", "certificate"):
        assert kept.js(f"!!document.querySelector('#term-{name} svg[role=img]')")


def test_heads_of_tables_and_rules_have_their_cards(kept: Browser) -> None:
    """On focus, and for the rule beside the list of rules."""
    card = "document.getElementById('card')"
    head = "[...document.querySelectorAll('th button')].find((e) => e.textContent.includes('log-'))"
    kept.js(f"{head}.focus()")
    assert kept.js(f"!{card}.hidden && {card}.textContent").startswith("log-loss")
    assert kept.js(f"{head}.getAttribute('aria-describedby')") == "card"
    settings(kept, "preserve", 2, 0.5, 0.0)
    kept.js("document.querySelector('.meaning').focus()")
    assert kept.js(f"{card}.textContent").startswith("Intercept-Preserving")
    assert kept.js("document.querySelector('.meaning').ariaLabel").endswith("-Preserving")
    kept.js("document.querySelector('.settings a.term').focus()")
    assert kept.js(f"{card}.textContent").startswith("Native")


def test_numbers_of_a_figure_are_a_table(kept: Browser, side: Side) -> None:
    assert side.analysis.gains is not None
    kept.js(f"document.querySelector('[data-plot={GROUP}-gains]').open = true")
    kept.wait(f"document.querySelector('[data-plot={GROUP}-gains] td')")
    rows = kept.js(f"""[...document.querySelectorAll("[data-plot={GROUP}-gains] table")].at(-1)
      .innerText""")
    assert all(name in rows for name in ("five", "six"))
    assert f"{float(side.analysis.gains.gain[0]):.5g}" in rows


def test_headings_sort_tables(kept: Browser) -> None:
    wrong = kept.js("""(() => { const wrong = [];
      for (const table of document.querySelectorAll("table.sortable")) {
        [...table.tHead.rows[0].cells].forEach((head, i) => {
          for (const order of [-1, 1]) {
            head.firstElementChild.click();
            const keys = [...table.tBodies[0].rows].map((row) => row.cells[i].dataset.key);
            const known = keys.filter((k) => k !== "");
            if (keys.slice(known.length).some((k) => k !== "")) wrong.push("empty cells not last");
            if (!head.classList.contains("n")) continue;
            for (let j = 1; j < known.length; j++)
              if (order * (Number(known[j]) - Number(known[j - 1])) < 0) wrong.push(`column ${i}`);
          }
        });
      } return wrong; })()""")
    assert wrong == []


def test_the_snippet_is_copied(browser: Browser, folder: Path, side: Side) -> None:
    browser.open(folder / "index.html")
    browser.send("Browser.grantPermissions", permissions=["clipboardReadWrite"])
    browser.js("document.querySelector('button.copy').click()")
    browser.wait("document.querySelector('button.copy').textContent !== 'Copy'")
    copied = browser.js("navigator.clipboard.readText().catch(() => getSelection().toString())")
    assert side.analysis.advice is not None
    assert copied.strip() == side.analysis.advice.snippet.strip()


def test_on_paper_everything_is_unfolded_and_drawn(browser: Browser, folder: Path) -> None:
    """As vector graphics in light colours, also from a dark page with folded sections."""
    browser.open(folder / "index.html", dark=True)
    browser.wait("document.body.dataset.ready === 'all'")
    axis = f"figures.drawn['{GROUP}-explore'].plots[0].below[0].axis_label_text_color"
    assert browser.js(axis) == "#e8eaed"
    browser.js("dispatchEvent(new Event('beforeprint'))")
    plots = browser.js("""[...document.querySelectorAll(".plot")].map((e) => {
      const svg = e.querySelector(":scope > svg"), box = svg?.viewBox.baseVal;
      return [e.id, e.checkVisibility(), box?.width > 200, svg?.textContent.length > 10,
        !!svg?.innerHTML.includes("#1a1c20"), !!svg?.innerHTML.includes("#e8eaed")];
    })""")
    assert len(plots) > 10 and {tuple(found) for _, *found in plots} == {(True,) * 4 + (False,)}
    browser.send("Emulation.setEmulatedMedia", media="print")
    # A4 has 794 pixels, less the margins; Chromium shrinks by two at the most.
    browser.send("Emulation.setDeviceMetricsOverride", **PAPER)
    assert browser.js("document.documentElement.scrollWidth") <= 718
    browser.js("dispatchEvent(new Event('afterprint'))")
    browser.send(
        "Emulation.setEmulatedMedia",
        media="",
        features=[{"name": "prefers-color-scheme", "value": "dark"}],
    )
    assert browser.js("document.querySelectorAll('.plot > svg').length") == 0
    # Chromium tells the page of the scheme a moment later.
    browser.wait(f"{axis} === '#e8eaed'")
    pdf = base64.b64decode(browser.send("Page.printToPDF")["data"])
    assert pdf.startswith(b"%PDF") and len(re.findall(rb"/Type /Page\b(?!s)", pdf)) > 3
    assert browser.errors == []


def test_both_sides_of_a_comparison_move(
    browser: Browser, side: Side, space: FrozenSpace, tmp_path: Path
) -> None:
    """The sliders and the choice of two classes act on A and B."""
    few = arcs(space, side.taus, (0.0, 1.5), classes=5)
    a, b = replace(side, name="A"), replace(side, name="B", arcs=few)
    right = torch.arange(120) % 2 == 0
    verdicts = {"z": verdict(right, right, same_rows=True)}
    page = comparison_page({"z": (a, b)}, verdicts, ["a", "b"], NAMES, [], {})
    write_page(tmp_path, page)
    browser.open(tmp_path / "index.html")
    settings(browser, "angular", 1, 0.0, 0.5)
    now = browser.js("explorers.z.now")
    assert len(now) == 2 and now[0] == pytest.approx(now[1])
    browser.js("explorers.z.follow(2)")
    pairs = browser.js("explorers.z.pairs.map((arc) => arc.pair.join())")
    assert pairs[0] == pairs[1] and pairs[0].startswith("2,")
    browser.js("document.querySelector('[id$=-pairs]').open = true")
    browser.wait("document.querySelector('#plot-z-arc-b').firstElementChild")
    assert browser.errors == []


def test_the_page_is_small(folder: Path) -> None:
    assert (folder / "index.html").stat().st_size < 5_000_000
