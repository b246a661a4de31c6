"""Training runs: `plans` (jobs), `run` (train the jobs without records), `records` (read results),
`items` (tables and figures with the plans that they need), `evidence` (all sources of numbers)."""
