"""Labelled samples in the rows of an array, as a classifier is given them."""

from __future__ import annotations

import numpy as np

P = 5


def sample(n: int = 60, seed: int = 0, spread: float = 0.6) -> tuple[np.ndarray, np.ndarray]:
    """Rows of any length around a direction per class, in classes of unequal size and spread."""
    rng = np.random.default_rng(seed)
    y = rng.choice(4, n, p=[0.5, 0.25, 0.15, 0.1])
    y[:8] = np.arange(8) % 4
    noise = spread * (1 + y[:, None]) / 2 * rng.normal(size=(n, P))
    X = np.random.default_rng(7).normal(size=(4, P))[y] + noise
    return X * rng.uniform(0.1, 10, size=(n, 1)), y


def unit(X: np.ndarray) -> np.ndarray:
    return X / np.linalg.norm(X, axis=-1, keepdims=True)
