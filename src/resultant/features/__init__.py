"""Feature files of every kind as rows with labels.

`readers` finds the reader of a file by its `naming`: `arrays`, `tables` (of which `columns` are
features, and `delimited` ones are text) or `anndata` give `rows`.
`selection` chooses features and labels, which `numbering` makes numbers, `store` holds them,
`identities` match rows, `prepare` makes a store ready for analysis, and `packaged` is the file that
ships. `declared` limits what the header of a file may declare, `origins` lead a row back to its
file.
"""

from resultant.features.identities import RowMatch, match_rows
from resultant.features.packaged import PACKAGED, packaged_file
from resultant.features.store import FeatureStore, write_store

__all__ = ["PACKAGED", "FeatureStore", "RowMatch", "match_rows", "packaged_file", "write_store"]
