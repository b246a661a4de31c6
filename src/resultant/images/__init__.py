"""Image datasets and augmentation.

- Datasets: `cifar` (every form of CIFAR), `lists` (ImageNet-LT and others), `longtail` (subsets).
- Views of CIFAR on the device: `augment`, on `image_ops` and the Triton kernel `view_kernel`.
- Photographs are decoded once (`store`) and lie on the device or near it (`residency`). Their views
  are `photo_views`, on `image_ops` and `resample`, or the Triton kernel `photo_kernel`;
  `rendering` chooses.
"""
