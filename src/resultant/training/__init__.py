"""Training: configuration, the loop, checkpoints, the log, probes and extraction.

- `config`: settings and presets; importing it loads no torch.
- `cifar.train_cifar`, `image_sets.train_images`: train a `job.Job`.
- `loop`: the loop itself, with its `checkpoints`, which are loaded too, and `log`.
- `stack`, `stacked_loss`, `batches`: several runs as one network, one loss and one step;
  `supervised`: contrastive losses of others.
- `photo_batches`: batches of views of decoded images, made ahead on the device.
- `evaluation`, `probe`, `records`: tests, probes and frozen decisions of networks.
- `inference`: the one forward pass of evaluation and extraction, in full `precision`.
- `extract`: the features of networks as a store; `network_files` finds networks.
"""
