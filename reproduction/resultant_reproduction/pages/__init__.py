"""Pages of the reproduction: `compute` (the function of each item), `queries` (numbers that claims
ask for), `claims` (verdicts), `beyond` (kept pages), `write` (one page per item) and `document`
(REPRODUCTION.md and the other pages)."""
