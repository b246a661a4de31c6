"""Reference values in Arb ball arithmetic: every float input taken as the exact number it is."""

from __future__ import annotations

from collections.abc import Callable

import flint
from flint import arb


def _certified(compute: Callable[[], list[arb]], bits: int = 53 + 40) -> list[float]:
    """Evaluate at a growing precision until every ball is known to far more than a double."""
    precision = 256
    while precision <= 1 << 16:
        flint.ctx.prec = precision
        values = compute()
        if all(v.rel_accuracy_bits() >= bits or bool(v.rad() < 1e-40) for v in values):
            return [float(v.mid()) for v in values]
        precision *= 2
    raise ArithmeticError("Arb did not reach the accuracy asked for")


def _phi(nu: arb, y: arb) -> arb:
    """log of 0F1(nu + 1; y/4) = Gamma(nu + 1) (2/x)^nu I_nu(x), y = x^2."""
    return (y / 4).hypgeom_0f1(nu + 1).log()


def _r(nu: arb, y: arb) -> arb:
    """R_nu(x)/x = 0F1(nu + 2; y/4) / (0F1(nu + 1; y/4) 2 (nu + 1))."""
    return (y / 4).hypgeom_0f1(nu + 2) / ((y / 4).hypgeom_0f1(nu + 1) * (2 * nu + 2))


def bessel(nu: float, x: float) -> tuple[float, float, float, float]:
    """log I_nu(x), R_nu(x), R_nu'(x), R_nu''(x)."""

    def compute() -> list[arb]:
        n, v = arb(nu), arb(x)
        ratio = v * _r(n, v * v)
        slope = 1 - ratio * ratio - (2 * n + 1) * _r(n, v * v)
        second = -2 * ratio * slope - (2 * n + 1) * (slope / v - ratio / v**2) if x else arb(0)
        log = _phi(n, v * v) + n * (v / 2).log() - (n + 1).lgamma() if x else arb(0)
        return [log, ratio, slope, second]

    a, b, c, d = _certified(compute)
    return (a if x or not nu else float("-inf")), b, c, d


def log_ie(nu: float, x: float) -> float:
    """log I_nu(x) - x, for x > 0."""

    def compute() -> list[arb]:
        n, v = arb(nu), arb(x)
        return [_phi(n, v * v) + n * (v / 2).log() - (n + 1).lgamma() - v]

    return _certified(compute)[0]


def score(rho: float, kappa: float, tau: float, p: int) -> tuple[float, float, float, float]:
    """q and its derivatives in rho, kappa and tau."""

    def compute() -> list[arb]:
        n, c, k, t = arb(p) / 2 - 1, arb(rho), arb(kappa), 1 / arb(tau)
        y0, y1 = k * k, (k - t) ** 2 + 2 * k * t * (1 + c)
        if c == -1:
            y1 = (k - t) ** 2
        r1 = _r(n, y1)
        return [
            _phi(n, y1) - _phi(n, y0),
            k * t * r1,
            (k + t * c) * r1 - k * _r(n, y0),
            -t * t * (t + k * c) * r1,
        ]

    a, b, c, d = _certified(compute)
    return a, b, c, d


def hessian(rho: float, kappa: float, tau: float, p: int) -> list[float]:
    """The second derivatives of q: rho rho, rho kappa, rho tau, kappa kappa, kappa tau, tau tau."""

    def compute() -> list[arb]:
        n, c, k, t = arb(p) / 2 - 1, arb(rho), arb(kappa), 1 / arb(tau)
        y0, y1 = k * k, (k - t) ** 2 + 2 * k * t * (1 + c)
        if c == -1:
            y1 = (k - t) ** 2

        def slope(y: arb) -> arb:
            """2 dr/dy."""
            return _r(n, y) * (_r(n + 1, y) - _r(n, y))

        r, d, along, towards = _r(n, y1), slope(y1), k + t * c, t + k * c
        return [
            (k * t) ** 2 * d,
            t * (r + k * along * d),
            -t * t * k * (r + t * towards * d),
            r + along**2 * d - _r(n, y0) - y0 * slope(y0),
            -t * t * (c * r + along * towards * d),
            t**4 * (r + towards**2 * d) + 2 * t**3 * towards * r,
        ]

    return _certified(compute)


def remainder(rho: float, kappa: float, tau: float, p: int) -> tuple[float, float]:
    """q(rho) - q(0) - (A/tau) rho, and the size of the two parts whose sum it is by nature:
    the change of slope from kappa to the tilt at zero, and the bend from there."""

    def compute() -> list[arb]:
        n, c, k, t = arb(p) / 2 - 1, arb(rho), arb(kappa), 1 / arb(tau)
        middle, y1 = k * k + t * t, k * k + t * t + 2 * k * t * c
        change = k * t * c * (_r(n, middle) - _r(n, k * k))
        bend = _phi(n, y1) - _phi(n, middle) - k * t * c * _r(n, middle)
        return [change + bend, abs(change) + abs(bend)]

    value, size = _certified(compute)
    return value, size
