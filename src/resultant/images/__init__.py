"""Image datasets, their decoding, and views of them.

- A dataset is a `source.ImageSource` of (image, label) with classes: `opening` opens `files` in
  folders and lists and `parquet`, `indexable` any Python dataset; `longtail` defines subsets, and
  `held_out` the test images of a dataset without a split.
- `decode` is the only decoder, by Pillow. Photographs are decoded first, into a `store`, and kept
  on the device or near it.
- Views of training draw their parameters on the CPU (`photo_views`). `rendering` computes them: by
  Pillow on a CPU, by `photo_kernel` on a GPU. `evaluation` has the views of every evaluation.
- `vision` imports torchvision and timm.
"""
