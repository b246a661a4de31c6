"""The rows that two samples have in common, by the identities of the rows."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor


@dataclass(frozen=True)
class RowMatch:
    """The rows that two samples have in common, by their identities.

    Attributes:
        kind: ``same`` rows in the same order, ``reordered`` in another, ``overlap`` if some are in
            both, ``different`` if none, ``unknown`` without identities, or if they repeat.
        a: Indices [M] of the common rows in the first sample, in its order.
        b: Indices [M] of the same rows in the second sample.
    """

    kind: Literal["same", "reordered", "overlap", "different", "unknown"]
    a: Tensor
    b: Tensor


def match_rows(a: Tensor | None, b: Tensor | None) -> RowMatch:
    """Match the rows of two samples by identities [N] and [M], or None for a sample without.

    Example:
        >>> import torch
        >>> from resultant.features import match_rows
        >>> match = match_rows(torch.tensor([7, 8, 9]), torch.tensor([9, 7, 5]))
        >>> match.kind, match.a.tolist(), match.b.tolist()
        ('overlap', [0, 2], [1, 0])
    """
    none = torch.empty(0, dtype=torch.int64)
    if a is None or b is None:
        return RowMatch("unknown", none, none)
    if torch.equal(a, b):
        return RowMatch("same", torch.arange(len(a)), torch.arange(len(b)))
    if any(len(x.unique()) < len(x) for x in (a, b)):
        return RowMatch("unknown", none, none)
    order = b.argsort()
    at = torch.searchsorted(b[order], a).clamp_max(len(b) - 1)
    rows = (b[order][at] == a).nonzero()[:, 0]
    kind = "overlap" if len(rows) else "different"
    kind = "reordered" if len(rows) == len(a) == len(b) else kind
    return RowMatch(kind, rows, order[at[rows]])
