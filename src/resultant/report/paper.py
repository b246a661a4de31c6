"""Numbers that the paper prints for the labels of its tables, figures, sections and equations."""

from __future__ import annotations

NUMBERS = {
    "tab:angular-training": "Table 1",
    "tab:frozen-vmf": "Table 2",
    "tab:frozen-vmf-realizations": "Table 3",
    "tab:cosine-diagnostics": "Table 4",
    "tab:cosine-gradients": "Table 5",
    "fig:gain-discovery": "Figure 1",
    "fig:main-boundaries": "Figure 3",
    "fig:realization": "Figure 4",
    "fig:finite-sample": "Figure 9",
    "fig:real-margin-app": "Figure 11",
    "eq:cosine-margin-certificate": "Equation G.13",
    "sec:self-inclusion": "Appendix H.4",
    "sec:same-state-diagnostic": "Appendix I.3",
    "sec:frozen-states": "Appendix J.1",
    "sec:boundary-selection": "Appendix J.2",
    "sec:margin-change-protocol": "Appendix J.4",
    "sec:support-fit-protocol": "Appendix J.7",
    "sec:prior-dependent-frozen": "Appendix K.1",
    "sec:backbone-calibration-extension": "Appendix M.5",
}


def printed(labels: str) -> str:
    """Return the numbers of labels that are separated by commas; labels without one are left out.

    Example:
        >>> printed("fig:gain-discovery, tab:cosine-gradients")
        'Figure 1, Table 5'
    """
    return ", ".join(NUMBERS[n] for n in labels.split(", ") if n in NUMBERS)
