"""Native scores on frozen features from high to low temperature, with the rules at both ends.

As tau grows, tau q goes to A_c rho, the inner product with the class mean. As tau falls,
differences of scores go to those of log f_c(z), the vMF likelihood (protocol, group 6).
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from resultant.classes.scores import class_scores
from resultant.classes.statistics import ClassState, ClassStatistics
from resultant.vmf.estimators import log_normalizer
from resultant_reproduction.frozen.tuned import SHARED, TEMPERATURES

# From the rule of the means to that of the likelihood.
PATH = (100.0, 10.0, *TEMPERATURES, 1e-5)
LIMITS = ("means", "likelihood")


def temperature_path(x: Tensor, y: Tensor, queries: Tensor, labels: Tensor) -> dict[str, Any]:
    """Compute the path of one space, from training features ``x`` [N, p] of classes ``y`` [N] and
    test features [M, p] of classes [M]: the ``accuracy`` of the limits, of cosine and of Pure
    Angular; of native at the temperatures of `PATH` the accuracy and the shares of queries on which
    it ``agrees`` with each limit; and the mean over classes of the resultant length A_c that is
    ``fitted`` and of the cosine of ``held_out`` queries with their class direction."""
    x, queries = (F.normalize(a.double(), dim=-1) for a in (x, queries))
    statistics = ClassStatistics(int(y.max()) + 1, x.shape[1], device=x.device)
    state = statistics.update(x, y).state("proco")
    rho = queries @ state.mu.T
    decided = {
        "means": (state.resultant * rho).argmax(-1),
        "likelihood": log_likelihoods(rho, state).argmax(-1),
        "cosine": rho.argmax(-1),
        "angular": class_scores(queries, state, SHARED, "angular").argmax(-1),
    }
    native = [class_scores(queries, state, tau).argmax(-1) for tau in PATH]
    own, held = rho.gather(1, labels[:, None]).squeeze(1), torch.bincount(labels)
    cosines = torch.zeros_like(state.kappa).index_add_(0, labels, own) / held
    return {
        "accuracy": {name: _share(rule == labels) for name, rule in decided.items()},
        "native": [_share(rule == labels) for rule in native],
        "agrees": {name: [_share(rule == decided[name]) for rule in native] for name in LIMITS},
        "fitted": float(state.resultant.mean()),
        "held_out": float(cosines.mean()),
    }


def log_likelihoods(rho: Tensor, state: ClassState) -> Tensor:
    """Compute log f_c(z) [N, C] from cosines, up to a constant."""
    return state.kappa * rho - log_normalizer(state.dim, state.kappa)


def _share(true: Tensor) -> float:
    return float(true.double().mean())
