"""Training from scratch on images, trained networks, and their features.

- `loop` has the step and the loop; `image_sets.train_images` trains a `job.Job` with it on
  `batches` of views, which are made ahead on the device. `config` loads no torch.
- `encoder`: networks of timm; `checkpoints` saves and loads them, `network_files` finds them.
- `evaluation`: outputs on held-out images, in full `precision`; `extract`: features as a store;
  `probe`: linear probes; `predict`: classes of new images.
- `log` and `records`: metrics by epoch, and one record per run.
- `plugins`: recipes and networks of other distributions.
"""
