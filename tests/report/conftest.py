"""A small analysis, its page, the folder of its report, and a browser to open it in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from browser import CHROMIUM, Browser
from quick_pdf import quick_pdf as quick_pdf
from resultant.analysis import Analysis, FrozenSpace, analyze_space
from resultant.analysis.advice import (
    Advice,
    Caution,
    Difference,
    Probabilities,
    Reliability,
    RuleRow,
)
from resultant.analysis.arcs import arcs
from resultant.analysis.response import response
from resultant.report.analysis_page import analysis_page
from resultant.report.explorer import Side
from resultant.report.page import Page, write_page
from small_features import NAMES, small_features

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")
pytest.importorskip("bokeh")


@pytest.fixture(scope="session")
def space() -> FrozenSpace:
    """A small feature space."""
    arrays = small_features()
    names = ("train/projection", "train/labels", "test/projection", "test/labels")
    return FrozenSpace.fit(*(arrays[n] for n in names), name="projection")


@pytest.fixture(scope="session")
def advice() -> Advice:
    """An advice in which a reference is best."""
    at = torch.tensor([0.2, 0.5, 0.8])
    bins = Reliability(torch.tensor([30, 40, 30]), at, at)
    quality = Probabilities(1.9, 0.3, bins), Probabilities(1.7, 0.02, bins)
    groups: dict[str, float | None] = {"head": 0.8, "medium": None, "tail": 0.4}

    def row(key: str, name: str, kind: str, accuracy: float, **more: Any) -> RuleRow:
        settings = {"temperature": 0.1, "beta": 0.5, "prior": 0.0, "scale": 1.3}
        ends = accuracy - 0.01, accuracy + 0.01
        return RuleRow(
            *(key, name, kind, settings, accuracy, *ends, accuracy, groups, *quality, 0.01, 0.02),
            100,
            **more,
        )

    return Advice(
        headline=("A reference is best.", "Use Pure Angular at β = 0.5.", "One pass & no tuning."),
        verdict="reference",
        advised="angular",
        best="logistic",
        metric="accuracy",
        margin=0.005,
        table=(
            row("native", "Native", "vmf", 0.6, difference=Difference(-0.1, -0.12, -0.08, "worse")),
            row("angular", "Pure Angular", "vmf", 0.7),
            row(
                *("logistic", "Logistic regression", "reference", 0.8),
                difference=Difference(0.1, 0.08, 0.12, "better"),
                note="fitted on 50 of 100 rows",
            ),
        ),
        chosen_on="five folds of the training rows",
        split="train",
        chosen_rows=100,
        nearest=0.8,
        judged_rows=120,
        warnings=(Caution("duplicates", "3 rows are in both splits; remove them."),),
        left_out="",
        snippet='print("<fit> & save")\n',
        reference_snippet="import sklearn\n",
        seconds={},
    )


@pytest.fixture(scope="session")
def analysis(space: FrozenSpace) -> Analysis:
    """All questions, asked of a small feature space."""
    return analyze_space(space)


@pytest.fixture(scope="session")
def side(space: FrozenSpace, analysis: Analysis, advice: Advice) -> Side:
    """The numbers of the sliders."""
    moved = response(space)
    return Side(replace(analysis, advice=advice), "", moved, arcs(space, moved.taus, (0.0, 1.5)))


@pytest.fixture(scope="session")
def report(side: Side) -> Page:
    """The page of the analysis, with class names that could break the page."""
    about = {"versions": {"resultant": "0"}}
    name = "pro/jection"
    return analysis_page({name: side.analysis}, "z.npz", NAMES, ["a note"], about, {name: side})


@pytest.fixture(scope="session")
def folder(report: Page, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the report."""
    folder = tmp_path_factory.mktemp("page")
    write_page(folder, report, figure_files=True)
    return folder


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, if it is installed."""
    if CHROMIUM is None:
        pytest.skip("needs chromium: apt-get install chromium")
    browser = Browser()
    yield browser
    browser.close()
