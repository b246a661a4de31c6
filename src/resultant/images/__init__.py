"""Image datasets and augmentation.

- Datasets are `source.ImageSource`: `opening.open_images` opens `folders`, `lists` and `parquet`,
  `indexable` any Python dataset, `published` those with names; `labelling` finds the classes,
  `longtail` subsets. `cifar` reads every form of CIFAR.
- `decode` is the only decoder, of the bytes of `files`; `evaluation_view` has images without
  augmentation.
- Views of CIFAR on the device: `augment`, on `image_ops` and the Triton kernel `view_kernel`.
- Photographs are decoded once (`store`, by `decoding` or `jpeg_decoding`) and kept on the device or
  near it (`residency`). Views of photographs are `photo_views`, on `image_ops` and `resample`, or
  the Triton kernel `photo_kernel`; `rendering` chooses.
"""
