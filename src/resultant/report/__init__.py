"""Reports: `page` writes the page of a result of `resultant.analysis` from `methods`, `classes`,
`rows` and `theory`, with each `table`, with `thumbnails` of rows, and with `charts` in one `style`,
which chart.js and matplotlib draw, and a `summary` to paste; `api` has `resultant.analyze` and
`resultant.compare`."""
