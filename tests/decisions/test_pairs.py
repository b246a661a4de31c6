"""Choice of pairs against an enumeration of all pairs."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product

import pytest
import torch
from torch import Tensor

from class_samples import F64, unit
from resultant._core import chunks
from resultant.classes.groups import HEAD, MEDIUM, TAIL, shot_groups
from resultant.classes.statistics import ClassState
from resultant.decisions.margins import PAIR_TYPES, all_pairs, select_pairs


def long_tail(C: int = 60) -> tuple[ClassState, Tensor]:
    torch.manual_seed(4)
    counts = (500 * 0.01 ** (torch.arange(C) / (C - 1))).long()[torch.randperm(C)]
    return ClassState(unit(C, 8), torch.ones(C, dtype=F64), counts), shot_groups(counts)


@pytest.mark.parametrize("chunk", [1 << 25, 8 * 50])
def test_selected_pairs(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "MATRIX_BYTES", chunk)
    state, groups = long_tail()
    chosen = select_pairs(state, groups, seed=3)
    assert chosen.pairs.shape == (60, 2) and chosen.kind.bincount().tolist() == [10] * 6
    rho, names = state.mu @ state.mu.T, "HMT"
    seen = {frozenset(pair) for pair in chosen.pairs.tolist()}
    assert len(seen) == 60 and all(len(pair) == 2 for pair in seen)
    for kind, name in enumerate(PAIR_TYPES):
        of_kind = chosen.kind == kind
        for a, b in chosen.pairs[of_kind].tolist():
            assert names[groups[a]] + names[groups[b]] == name
        best = sorted(
            (-float(rho[pair]), {*pair})
            for pair in combinations(range(60), 2)
            if sorted(names[groups[c]] for c in pair) == sorted(name)
        )
        near = chosen.pairs[of_kind & chosen.closest].tolist()
        assert [{*pair} for pair in near] == [pair for _, pair in best[:5]]
    again, other = (select_pairs(state, groups, seed=seed) for seed in (3, 4))
    assert torch.equal(again.pairs, chosen.pairs)
    assert torch.equal(other.pairs[chosen.closest], chosen.pairs[chosen.closest])
    assert not torch.equal(other.pairs, chosen.pairs)


@pytest.mark.slow
def test_random_pairs_are_uniform() -> None:
    """Five of the ten pairs within a group that are not the five closest, evenly over seeds."""
    torch.manual_seed(0)
    state = ClassState(unit(24, 4), torch.ones(24, dtype=F64), torch.ones(24))
    groups, tally = torch.tensor([HEAD] * 6 + [TAIL] * 18), Counter()
    for seed in range(300):
        chosen = select_pairs(state, groups, seed=seed)
        tally.update(map(tuple, chosen.pairs[(chosen.kind == 0) & ~chosen.closest].tolist()))
    assert len(tally) == 10 and tally.total() == 1500
    # Each is drawn 150 times, with a standard deviation of 9.
    assert max(abs(n - 150) for n in tally.values()) < 45


def test_small_types_are_taken_whole() -> None:
    for C in (10, 20):
        chosen = select_pairs(*long_tail(C))
        assert sorted(sorted(pair) for pair in chosen.pairs.tolist()) == all_pairs(C).tolist()
    state, _ = long_tail(40)
    groups = torch.tensor([HEAD] * 2 + [MEDIUM] * 3 + [TAIL] * 35)
    chosen = select_pairs(state, groups)
    assert chosen.kind.bincount().tolist() == [1, 6, 10, 3, 10, 10]
    mixed = chosen.pairs[chosen.kind == 1].tolist()
    assert sorted(map(tuple, mixed)) == list(product((0, 1), (2, 3, 4)))
    assert select_pairs(state, torch.full((40,), TAIL)).kind.tolist() == [5] * 10
