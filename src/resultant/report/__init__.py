"""Reports: the page of an analysis, its charts and tables.

`page` writes the page from a result of `resultant.analysis`, with the charts and tables of
`sections` and `theory`. `charts` defines a figure as axes and marks: chart.js draws it on the page,
matplotlib for files, in the `style` of all figures of the project. `table` has tables and formats
numbers. The folder ``shared`` holds JavaScript that the site uses too. `folder` writes a whole
report, and `api` has `resultant.analyze`.
"""
