"""Features larger than one machine: passes over all rows run on Ray Data, in ranges of rows, where
the range of a dead worker is computed again; samples are fetched."""

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from resultant._core import memory
from resultant._core.termination import TerminatedError
from resultant.analysis.split import FeatureSet, feature_sets
from resultant.classifiers.inputs import digests
from resultant.features.prepare import Prepared
from resultant.features.rows import Rows, require_vectors
from resultant.features.store import FeatureStore


def cluster_sets(prepared: Prepared, source: str, seed: int = 0) -> list[FeatureSet]:
    """Return the feature sets of a store; workers open its files by the same paths."""
    store = prepared.store
    return feature_sets(
        prepared, source, seed=seed, vectors=lambda name: ClusterRows(store.rows(name), name)
    )


def read_digests(store: FeatureStore, name: str, zero: bool) -> np.ndarray:
    """Hash the rows of a feature on the cluster, as int64 [N]."""
    rows = ClusterRows(store.rows(name), name)
    hashes = np.empty(len(rows), np.int64)
    labels = torch.zeros(len(rows), dtype=torch.int64)
    for at, part in rows.map_rows(lambda x, _: digests(x.float()), labels):
        hashes[at.numpy()] = part
    return hashes


class ClusterRows:
    """Rows [N, p] in files, read by the workers of the cluster; ``name`` stands in errors."""

    def __init__(self, rows: Rows, name: str) -> None:
        self.rows, self.name, self.shape, self.dtype = rows, name, rows.shape, rows.dtype
        self.height = memory.rows_per_chunk(rows.nbytes // len(rows), memory.DEVICE_BYTES)
        # Rows from the last slice on: slices in sequence are one reading.
        self.first, self.held = 0, torch.empty(0, *rows.shape[1:], dtype=rows.dtype)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, key: Any) -> Tensor:
        """Fetch rows by a slice, indices or a mask."""
        index = torch.arange(len(self))[key].reshape(-1)
        if isinstance(key, slice) and 0 < len(index) <= self.height:
            low, high = int(index.min()), int(index.max()) + 1
            if not self.first <= low < high <= self.first + len(self.held):
                end = max(high, min(len(self), low + self.height))
                self.first, self.held = low, self[torch.arange(low, end)]
            return self.held[index - self.first]
        out = torch.empty((len(index), *self.shape[1:]), dtype=self.dtype)
        labels = torch.zeros(len(self), dtype=torch.int64)
        for at, x in self.map_rows(lambda x, _: x, labels, index):
            out[at] = x.to(self.dtype)
        return out

    def map_rows(
        self,
        function: Callable[[Tensor, Tensor], Any],
        labels: Tensor,
        index: Tensor | None = None,
        width: int = 1,
    ) -> Iterator[tuple[Tensor, Any]]:
        """Apply a function of chunks on the cluster; yield positions and results, in any order."""
        ray = _ray()
        index = torch.arange(len(self)) if index is None else index
        if not len(index):
            return
        height = memory.rows_per_chunk(4 * max(width, self.shape[1]), memory.MATRIX_BYTES)
        # A reference in a list is resolved by the worker, not by Ray.
        shared = [ray.put((self.rows, self.name, function, height))]
        pieces = index.argsort(stable=True).split(self.height)
        dumped = (ray.cloudpickle.dumps((at, index[at], labels[index[at]])) for at in pieces)
        items = [{"piece": piece} for piece in dumped]
        tasks = ray.data.from_items(items, override_num_blocks=len(items))
        results = tasks.map_batches(_apply, batch_size=1, fn_kwargs={"shared": shared})
        for row in results.iter_rows():
            if row["error"]:
                raise ValueError(str(row["error"]))
            yield from ray.cloudpickle.loads(row["results"])


def _apply(batch: dict[str, Any], shared: list[Any]) -> dict[str, list[Any]]:
    """Apply a function on a worker; errors are sent as text, as Ray adds pages of traceback."""
    ray = _ray()
    rows, name, function, height = ray.get(shared[0])
    pieces = (a.split(height) for a in ray.cloudpickle.loads(batch["piece"][0]))
    results: list[tuple[Tensor, Any]] = []
    try:
        for at, index, y in zip(*pieces, strict=True):
            x = rows.take(index)
            require_vectors(x, name, rows.select(index), zero=True)
            result = function(x if x.dtype == torch.float64 else x.float(), y)
            if results and hasattr(result, "merge"):
                result = results.pop()[1].merge(result)
            results.append((at, result))
    except ValueError as error:
        return {"error": [str(error)], "results": [b""]}
    return {"error": [""], "results": [ray.cloudpickle.dumps(results)]}


@contextmanager
def cluster() -> Iterator[None]:
    """Connect to the cluster of this process, or to that of ``RAY_ADDRESS``, or start one here."""
    ray = _ray()
    if ray.is_initialized():
        yield
        return
    address, handler = os.environ.get("RAY_ADDRESS"), signal.getsignal(signal.SIGTERM)
    options = {} if address else {"include_dashboard": False}
    try:
        ray.init(address or "local", logging_level="ERROR", log_to_driver=False, **options)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)  # Ray's ends the process without a message
    except SystemExit:  # SIGTERM while Ray starts
        raise TerminatedError from None
    except Exception as error:
        place = "on this machine" if address is None else f"at RAY_ADDRESS={address}"
        raise OSError(f"expected a Ray cluster {place}, got: {error}") from None
    try:
        yield
    finally:
        ray.shutdown()


def _ray() -> Any:
    # Without stacks of C++ from every process that is terminated, and without progress bars.
    os.environ.setdefault("RAY_DISABLE_FAILURE_SIGNAL_HANDLER", "1")
    os.environ.setdefault("RAY_DATA_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
        import ray.data
    except ImportError:
        raise ValueError("expected ray: pip install 'resultant[ray]'") from None
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    return ray
