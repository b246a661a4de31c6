"""
Your own features
=================

Handwritten digits with a long tail, classified by vMF classes. Beta says how much of the difference of
gains is kept.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from resultant import CosinePrototypeClassifier, VMFClassifier

X, test, y, truth = train_test_split(*load_digits(return_X_y=True), test_size=0.5, random_state=0)
# A long tail from 80 rows down to 5. Directions are relative to the mean.
rows = [np.flatnonzero(y == c)[: round(80 * (5 / 80) ** (c / 9))] for c in range(10)]
keep = np.concatenate(rows)
mean = X[keep].mean(0)
train, test, y = X[keep] - mean, test - mean, y[keep]

betas = np.linspace(-0.5, 2, 11)
rules = [VMFClassifier(realization="angular", beta=beta).fit(train, y) for beta in betas]
cosine = CosinePrototypeClassifier().fit(train, y)

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.plot(betas, [100 * rule.score(test, truth) for rule in rules], "o-", label="Pure Angular")
ax.axhline(100 * cosine.score(test, truth), color="0.4", linestyle=":", label="cosine prototypes")
ax.set(xlabel="beta (0: equal gains, 1: gains as fitted)", ylabel="accuracy (%)")
ax.legend()
plt.show()
