"""The stored Arb tables, split by dimension or order."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
Table = dict[str, np.ndarray]


def _groups(name: str, key: str) -> Iterator[tuple[float, Table]]:
    with np.load(HERE / f"{name}.npz") as data:
        table = {k: data[k] for k in data.files}
    for value in np.unique(table[key]):
        chosen = table[key] == value
        yield float(value), {k: v[chosen] for k, v in table.items()}


def scores() -> Iterator[tuple[int, Table]]:
    """(p, rho, kappa, tau -> q, slope, dkappa, dtau)."""
    return ((int(p), table) for p, table in _groups("score", "p"))


def bessels() -> Iterator[tuple[float, Table]]:
    """(nu, x -> log, ratio, first, second)."""
    return _groups("bessel", "nu")


def q_scale(table: Table) -> np.ndarray:
    """Return the scale of the error of q: max(|q|, |rho dq/drho|)."""
    return np.maximum(np.abs(table["q"]), np.abs(table["rho"] * table["slope"]))
