"""Image datasets, decoding and augmentation."""
