"""The page of an analysis.

`page` writes it, with the charts and tables of `sections` and `theory`; `charts` defines a figure
as axes and marks, `chart_files` draws it with matplotlib; `table` is a table, `words` formats
numbers.
"""
