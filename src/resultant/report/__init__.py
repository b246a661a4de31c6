"""Reports: figures, tables and the HTML page.

`page` writes a report as a folder: a page that needs no other file, tables and results.json, and
figures as PDF and PNG if asked. `analysis_page` and `comparison_page` fill it with `table`s, those
of an analysis in `tables`; `summary` is its text in ten lines, `comparison` the verdict on two
sets of features, `words` names and numbers.
`charts` defines a figure as axes and marks: `decision_figures`, `theory_figures` and
`explorer_figures` return them, `plots` hands them to Bokeh on the page, and `chart_files` draws
them with matplotlib in the `style` of every figure of the project. `explorer` is the numbers behind
the sliders, `glossary` the terms, `paper` the numbers of the paper's tables and figures.
`folder` writes a whole report, and `api` has `resultant.analyze`.
"""

from typing import TYPE_CHECKING

from resultant._core.lazy import lazy

if TYPE_CHECKING:
    from resultant.report.next.page import write_page

__all__ = ["write_page"]

__getattr__ = lazy(__name__, {"write_page": "next.page"})
