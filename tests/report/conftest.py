"""A small analysis, its page, and the folder of its report."""

from __future__ import annotations

from pathlib import Path

import pytest

from quick_pdf import quick_pdf as quick_pdf
from resultant.analysis import Analysis, FrozenSpace, analyze_space
from resultant.report.analysis_page import analysis_page
from resultant.report.page import Page, write_page
from small_features import NAMES, small_features

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")


@pytest.fixture(scope="session")
def analysis() -> Analysis:
    """All questions, asked of a small feature space."""
    arrays = small_features()
    names = ("train/projection", "train/labels", "test/projection", "test/labels")
    return analyze_space(FrozenSpace.fit(*(arrays[n] for n in names), name="projection"))


@pytest.fixture(scope="session")
def report(analysis: Analysis) -> Page:
    """The page of the analysis, with class names that could break the page."""
    about = {"versions": {"resultant": "0"}}
    return analysis_page({"pro/jection": analysis}, "z.npz", NAMES, ["a note"], about)


@pytest.fixture(scope="session")
def folder(report: Page, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the report."""
    folder = tmp_path_factory.mktemp("page")
    write_page(folder, report, figure_files=True)
    return folder
