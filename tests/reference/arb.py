"""Reference values in Arb ball arithmetic: every float input taken as the exact number it is."""

from collections.abc import Callable
from functools import cache

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


class _Series:
    """0F1(nu + 1 + i; y/4) for i = 0, 1, ..., each computed once, and what follows from them."""

    def __init__(self, nu: arb, y: arb) -> None:
        self.nu, self.y = nu, y
        self.values: dict[int, arb] = {}

    def value(self, i: int) -> arb:
        if i not in self.values:
            order = self.nu + i
            value = (self.y / 4).hypgeom_0f1(order + 1)
            if value.rel_accuracy_bits() < 0 and self.y > 0:
                # Arb takes an expansion for large arguments where it does not serve.
                x = self.y.sqrt()
                value = x.bessel_i(order) * ((order + 1).lgamma() - order * (x / 2).log()).exp()
            self.values[i] = value
        return self.values[i]

    def phi(self) -> arb:
        """log of 0F1(nu + 1; y/4) = Gamma(nu + 1) (2/x)^nu I_nu(x), y = x^2."""
        return self.value(0).log()

    def r(self, i: int = 0) -> arb:
        """R(x)/x of the order nu + i: 0F1(nu + 2; y/4) / (0F1(nu + 1; y/4) 2 (nu + 1)) for 0."""
        return self.value(i + 1) / (self.value(i) * (2 * (self.nu + i) + 2))

    def slope(self) -> arb:
        """2 dr/dy."""
        return self.r() * (self.r(1) - self.r())


def _phi(nu: arb, y: arb) -> arb:
    return _Series(nu, y).phi()


def _r(nu: arb, y: arb) -> arb:
    return _Series(nu, y).r()


def bessel(nu: float, x: float) -> tuple[float, float, float, float]:
    """log I_nu(x), R_nu(x), R_nu'(x), R_nu''(x)."""

    def compute() -> list[arb]:
        n, v = arb(nu), arb(x)
        series = _Series(n, v * v)
        ratio = v * series.r()
        slope = 1 - ratio * ratio - (2 * n + 1) * series.r()
        second = -2 * ratio * slope - (2 * n + 1) * (slope / v - ratio / v**2) if x else arb(0)
        log = series.phi() + n * (v / 2).log() - (n + 1).lgamma() if x else arb(0)
        return [log, ratio, slope, second]

    a, b, c, d = _certified(compute)
    return (a if x or not nu else float("-inf")), b, c, d


@cache
def inverse(nu: float, x: float) -> tuple[float, float]:
    """The float nearest to R_nu(x), and its inverse, exact to twice the precision of a float: one
    Newton step from x, which is off by a rounding only."""

    def compute() -> list[arb]:
        n, v = arb(nu), arb(x)
        r = _Series(n, v * v).r()
        nearest = arb(float((v * r).mid()))
        return [nearest, v + (nearest - v * r) / (1 - (v * r) ** 2 - (2 * n + 1) * r)]

    length, kappa = _certified(compute)
    return length, kappa


def log_ie(nu: float, x: float) -> float:
    """log I_nu(x) - x, for x > 0."""

    def compute() -> list[arb]:
        n, v = arb(nu), arb(x)
        return [_phi(n, v * v) + n * (v / 2).log() - (n + 1).lgamma() - v]

    return _certified(compute)[0]


def _tilt(rho: float, kappa: float, tau: float, p: int) -> tuple[arb, arb, arb, _Series, _Series]:
    """rho, kappa and 1/tau, and the series at both ends of the tilt."""
    n, c, k, t = arb(p) / 2 - 1, arb(rho), arb(kappa), 1 / arb(tau)
    y1 = (k - t) ** 2 if c == -1 else (k - t) ** 2 + 2 * k * t * (1 + c)
    return c, k, t, _Series(n, k * k), _Series(n, y1)


@cache
def parts(rho: float, kappa: float, tau: float, p: int) -> tuple[float, ...]:
    """q(0), remainder and its slope, tau q - A rho, and q - log 0F1(t) less its limit."""

    def compute() -> list[arb]:
        c, k, t, before, after = _tilt(rho, kappa, tau, p)
        *_, middle = _tilt(0.0, kappa, tau, p)
        n, r0 = arb(p) / 2 - 1, before.r()
        q, q0 = (a.phi() - before.phi() for a in (after, middle))
        lag = after.phi() - _phi(n, t * t) - k * c
        return [q0, q - q0 - k * t * c * r0, k * t * (after.r() - r0), q / t - k * c * r0, lag]

    a, b, c, d, e = _certified(compute)
    return a, b, c, d, e


@cache
def score(rho: float, kappa: float, tau: float, p: int) -> tuple[float, float, float, float]:
    """q and its derivatives in rho, kappa and tau."""

    def compute() -> list[arb]:
        c, k, t, before, after = _tilt(rho, kappa, tau, p)
        r1 = after.r()
        in_kappa = (k + t * c) * r1 - k * before.r()
        return [after.phi() - before.phi(), k * t * r1, in_kappa, -t * t * (t + k * c) * r1]

    a, b, c, d = _certified(compute)
    return a, b, c, d


@cache
def hessian(rho: float, kappa: float, tau: float, p: int) -> list[float]:
    """The second derivatives of q: rho rho, rho kappa, rho tau, kappa kappa, kappa tau, tau tau."""

    def compute() -> list[arb]:
        c, k, t, before, after = _tilt(rho, kappa, tau, p)
        r, d, along, towards = after.r(), after.slope(), k + t * c, t + k * c
        return [
            (k * t) ** 2 * d,
            t * (r + k * along * d),
            -t * t * k * (r + t * towards * d),
            r + along**2 * d - before.r() - k * k * before.slope(),
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
        centre = _Series(n, middle)
        change = k * t * c * (centre.r() - _r(n, k * k))
        bend = _phi(n, y1) - centre.phi() - k * t * c * centre.r()
        return [change + bend, abs(change) + abs(bend)]

    value, size = _certified(compute)
    return value, size
