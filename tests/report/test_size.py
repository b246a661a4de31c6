"""The size of a page of very many classes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from browser import Browser
from resultant.report import page
from resultant.report.analysis_page import analysis_page
from resultant.report.explorer import Side
from resultant.report.page import Page, write_page

pytestmark = pytest.mark.slow


def many(side: Side, classes: int) -> Page:
    """The page of many classes, with numbers that are random and so compress badly."""
    random = torch.Generator().manual_seed(0)
    index = torch.arange(classes) % 6
    queries = torch.full((classes,), 3)
    gains, arcs, moved = side.analysis.gains, side.arcs, side.response
    assert gains is not None and gains.group is not None and arcs is not None and moved is not None
    noise = torch.rand(classes, generator=random, dtype=torch.float64)
    gains = replace(
        gains,
        gain=gains.gain[index] + noise,
        corrected_gain=gains.gain[index] - noise,
        count=(1000 * noise).long() + 1,
        group=gains.group[index],
        resultant=gains.resultant[index],
        kappa=gains.kappa[index],
    )
    grids = []
    for grid in moved.grids[:3]:
        points = [
            p
            if p.per_class is None
            else replace(p, per_class=torch.randint(4, (classes,), generator=random) / 3)
            for p in grid.points
        ]
        grids.append(replace(grid, queries=queries, points=tuple(points)))
    cosine = 2 * torch.rand(500, 500, generator=random, dtype=torch.float64) - 1
    few = torch.arange(500) % 6
    arcs = replace(
        arcs,
        classes=torch.arange(500),
        cosine=cosine,
        **{name: getattr(arcs, name)[few] for name in ("kappa", "resultant", "log_prior")},
    )
    a = replace(
        side.analysis,
        space=replace(side.analysis.space, num_classes=classes),
        gains=gains,
        grid=grids[1],
        **dict.fromkeys(("intercepts", "boundaries", "typical", "self_inclusion", "same_state")),
    )
    moved = replace(moved, grids=tuple(grids), taus=moved.taus[:3])
    names = [f"Genus{i % 900} species number {i}" for i in range(classes)]
    return analysis_page({"z": a}, "file", names, [], {}, {"z": Side(a, "", moved, arcs)})


def test_eight_thousand_classes_fit_whole(side: Side) -> None:
    html = page.render(many(side, 8142))
    assert len(html.encode()) <= 5_000_000 and "stays below 5" not in html
    assert "The 500 classes with the most" in html


def test_beyond_the_size_some_classes_are_left_out_and_the_page_says_so(
    side: Side, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "LARGEST", 2_000_000)
    write_page(tmp_path, many(side, 2000))
    path = tmp_path / "index.html"
    assert path.stat().st_size <= 2_000_000
    browser.open(path)
    # Figures of folded sections are still drawn, which writes the sentences again.
    browser.wait("document.body.dataset.ready === 'all'")
    said = browser.js("document.querySelector('.cut').textContent")
    assert "have 500 of the 2,000 classes" in said
    held = browser.js("explorers.z.sides[0].queries.map((n) => n > 0)")
    assert sum(held) == 500
    # All training sizes are represented.
    count = many(side, 2000).sections[0].classes
    assert count is not None
    rows = [n for n, k in zip(count.columns["training rows"], held, strict=True) if k]
    assert min(rows) < 20 and max(rows) > 980
    told = "document.querySelector('.followed').textContent"
    browser.js(f"explorers.z.follow({held.index(True)})")
    assert "training rows" in browser.js(told) and "accuracy" in browser.js(told)
    browser.js(f"explorers.z.follow({held.index(False)})")
    assert "not among the classes of this page" in browser.js(told)
    # A pair that cannot be chosen is said to be none.
    browser.js("""(() => { const { first } = document.querySelector("form.pair").elements;
      first.value = "Nobody"; first.dispatchEvent(new Event("change")); })()""")
    said = browser.js("document.querySelector('form.pair').elements.sentence.value")
    assert said.startswith("“Nobody” is not one of the ")
    assert browser.errors == []
