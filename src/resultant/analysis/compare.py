"""The verdict on two feature sets."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from resultant._core.text import in_points
from resultant.analysis import metrics
from resultant.analysis.choose import percent
from resultant.analysis.read import ready
from resultant.analysis.result import SetComparison
from resultant.analysis.run import Progress, Study, run
from resultant.analysis.split import Settings, row_weights
from resultant.features.identities import match_rows
from resultant.features.prepare import Prepared
from resultant.features.selection import WORDS as OF_WORDS

WORDS = {"better": "B is better than A", "worse": "A is better than B"}
WORDS["tie"] = "A and B are not significantly different"


def compare_sets(studies: Sequence[Study], a: int, b: int) -> SetComparison:
    """Compare two feature sets on test rows paired by their identities, or else on two samples."""
    sides = studies[a], studies[b]
    metric, values = sides[0].plan.metric, []
    labels = [side.data.test.y[side.plan.test] for side in sides]
    known = [side.data.test.identities for side in sides]
    match = None
    if known[0] is not None and known[1] is not None:
        match = match_rows(known[0][sides[0].plan.test], known[1][sides[1].plan.test])
    paired = match is not None and match.kind in ("same", "reordered")
    if match is not None and paired:
        weights = row_weights(labels[0][match.a], metric)
        before, after = sides[0].right[match.a], sides[1].right[match.b]
        both = sides[0].plan.test_copies[match.a], sides[1].plan.test_copies[match.b]
        copies = torch.stack(both).unique(dim=1, return_inverse=True)[1]
        d = metrics.paired_gain(before, after, weights, copies=copies)
        number, rows = len(match.a), "the same test rows"
    else:
        hits, copies = ([side.right for side in sides], [s.plan.test_copies for s in sides])
        d = metrics.unpaired_gain(hits, [row_weights(y, metric) for y in labels], copies)
        number, rows = sum(map(len, labels)), "test rows that are not known to be the same"
    for side, name in zip(sides, "AB", strict=True):
        assert side.result is not None, "summarize before"
        method = side.result.method(side.used.key)
        share = f"{percent(method.metric(metric))} {metric}"
        values.append(f"{name} has {share} with {method.name}")
    text = f"{WORDS[d.verdict]}: {', '.join(values)}; {in_points(d.gain, d.low, d.high)}"
    text += f" for B on {rows}, p = {d.p_value:.2g}."
    return SetComparison(a, b, metric, d, paired, number, text)


def compare_stores(
    stores: Sequence[Prepared],
    titles: Sequence[str],
    settings: Settings,
    seed: int,
    progress: Progress = lambda _: None,
) -> tuple[list[Study], tuple[SetComparison, ...], list[int]]:
    """Analyze two stores of as many feature sets; return the studies of A and then of B, a verdict
    for each pair, and the indices of the studies to use of A, whose pair decides, and of B."""
    studies: list[Study] = []
    chosen: list[int] = []
    for side, store, title in zip("AB", stores, titles, strict=True):
        sets = ready(store, f"{side}: {title}", seed=seed)
        # Both sides have the metric of A.
        metric = studies[0].plan.metric if studies else settings.metric
        shared = replace(settings, theory=False, metric=metric)
        some, best = run(sets, shared, lambda text, side=side: progress(f"{side}: {text}"))
        chosen.append(len(studies) + best)
        studies += some
    pairs = len(studies) // 2
    return studies, tuple(compare_sets(studies, i, pairs + i) for i in range(pairs)), chosen


def same_features(
    stores: Sequence[Prepared], where: Sequence[object]
) -> tuple[list[Prepared], list[str]]:
    """Return two stores of the same classes with their features of one name, or the only ones,
    whatever their names; and the names of the pairs."""
    require_same_classes(stores, where)
    a, b = (store.features for store in stores)
    same = {name: (name, name) for name in a if name in b}
    if not same and len(a) == len(b) == 1:
        same = {f"{a[0]}, {b[0]}": (a[0], b[0])}
    if not same:
        got = f"{', '.join(a)} in {where[0]} and {', '.join(b)} in {where[1]}"
        raise ValueError(f"expected features of one name in both, got {got}")
    sides = zip(*same.values(), strict=True)
    chosen = [replace(s, features=own) for s, own in zip(stores, sides, strict=True)]
    return chosen, list(same)


def require_same_classes(stores: Sequence[Prepared], where: Sequence[object]) -> None:
    """Raise if the classes of two stores differ, by name unless one side has only labels."""
    facts = [(s.store.metadata.get("dataset"), s.store.num_classes) for s in stores]
    for noun, one, other in zip(("dataset", "number of classes"), *facts, strict=True):
        if None not in (one, other) and one != other:
            got = f"{one} in {where[0]} and {other} in {where[1]}"
            raise ValueError(f"expected one {noun} in both, got {got}")
    # The labels of words are their order, which says nothing of another file.
    only_labels = {all(map(str.isdecimal, store.names)) for store in stores}
    words = any(store.store.metadata.get("labels") == OF_WORDS for store in stores)
    if len(only_labels) == 2 and not words:
        return
    for c, (a, b) in enumerate(zip(*(store.names for store in stores), strict=True)):
        if a != b:
            got = f"{a!r} in {where[0]} and {b!r} in {where[1]}"
            raise ValueError(f"expected the same classes in both, but class {c} is called {got}")
