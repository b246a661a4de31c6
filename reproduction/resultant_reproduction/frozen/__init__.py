<<<<<<< HEAD
"""The paper's questions on frozen features, each a function of a `FrozenSpace` with a plain result.

`questions` asks all of them: `decisions` of realizations and their gradients, `same_state`, margins
of `pairs`, `finite_sample` effects, and other `fits` of the classes; `summarize` makes parts of
records of the answers. The library answers the questions that its report shows
(`resultant.analysis.theory` and `resultant.analysis.goodness`).
"""
=======
"""Questions of the paper about frozen features: `summarize` (one analysis in JSON types), `tuned`
(each rule at its own temperature) and `calibration` (each rule with a fitted scale)."""
>>>>>>> 2c010e06 (Reproduction: folders for cells, theory, frozen features, runs, studies and pages; arrows between them tested)
