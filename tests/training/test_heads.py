"""The choice between classifiers of features."""

from typing import Any

import pytest
import torch

from resultant.training.heads import Head, best_head


@pytest.mark.parametrize(
    ("frozen", "own", "head", "chosen"),
    [
        ("1110", "1110", "1100", "frozen"),
        # Two images gained and one lost are within a standard error.
        ("1110000000", "0111100000", "1100000000", "frozen"),
        ("1000", "1110", "1111", "head"),
        ("0000", "1111", "1110", "own"),
    ],
)
def test_choice(frozen: str, own: str, head: str, chosen: str) -> None:
    weights = torch.full((len(own),), 1 / len(own), dtype=torch.float64)
    right = {"frozen": frozen, "own": own, "head": head}
    none: Any = None
    heads = [
        Head(key, key, none, None, torch.tensor([*map(float, hits)]).double(), torch.zeros(1))
        for key, hits in right.items()
    ]
    assert best_head(heads, weights).key == chosen
