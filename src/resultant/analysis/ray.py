"""Features larger than one machine: passes over all rows run on Ray Data.

The driver reads footers and labels, and the analysis is that of one machine: the same rows, the
same samples, the same search and recommendation. Rows are `ClusterRows`: what is computed from
every row (sums per class, predictions, hashes) is computed by workers, in ranges of rows, and comes
back as small results; samples are fetched. Statistics merge, and the range of a dead worker is
computed again.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from resultant._core import chunks
from resultant._core.termination import TerminatedError
from resultant.analysis.data import FeatureSet, feature_sets
from resultant.features.rows import IndexedRows, Rows
from resultant.features.schema import require_vectors

if TYPE_CHECKING:
    import numpy as np

    from resultant.features.prepare import Prepared


def cluster_sets(prepared: Prepared, source: str) -> list[FeatureSet]:
    """Return the feature sets of a prepared store whose rows are read by the cluster.

    Workers open the files of the store by the same paths.

    Args:
        prepared: The store, of Parquet files or of other files that all machines can read.
        source: Name of the source.
    """
    return feature_sets(
        prepared, source, vectors=lambda name: ClusterRows(prepared.store.rows(name), name)
    )


class ClusterRows:
    """Rows [N, p] in files, read by the workers of the cluster.

    Args:
        rows: The rows.
        name: Their name in errors.
    """

    def __init__(self, rows: Rows, name: str) -> None:
        self.rows, self.name, self.shape, self.dtype = rows, name, rows.shape, rows.dtype
        self.height = chunks.rows_per_chunk(rows.nbytes // len(rows), chunks.DEVICE_BYTES)
        # The rows of the last slice and those after it: slices in sequence are one reading.
        self.first, self.held = 0, torch.empty(0, *rows.shape[1:], dtype=rows.dtype)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, key: Any) -> Tensor:
        """Fetch rows by a slice, indices or a mask."""
        index = torch.arange(len(self))[key].reshape(-1)
        if not isinstance(key, slice) or len(index) > self.height:
            return self._fetch(index)
        end = self.first + len(self.held)
        if len(index) and not self.first <= int(index[0]) <= int(index[-1]) < end:
            self.first = int(index[0])
            end = max(int(index[-1]) + 1, min(len(self), self.first + self.height))
            self.held = self._fetch(torch.arange(self.first, end))
        return self.held[index - self.first]

    def _fetch(self, index: Tensor) -> Tensor:
        out = torch.empty((len(index), *self.shape[1:]), dtype=self.dtype)
        for at, x in self.map_rows(_rows, torch.zeros(len(self), dtype=torch.int64), index):
            out[at] = x.to(self.dtype)
        return out

    def map_rows(
        self,
        function: Callable[[Tensor, Tensor], Any],
        labels: Tensor,
        index: Tensor | None = None,
        width: int = 1,
    ) -> Iterator[tuple[Tensor, Any]]:
        """Apply a function on the cluster.

        Args:
            function: A function of vectors [k, p] and classes [k].
            labels: Classes [N] of all rows.
            index: Indices [n] of the rows, by default all.
            width: Numbers per row that the function makes.

        Yields:
            Positions [k] among the indices and a result, in any order. Results that have a
            ``merge`` arrive merged.

        Raises:
            ValueError: A worker met a vector that is not finite, or a broken file.
        """
        ray = _ray()
        index = torch.arange(len(self)) if index is None else index
        if not len(index):
            return
        order = index.argsort(stable=True)
        pieces = [(at, index[at], labels[index[at]]) for at in order.split(self.height)]
        bytes_per_row = 4 * max(width, self.shape[1])
        height = chunks.rows_per_chunk(bytes_per_row, chunks.MATRIX_BYTES)
        # A reference in a list is resolved by the worker, not by Ray.
        shared = {"shared": [ray.put((self.rows, self.name, function, height))]}
        items = [{"piece": ray.cloudpickle.dumps(piece)} for piece in pieces]
        tasks = ray.data.from_items(items, override_num_blocks=len(items))
        for batch in tasks.map_batches(_apply, batch_size=1, fn_kwargs=shared).iter_batches(
            batch_size=None
        ):
            for error, results in zip(batch["error"], batch["results"], strict=True):
                if error:
                    raise ValueError(str(error))
                yield from ray.cloudpickle.loads(results)


def _apply(batch: dict[str, np.ndarray], shared: list[Any]) -> dict[str, list[Any]]:
    """Apply a function to the rows of a piece, on a worker; errors are sent as text, as Ray would
    add pages of traceback."""
    ray = _ray()
    rows, name, function, height = ray.get(shared[0])
    at, index, labels = ray.cloudpickle.loads(batch["piece"][0])
    results: list[tuple[Tensor, Any]] = []
    try:
        for own, part, y in zip(*(a.split(height) for a in (at, index, labels)), strict=True):
            x = rows.take(part)
            require_vectors(x, name, IndexedRows(rows, part), zero=True)
            result = function(x if x.dtype == torch.float64 else x.float(), y)
            if results and hasattr(result, "merge"):
                result = results.pop()[1].merge(result)
            results.append((own, result))
    except ValueError as error:
        return {"error": [str(error)], "results": [b""]}
    return {"error": [""], "results": [ray.cloudpickle.dumps(results)]}


def _rows(x: Tensor, y: Tensor) -> Tensor:
    return x


@contextmanager
def cluster() -> Iterator[None]:
    """Connect to a Ray cluster within a context.

    The cluster is the one that the process is connected to, or that of ``RAY_ADDRESS``, or one of
    the CPUs of this machine that ends with the context.
    """
    ray = _ray()
    started = not ray.is_initialized()
    if started:
        _start(ray)
    context, logger = ray.data.DataContext.get_current(), logging.getLogger("ray.data")
    before = context.enable_progress_bars, logger.level
    context.enable_progress_bars = False
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        context.enable_progress_bars = before[0]
        logger.setLevel(before[1])
        if started:
            ray.shutdown()


def _start(ray: Any) -> None:
    address = os.environ.get("RAY_ADDRESS")
    local = {} if address else {"include_dashboard": False}
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    handler = signal.getsignal(signal.SIGTERM)
    try:
        quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
        ray.init(address=address or "local", **local, **quiet)
        # Ray would end the process by itself, without a message.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)
    except SystemExit:
        # SIGTERM while Ray starts and has a handler of its own.
        raise TerminatedError from None
    except ConnectionError as error:
        rule = f"expected a Ray cluster at RAY_ADDRESS={address}"
        raise ValueError(f"{rule}, got: {error}") from None
    except Exception as error:
        # Ray raises an Exception if its processes do not start in time.
        raise OSError(f"expected Ray to start on this machine, got: {error}") from None


def _ray() -> Any:
    # Otherwise every process of Ray prints its C++ stack when it is terminated.
    os.environ.setdefault("RAY_DISABLE_FAILURE_SIGNAL_HANDLER", "1")
    try:
        import ray
        import ray.data
    except ImportError:
        raise ValueError("expected ray: pip install 'resultant[ray]'") from None
    return ray
