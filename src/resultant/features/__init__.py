"""Feature files of every kind as rows with labels.

`FeatureStore.open` in `store` reads .safetensors, .npy, .npz, .pt, .h5ad, .parquet, .csv, .tsv,
.arrow and .feather files, folders, patterns and URLs; large arrays stay on disk. `identities`
are the names of rows; `match_rows` finds those that two stores share. The module `prepare` makes a
store ready for analysis, and `packaged` is the feature file that the package ships.

`readers` finds the reader of a file by its `naming`: `arrays` (NumPy, safetensors, torch), `tables`
(pyarrow) and `anndata` (h5py) give arrays as `rows`, and `reading` turns errors of these libraries
into one line. `columns` and `selection` choose features and labels among the arrays, and `schema`
checks them.
"""

from resultant.features.identities import RowMatch, match_rows
from resultant.features.packaged import PACKAGED, packaged_file
from resultant.features.store import FeatureStore, write_store

__all__ = ["PACKAGED", "FeatureStore", "RowMatch", "match_rows", "packaged_file", "write_store"]
