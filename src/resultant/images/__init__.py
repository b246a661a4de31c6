"""Image datasets and augmentation.

- Datasets: `cifar` (every form of CIFAR), `lists` (ImageNet-LT and others), `longtail` (subsets).
- Views on the device for small images: `augment`, on `image_ops` and the Triton kernel
  `view_kernel`.
- Views on the host for images of ImageNet's size: `loader`.
"""
