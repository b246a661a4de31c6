"""Classify your own features, here handwritten digits with a long tail: draw the accuracy of Pure
Angular over beta, and of cosine prototypes."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from resultant import CosinePrototypeClassifier, VMFClassifier
from resultant.report.style import BLUE, GREY, legend_below, panels, save, style

BETAS = np.linspace(-0.5, 2, 11)


def main() -> None:
    data, target = load_digits(return_X_y=True)
    X, test, y, truth = train_test_split(
        data, target, test_size=0.5, random_state=0, stratify=target
    )
    # A long tail from 80 rows down to 5; directions are relative to the mean.
    keep = np.concatenate(
        [np.flatnonzero(y == c)[: round(80 * (5 / 80) ** (c / 9))] for c in range(10)]
    )
    mean = X[keep].mean(0)
    train, test, y = X[keep] - mean, test - mean, y[keep]
    rules = [VMFClassifier(realization="angular", beta=beta) for beta in BETAS]
    right = [100 * rule.fit(train, y).score(test, truth) for rule in rules]
    cosine = 100 * CosinePrototypeClassifier().fit(train, y).score(test, truth)
    with style():
        figure, (ax,) = panels(width=5.2, height=3.6)
        ax.plot(BETAS, right, "o-", color=BLUE, label="Pure Angular (native at beta = 1)")
        ax.axhline(cosine, color=GREY, ls=":", label="cosine prototypes")
        ax.set(xlabel="beta", ylabel="accuracy (%)")
        legend_below(figure, ax)
        print(*save(figure, "out/examples/own_features"), sep="\n")


if __name__ == "__main__":
    main()
