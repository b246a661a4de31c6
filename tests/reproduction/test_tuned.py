"""Rules at temperatures of their own, against a computation row by row."""

import numpy as np
import torch

from resultant.classes.realization import class_scores
from resultant.classes.statistics import ClassStatistics
from resultant_reproduction.plan import BOTH
from resultant_reproduction.tuned import SHARED, TEMPERATURES, tuned


def naive(x, y, queries, labels, rule):
    """Accuracies of both halves and folds by temperature, with a fit per decision."""

    def decide(keep, z, tau):
        statistics = ClassStatistics(int(y.max()) + 1, x.shape[1])
        statistics.update(x[keep], y[keep])
        return int(class_scores(z[None], statistics.state("proco"), tau, rule).argmax())

    place = [int((labels[:i] == labels[i]).sum()) for i in range(len(labels))]
    fold = [int((y[:i] == y[i]).sum()) % 5 for i in range(len(y))]
    counts = torch.bincount(y)
    halves, folds = ([], []), []
    everything = torch.ones(len(y), dtype=torch.bool)
    for tau in TEMPERATURES:
        right = [decide(everything, z, tau) == c for z, c in zip(queries, labels, strict=True)]
        for k in (0, 1):
            halves[k].append(np.mean([r for r, p in zip(right, place, strict=True) if p % 2 == k]))
        by_class: dict[int, list[bool]] = {}
        for i, c in enumerate(y.tolist()):
            if counts[c] > 1:
                keep = torch.tensor([f != fold[i] or counts[y[j]] == 1 for j, f in enumerate(fold)])
                by_class.setdefault(c, []).append(decide(keep, x[i], tau) == c)
        folds.append(np.mean([np.mean(own) for own in by_class.values()]))
    return halves, folds


def test_temperatures_are_chosen_as_the_protocol_says():
    torch.manual_seed(0)
    y = torch.tensor([0] * 12 + [1] * 7 + [2] * 6 + [3])
    labels = torch.arange(4).repeat_interleave(7)
    centres = torch.nn.functional.normalize(torch.randn(4, 5, dtype=torch.float64), dim=1)
    x, queries = (
        torch.nn.functional.normalize(centres[c] + 0.5 * torch.randn(len(c), 5), dim=1)
        for c in (y, labels)
    )
    found = tuned(x, y, queries, labels)
    for rule in BOTH:
        (first, second), folds = naive(x, y, queries, labels, rule)
        assert np.allclose(found[rule]["curves"]["first"], first, rtol=0, atol=1e-12)
        assert np.allclose(found[rule]["curves"]["second"], second, rtol=0, atol=1e-12)
        assert np.allclose(found[rule]["curves"]["folds"], folds, rtol=0, atol=1e-12)
        a, b, c = (int(np.argmax(np.round(own, 12))) for own in (first, second, folds))
        assert found[rule]["temperatures"] == [TEMPERATURES[i] for i in (a, b, c)]
        assert np.isclose(found[rule]["halves"], (first[b] + second[a]) / 2)
        assert np.isclose(found[rule]["folds"], (first[c] + second[c]) / 2)
        shared = TEMPERATURES.index(SHARED)
        assert np.isclose(found[rule]["shared"], (first[shared] + second[shared]) / 2)
