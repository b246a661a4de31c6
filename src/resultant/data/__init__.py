"""Long-tail subsets, CIFAR, ImageNet-LT, iNaturalist and Places lists, and the feature store.

`longtail` chooses members, `cifar` and `lists` find images and labels, `images` turns lists into
augmented batches, and `store` keeps features. Torchvision, timm and Pillow are loaded by the
functions that need them.
"""

from resultant.data.cifar import Cifar, load_cifar
from resultant.data.lists import DATASETS, ImageList, load_lists, read_list
from resultant.data.longtail import long_tail_counts, long_tail_indices
from resultant.data.sheets import write_sheets
from resultant.data.store import FeatureStore, write_store

__all__ = [
    "DATASETS",
    "Cifar",
    "FeatureStore",
    "ImageList",
    "load_cifar",
    "load_lists",
    "long_tail_counts",
    "long_tail_indices",
    "read_list",
    "write_sheets",
    "write_store",
]
