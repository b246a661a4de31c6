"""The table of predictions, a row for each picture or row of features, and its file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from resultant._core.files import replacing
from resultant.analysis.write import write_csv
from resultant.features.naming import Location

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class Columns:
    """The columns of a table of predictions, part by part."""

    labels: list[str]
    top: int
    parts: dict[str, list[Any]] = field(default_factory=dict)

    def add(
        self,
        p: np.ndarray,
        sets: Any = None,
        before: Mapping[str, Any] = MappingProxyType({}),
        **after: Any,
    ) -> None:
        """Add rows with probabilities p [n, C] and sets of classes [n, C], or None."""
        columns = dict(before)
        order = np.argsort(-p, axis=1, kind="stable")[:, : self.top]
        names = np.array(self.labels, dtype=object)
        for k in range(order.shape[1]):
            number = f"_{k + 1}" if k else ""
            columns[f"predicted{number}"] = names[order[:, k]]
            columns[f"probability{number}"] = np.take_along_axis(p, order[:, k : k + 1], 1)[:, 0]
        if sets is not None:
            chosen = np.asarray(sets, dtype=bool)
            columns["set"] = [names[row].tolist() for row in chosen]
            columns["none_of_these"] = ~chosen.any(1)
        for name, values in {**columns, **after}.items():
            self.parts.setdefault(name, []).append(values)

    def table(self) -> pa.Table:
        """Return the rows as a table of Arrow."""
        import pyarrow as pa

        kinds = {"set": pa.list_(pa.string()), "file": pa.string()}
        return pa.table(
            {
                name: pa.chunked_array([pa.array(part, kinds.get(name)) for part in parts])
                for name, parts in self.parts.items()
            }
        )


def write_table(table: pa.Table, path: Location) -> None:
    """Write a table of predictions, completely or not at all, as Parquet or CSV by its name."""
    from pyarrow import parquet

    path = Path(path)
    with replacing(path) as temporary:
        if path.suffix != ".csv":
            parquet.write_table(table, temporary)
            return
        # A set as JSON: names of classes may hold any separator.
        columns = [
            [json.dumps(v, ensure_ascii=False) if isinstance(v, list) else v for v in c.to_pylist()]
            for c in table.columns
        ]
        write_csv(Path(temporary), table.column_names, zip(*columns, strict=True))
