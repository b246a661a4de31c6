"""Write score.npz and bessel.npz: Arb values on grids of float32 inputs.

    python tests/reference/make.py

Inputs are float32 numbers, so that one truth serves every precision.
"""

import multiprocessing
from pathlib import Path

import arb
import numpy as np

HERE = Path(__file__).parent
DIMENSIONS = [2, 3, 4, 5, 7, 10, 17, 24, 25, 26, 27, 31, 33, 50, 61, 62, 63, 64, 65, 100, 127, 128]
DIMENSIONS += [257, 512, 1023, 1024, 2048, 4097, 16384, 65535, 65536]


def single(x: float) -> float:
    return float(np.float32(x))


def score_points(rng: np.random.Generator) -> list[tuple[float, float, float, int]]:
    points = []
    for p in DIMENSIONS:
        n = 24 if p > 10_000 else 80
        for _ in range(n):  # everywhere, with the ends and the zero of q
            kappa, t = 10 ** rng.uniform(-6, 6), 10 ** rng.uniform(-2, 3)
            near_zero = -t / (2 * kappa) if t < 2 * kappa else 0.3
            near_end = -1 + 10 ** rng.uniform(-7, 0)
            rho = rng.choice([-1, 0, 1, rng.uniform(-1, 1), near_zero, near_end])
            points.append((single(rho), single(kappa), single(1 / t), p))
        for _ in range(n // 2):  # kappa of the order of p
            kappa, t = p * 10 ** rng.uniform(-1, 1), 10 ** rng.uniform(0, 2)
            points.append((single(rng.uniform(-1, 1)), single(kappa), single(1 / t), p))
        for _ in range(n // 3):  # the tilted concentration near zero
            t = 10 ** rng.uniform(-1, 3)
            kappa = t * (1 + rng.normal() * 10 ** rng.uniform(-4, -1))
            rho = rng.choice([-1, -1 + 10 ** rng.uniform(-6, -1)])
            points.append((single(rho), single(kappa), single(1 / t), p))
    # the grid of corners
    for p in (3, 127, 1024, 65536):
        for kappa in (1e-6, 1.0, 1e3, 1e6):
            for t in (0.01, 1.0, 1e3):
                points += [(rho, single(kappa), single(1 / t), p) for rho in (-1.0, 0.5, 1.0)]
    return points


def bessel_points(rng: np.random.Generator) -> list[tuple[float, float]]:
    points = []
    for nu in [0, 0.25, *(p / 2 - 1 for p in DIMENSIONS[1:])]:
        n = 12 if nu > 5_000 else 40
        crossing = 0.6627434193491816 * nu  # where log I_nu passes zero
        points += [(nu, single(10 ** rng.uniform(-6, 6))) for _ in range(n)]
        points += [(nu, single(nu * rng.uniform(0.1, 3) + 0.01)) for _ in range(n)]
        for _ in range(n):
            x = crossing * (1 + rng.normal() * 10 ** rng.uniform(-5, -1)) + 1e-3
            points.append((nu, single(abs(x))))
    return points


def main() -> None:
    rng = np.random.default_rng(20240501)
    with multiprocessing.Pool() as pool:
        points = score_points(rng)
        values = pool.starmap(arb.score, points, chunksize=32)
        names = ("rho", "kappa", "tau", "p", "q", "slope", "dkappa", "dtau")
        table = np.concatenate([np.array(points), np.array(values)], axis=1)
        np.savez_compressed(HERE / "score.npz", **dict(zip(names, table.T, strict=True)))
        points = bessel_points(rng)
        values = pool.starmap(arb.bessel, points, chunksize=32)
        names = ("nu", "x", "log", "ratio", "first", "second")
        table = np.concatenate([np.array(points), np.array(values)], axis=1)
        np.savez_compressed(HERE / "bessel.npz", **dict(zip(names, table.T, strict=True)))


if __name__ == "__main__":
    main()
