"""Compare the exact score with other methods, against mpmath: errors of q at a few points and along
kappa at p = 1024, and the angular gain g = A/tau along kappa/p."""

from __future__ import annotations

from collections.abc import Callable

import mpmath
import numpy as np
import torch
from matplotlib.axes import Axes
from scipy import special

from resultant import bessel_ratio, vmf_score
from resultant.report.style import BLUE, ORANGE, RED, SKY, legend_below, panels, save, style

TAU = 0.1
RHO = (-0.9, -0.4, 0.3, 0.8, 1.0)
# p and kappa: kappa far above p, near it, where I_nu underflows, and an odd dimension.
POINTS = [(128, 2000.0), (1024, 500.0), (2048, 409.6), (127, 200.0)]
# A quarter of the spacing of float64: no error to be drawn is below it but zero.
FLOOR = 2.0**-54

# q of cosines and kappas in a dimension.
Score = Callable[[np.ndarray, np.ndarray, int], np.ndarray]


def true_score(rho: float, kappa: float, p: int) -> tuple[float, float]:
    """q(rho), and rho times its slope, of 40 digits."""
    with mpmath.workdps(40):
        nu, t = mpmath.mpf(p) / 2 - 1, 1 / mpmath.mpf(TAU)
        kt = mpmath.sqrt(kappa**2 + 2 * kappa * t * rho + t**2)
        low, tilted = (mpmath.besseli(nu, x) for x in (kappa, kt))
        ratio = mpmath.besseli(nu + 1, kt) / tilted
        q = mpmath.log(tilted / low) - nu * mpmath.log(kt / kappa)
        return float(q), float(rho * ratio * kappa * t / kt)


def ours(dtype: torch.dtype) -> Score:
    def score(rho: np.ndarray, kappa: np.ndarray, p: int) -> np.ndarray:
        r, k = (torch.from_numpy(a).to(dtype) for a in (rho, kappa))
        return vmf_score(r, k, TAU, p).double().numpy()

    return score


def subtracted(phi: Callable[[float, np.ndarray], np.ndarray]) -> Score:
    """phi(kt) - phi(kappa) with phi(x) = log I_nu(x) - nu log x, two large values."""

    def score(rho: np.ndarray, kappa: np.ndarray, p: int) -> np.ndarray:
        kt = np.sqrt(kappa**2 + 2 * kappa * rho / TAU + 1 / TAU**2)
        with np.errstate(all="ignore"):
            return phi(p / 2 - 1, kt) - phi(p / 2 - 1, kappa)

    return score


def scipy_phi(nu: float, x: np.ndarray) -> np.ndarray:
    return np.log(special.ive(nu, x)) + x - nu * np.log(x)


def recurrence_phi(nu: float, x: np.ndarray) -> np.ndarray:
    """As ProCo does it: from twice the order, truncated to an integer, down to I_0; nu log x in
    float32. For x far above the order that start is too low."""
    order, single = int(nu), x.astype(np.float32)
    x = single.astype(np.float64)
    high, low, shift, found = np.zeros_like(x), np.ones_like(x), np.zeros_like(x), x
    for i in range(2 * order, 0, -1):
        if i == order:
            found = np.log(low) + shift
        high, low = low, high + 2 * i / x * low
        shift += np.log(low)
        high, low = high / low, np.ones_like(low)
    value = np.log(special.i0e(x)) - shift + found
    return value + single - np.float32(nu) * np.log(single)


SCORES: dict[str, tuple[Score, str]] = {
    "resultant, float64": (ours(torch.float64), BLUE),
    "resultant, float32": (ours(torch.float32), SKY),
    "scipy ive": (subtracted(scipy_phi), ORANGE),
    "ProCo recurrence": (subtracted(recurrence_phi), RED),
}


def errors(p: int, kappa: np.ndarray) -> dict[str, np.ndarray]:
    """For each method, its largest error over RHO at every kappa, nan where q is not finite."""
    # float32 holds these points, so that one truth serves all.
    rho, k = (a.ravel().astype(np.float32).astype(float) for a in np.meshgrid(RHO, kappa))
    q, product = np.array([true_score(*x, p) for x in zip(rho, k, strict=True)]).T
    scale = np.maximum(abs(q), abs(product))
    found = {}
    for name, (score, _) in SCORES.items():
        error = abs(score(rho, k, p) - q) / scale
        error[~np.isfinite(error)] = np.nan
        found[name] = error.reshape(len(kappa), len(RHO)).max(axis=1)
    return found


def draw_errors(ax: Axes) -> None:
    kappa = np.geomspace(10, 1e5, 49)
    for name, error in errors(1024, kappa).items():
        ax.loglog(kappa, np.maximum(error, FLOOR), color=SCORES[name][1], label=name)
        lost = np.isnan(error)
        ax.loglog(kappa[lost], np.full(lost.sum(), 0.25), "x", color=SCORES[name][1])
    ax.set(xlabel="concentration kappa (crosses: not finite)", ylabel="error of q, relative")
    ax.set(title=f"The score in dimension 1024, tau = {TAU}", ylim=(1e-17, 1))


def draw_gain(ax: Axes) -> None:
    share = torch.logspace(-2, 2.5, 201, dtype=torch.float64)
    for p, line in ((2048, "-"), (128, "--"), (8, ":")):
        ax.semilogx(share, bessel_ratio(p / 2 - 1, share * p) / TAU, line, label=f"p = {p}")
    ax.axhline(1 / TAU, color="0.5", lw=1)
    ax.set(xlabel="kappa / p", ylabel="angular gain g", title="One temperature, many gains")
    ax.legend()


def main() -> None:
    print(f"error of q relative to its size, tau = {TAU}, worst of {len(RHO)} cosines")
    print(f"{'p':>5} {'kappa':>6}", *(f"{name:>18}" for name in SCORES))
    for p, kappa in POINTS:
        found = errors(p, np.array([kappa]))
        print(f"{p:>5} {kappa:>6g}", *(f"{error[0]:>18.0e}" for error in found.values()))
    with style():
        figure, (left, right) = panels(2, width=4.6, height=3.6)
        draw_errors(left)
        draw_gain(right)
        legend_below(figure, left, columns=4)
        print(*save(figure, "out/examples/exact_score"), sep="\n")


if __name__ == "__main__":
    main()
