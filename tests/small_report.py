"""The page of a small analysis, with class names that would break out of it."""

from __future__ import annotations

from functools import cache

from resultant.analysis import Analysis, FrozenSpace, analyze_space
from resultant.report.analysis_page import analysis_page
from resultant.report.page import Page
from small_features import NAMES, small_features


@cache
def small_analysis() -> Analysis:
    arrays = small_features()
    names = ("train/projection", "train/labels", "test/projection", "test/labels")
    return analyze_space(FrozenSpace.fit(*(arrays[n] for n in names), name="projection"))


@cache
def small_page() -> Page:
    about = {"versions": {"resultant": "0"}}
    return analysis_page({"pro/jection": small_analysis()}, "z.npz", NAMES, ["a note"], about)
