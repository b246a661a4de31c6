"""Reports: figures, tables and the HTML page.

`page` writes a report as a folder: a page that needs no other file, figures, tables and
results.json. `analysis_page` and `comparison_page` fill it; `summary` is its text in ten lines.
`figures` defines a figure of a report, `decision_figures` and `theory_figures` draw them, and
`style` is the style of every figure of the project.
"""
