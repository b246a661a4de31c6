"""Feature files of every kind as rows with labels.

`FeatureStore.open` in `store` reads .safetensors, .npy, .npz, .parquet, .csv, .pt, .arrow and .h5ad
files and folders of shards; large arrays stay on disk. `identities` are the names of rows;
`match_rows` finds those that two stores share. The module `prepare` makes a store ready for
analysis, `partition` opens Parquet files for workers, and `packaged` is the feature file that the
package ships.

`readers` finds the reader of a file by its `naming`: `numpy_files`, `parquet` (with
`parquet_pages`), `csv_files`, `arrow_files`, `anndata_files` (with `anndata_program`) and
`torch_files` give arrays as `rows`; `columns`, `selection` and `labels` choose features and labels
among them, and `schema` checks them. `subsets` are stores with some rows of another.
"""

from resultant.features.identities import RowMatch, match_rows
from resultant.features.packaged import PACKAGED, packaged_file
from resultant.features.store import FeatureStore, write_store

__all__ = [
    "PACKAGED",
    "FeatureStore",
    "RowMatch",
    "match_rows",
    "packaged_file",
    "write_store",
]
