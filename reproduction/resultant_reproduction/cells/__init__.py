"""Numbers of a table: `statistics` (means, contrasts, verdicts), `cells` (a printed number with
ours), `charts` (drawings of cells) and `text` (numbers and Markdown)."""
