"""Reports: `page` writes the page of a result of `resultant.analysis` from `sections` and `theory`,
with `charts` in one `style`, which chart.js and matplotlib draw, and `table`; `folder` writes a
whole report, and `api` has `resultant.analyze`."""
