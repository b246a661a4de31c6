"""Labelled samples: of unequal classes, of correlated columns, of opposite components."""

import numpy as np

P = 6


def sample(n: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of any length, of four classes of unequal size and spread."""
    rng = np.random.default_rng(seed)
    y = rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
    y[:20] = np.arange(20) % 4
    noise = 0.5 * (1 + y[:, None]) / 2 * rng.normal(size=(n, P))
    X = np.random.default_rng(7).normal(size=(4, P))[y] + noise
    return X * rng.uniform(0.1, 10, size=(n, 1)), y


def correlated(n: int = 90, seed: int = 0, p: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Three classes that differ little where rows of a class differ much."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    spread = np.concatenate([np.full(p // 2, 2.0), np.full(p - p // 2, 0.1)])
    means = np.random.default_rng(3).normal(size=(3, p)) * np.sqrt(spread) / 3
    mixing = np.linalg.qr(np.random.default_rng(4).normal(size=(p, p)))[0]
    return (means[y] + spread * rng.normal(size=(n, p))) @ mixing + 3 * mixing[0], y


def opposite(n: int = 40, p: int = 6, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two classes with two opposite components each, whose means cancel, and one plain class."""
    rng = np.random.default_rng(seed)
    centres = np.vstack([np.eye(p)[0], -np.eye(p)[0], np.eye(p)[1], -np.eye(p)[1], np.eye(p)[2]])
    part = np.arange(5 * n) % 5
    return centres[part] + 0.2 * rng.normal(size=(5 * n, p)), np.array([0, 0, 1, 1, 2])[part]
