r"""Whether held-out features look like one vMF a class (sec:support-fit-protocol)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from resultant.frozen.result import Result


@dataclass(frozen=True, eq=False)
class GoodnessOfFit(Result):
    r"""Held-out queries under the fitted vMF of their own class; the fit of the score's geometry is
    another matter.

    By class with queries, all [M]: ``classes``, ``queries``, ``kolmogorov`` the distance of
    Kolmogorov and Smirnov between the law of :math:`\mu_c^\top Z` and the queries, its exact
    ``p_value``, ``fitted`` :math:`A_c` and ``mean_cosine`` on the queries, and ``anisotropy``,
    :math:`(p-1)` times the mean squared cosine between directions across :math:`\mu_c` of two
    queries: one for a vMF, NaN for one query. ``histogram`` [20] counts the values of the law at all
    queries in equal bins of [0, 1], flat for a vMF; ``rejected`` is the share of classes with
    p < 0.05.
    """

    classes: Tensor
    queries: Tensor
    kolmogorov: Tensor
    p_value: Tensor
    fitted: Tensor
    mean_cosine: Tensor
    anisotropy: Tensor
    histogram: Tensor
    rejected: float
