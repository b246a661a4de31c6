"""Feature files of every kind as rows with labels.

`FeatureStore.open` reads .safetensors, .npy, .npz and Parquet files and folders of shards; large
arrays stay on disk. The module `prepare` makes a store ready for analysis, `partition` opens
Parquet files for workers, and `packaged_file` is the feature file that the package ships.
"""

from resultant.features.packaged import PACKAGED, packaged_file
from resultant.features.store import FeatureStore, write_store

__all__ = ["PACKAGED", "FeatureStore", "packaged_file", "write_store"]
