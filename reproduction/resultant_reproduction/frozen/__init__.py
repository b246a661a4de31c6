"""The paper's questions on frozen features, each a function of a `FrozenSpace` with a plain result.

`questions` asks all of them: `decisions` of realizations and their gradients, `same_state`,
`boundaries` and margins of `pairs`, `agreement` with cosine prototypes, `finite_sample` effects and
`goodness` of fit; `summarize` makes parts of records of the answers. `tuned` gives each rule its
own temperature, `temperature_path` follows one rule through all temperatures, and `calibration`
gives each rule a fitted scale. The library has the gains of classes (`resultant.analysis.theory`).
"""
