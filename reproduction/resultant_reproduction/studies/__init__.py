"""One experiment per file: `tables` and `headline` (training with equal gains), `control_matrix`
(CIFAR-10), `official_recipe` (powers of the gain), `collapse` (the state that fails), `gain_prior`,
`feature_figures`, `tuned_temperature`, `calibration` and `settings` (hyperparameters)."""
