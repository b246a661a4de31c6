"""The outputs that all networks share."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Outputs(NamedTuple):
    """Outputs of S runs: encoder [S, N, d], unit projection [S, N, p], logits [S, N, C] or None."""

    encoder: Tensor
    projection: Tensor
    logits: Tensor | None
