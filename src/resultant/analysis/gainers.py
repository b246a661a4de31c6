"""The groups and classes that win or lose by one rule against another."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from resultant._core.text import class_name, counted, one_line, shortened
from resultant.analysis.judging import difference, metric_weights
from resultant.analysis.metrics import SIGNIFICANCE
from resultant.analysis.space import FrozenSpace

# The longest name of a class in a sentence.
LONGEST = 24

# Rows that only one of two rules predicts correctly, up to which McNemar's test is exact.
EXACT = 500


def gainers(
    space: FrozenSpace,
    labels: Tensor,
    after: Tensor,
    before: Tensor,
    margin: float,
    names: Sequence[str] | None = None,
) -> str:
    """Say who wins and who loses by one rule against another, after "the rule ".

    A shot group wins or loses if the paired interval of its mean accuracy per class excludes zero,
    for all groups together at 95 %. A class does if McNemar's exact test says so, for all classes
    together at 95 %: a class of few rows is not named for one of them.

    Args:
        space: The classes.
        labels: Classes [N] of held-out rows.
        after: Correct predictions [N] bool of the rule.
        before: Correct predictions [N] bool of the other rule.
        margin: Differences below are ties.
        names: Names of the classes.

    Example:
        >>> import torch
        >>> from resultant.analysis import FrozenSpace
        >>> z, y = torch.eye(2).repeat(20, 1) + 0.1, torch.arange(2).repeat(20)
        >>> gainers(FrozenSpace.fit(z, y, z, y), y, y == y, y == 0, 0.005, ["cat", "dog"])
        'wins most in dog (+100.0 points); of 2 classes 1 wins and 0 lose'
    """
    groups = _groups(space, labels, after, before, margin)
    changes = _classes(labels, after, before, space.num_classes)
    up, down = (sorted((c for c in changes if s * c[0] > 0), reverse=s > 0) for s in (1, -1))
    parts = [groups] if groups else []

    def named(change: tuple[float, int]) -> str:
        gain, c = change
        name = f"class {c}" if names is None else shortened(class_name(one_line(names[c])), LONGEST)
        return f"{name} ({100 * gain:+.1f} points)"

    single = [f"wins most in {named(up[0])}"] if up else []
    single += [f"loses most in {named(down[0])}"] if down else []
    if single:
        lose = counted(len(down), "loses", "lose")
        number = f"of {space.num_classes:,} classes {counted(len(up), 'wins', 'win')} and {lose}"
        parts += [" and ".join(single), number]
    elif groups:
        parts.append("no single class changes by more than chance")
    else:
        parts.append("changes no class by more than chance")
    return "; ".join(parts)


def _groups(
    space: FrozenSpace, labels: Tensor, after: Tensor, before: Tensor, margin: float
) -> str:
    """The changes of the shot groups in words, "" without groups."""
    group, texts = space.groups[labels], dict[str, list[str]]()
    asked = [g for g in range(len(space.group_names)) if (group == g).any()]
    for g in asked:
        own = group == g
        weights = metric_weights(labels[own], "balanced")
        d = difference(after[own], before[own], weights, margin, len(asked))
        kind = "ties" if d.tied else "wins" if d.gain > 0 else "loses"
        size = "" if d.tied else f"{100 * abs(d.gain):.1f} points "
        texts.setdefault(kind, []).append(f"{size}in {space.group_names[g]}")
    if len(asked) < 2:
        return ""
    if len(texts.get("ties", ())) == len(asked):
        return "ties in all shot groups"
    kinds = [kind for kind in ("wins", "loses", "ties") if kind in texts]
    words = [f"{kind} {' and '.join(texts[kind])}" for kind in kinds]
    return f"{', '.join(words)} classes" if words else ""


def _classes(
    labels: Tensor, after: Tensor, before: Tensor, num_classes: int
) -> list[tuple[float, int]]:
    """Changes of accuracy, with their classes, that are more than chance."""
    better, worse, rows = (
        torch.bincount(labels[which], minlength=num_classes).tolist()
        for which in (after & ~before, before & ~after, torch.ones_like(after))
    )
    asked = sum(n > 0 for n in rows)
    changes = []
    for c, (up, down) in enumerate(zip(better, worse, strict=True)):
        if up != down and asked * _chance(up, down) < SIGNIFICANCE:
            changes.append(((up - down) / rows[c], c))
    return changes


def _chance(up: int, down: int) -> float:
    """The p-value of McNemar's test: exact, or with its correction for continuity if rows are
    many."""
    n = up + down
    if n > EXACT:
        return math.erfc((abs(up - down) - 1) / math.sqrt(2 * n))
    tail = sum(math.comb(n, i) for i in range(min(up, down) + 1))
    return min(1.0, 2 * tail / 2**n)
