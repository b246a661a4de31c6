"""Image datasets and augmentation.

- A dataset is a `source.ImageSource` of (image, label) with classes: `opening` opens `files` in
  folders and lists, `parquet` and the published datasets, `indexable` any Python dataset;
  `longtail` defines subsets. `cifar` reads every form of CIFAR.
- `decode` is the only decoder, by Pillow. Photographs are decoded first, into a `store`, and kept
  on the device or near it.
- Views draw their parameters on the CPU (`photo_views`, `augment` for CIFAR). `rendering` computes
  them: by Pillow on a CPU, by `photo_kernel` on a GPU. `vision` imports torchvision.
"""
