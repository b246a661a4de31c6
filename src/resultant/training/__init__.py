"""Training on images from scratch and from pretrained networks, and the features of networks.

- `loop` has the step and the loop; `image_sets.train_images` trains a `job.Job` with it on
  `batches` of views, which are made ahead on the device. `config` loads no torch.
- `encoder`: networks of timm; `checkpoints` saves and loads them, `network_files` finds them.
- `evaluation`: outputs on held-out images, in full `precision`; `extract`: features as a store;
  `predict`: classes of new images as `predictions`; `export`: ONNX, and weights for timm.
- `tune`: from a folder of pictures to a tuned network with a classifier, by `tune_steps`: `tuner`
  trains, with `adapters` of transformers, `heads` classify, and `page` shows what it reaches.
- `log` and `records`: metrics by epoch, and one record per run; `trackers`: TensorBoard and others.
- `plugins`: recipes and networks of other distributions.
"""
