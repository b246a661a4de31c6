"""Training of many ResNet-32 at once on long-tailed subsets of CIFAR.

- `data` reads every form of CIFAR; `views` are random views, `batches` those of an epoch.
- `network`: the networks of several runs as one, with `norm` and fused `kernels`; `losses`: the
  ProCo loss of several runs, and `supervised`: contrastive losses of others.
- `stack`: the step of several runs; `train.train_cifar` trains a `job.CifarJob`.
- `evaluation`: features, predictions and gradients; `kind`: networks from files.
"""
