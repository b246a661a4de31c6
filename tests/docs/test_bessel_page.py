"""The page of derivations and the code cite the same numbers, and the formulas are true."""

import re
from pathlib import Path
from typing import Any

import mpmath
import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "bessel.md").read_text()
CODE = {
    path.name: path.read_text()
    for path in sorted((ROOT / "src" / "resultant" / "special").glob("*.py"))
}


def test_every_number_is_cited_and_defined() -> None:
    defined = [int(n) for n in re.findall(r"^\*\*\((\d+)\)\*\*", PAGE, re.M)]
    assert defined == list(range(1, len(defined) + 1))
    lines = [line for text in CODE.values() for line in text.splitlines()]
    cited = {int(n) for line in lines for n in re.findall(r"(?<![\w.\])])\((\d{1,2})\)", line)}
    assert cited == set(defined)


@pytest.mark.parametrize("a", [24.0, 60.5])
@pytest.mark.parametrize("x", [0.3, 20.0, 300.0])
def test_formulas_of_the_ratio(a: float, x: float) -> None:
    """(4) to (9) and (28) from an L that is defined by (1), at 60 digits."""
    with mpmath.workdps(60):
        order, at = mpmath.mpf(a), mpmath.mpf(x)

        def log_i(z: Any) -> Any:
            return mpmath.log(mpmath.besseli(order, z))

        def L(u: Any) -> Any:
            s = order / u
            z = mpmath.sqrt(s * s - order * order)
            leading = s - order * mpmath.log(order + s) - mpmath.log(2 * mpmath.pi * s) / 2
            return log_i(z) - order * mpmath.log(z) - leading

        def ratio(z: Any) -> Any:
            return mpmath.besseli(order + 1, z) / mpmath.besseli(order, z)

        y, s = at * at, mpmath.sqrt(at * at + order * order)
        w, g, u = 1 / s, 1 / (order + s), order / s
        slope = [mpmath.diff(L, u, n) for n in (1, 2, 3)]
        E1, E2 = u * slope[0], u * slope[0] + u**2 * slope[1]
        E3 = u * slope[0] + 3 * u**2 * slope[1] + u**3 * slope[2]
        e1, both = E1 + mpmath.mpf(1) / 2, 2 * E1 + 1 + E2
        R, first, second = (mpmath.diff(ratio, at, n) for n in (0, 1, 2))
        r, dr = R / at, (first / at - R / at**2) / at
        pairs = {
            4: (r, g - e1 * w**2),
            5: (dr, both * w**4 - w * g**2),
            6: (
                (second / at - 2 * first / at**2 + 2 * R / at**3) / at**2
                - (first / at - R / at**2) / at**3,
                (w * g) ** 2 * (w + 2 * g) - (8 * e1 + 6 * E2 + E3) * w**6,
            ),
            7: (1 - R, (order + order**2 / (s + at)) * g + at * e1 * w**2),
            8: (first, order * w * g - e1 * w**2 + y * w**4 * both),
            9: (
                second / at,
                w**4 * (both * (1 + 2 * order**2 * w**2) - y * w**2 * (4 * e1 + 4 * E2 + E3))
                - order * (order + 2 * s) * g**2 * w**3,
            ),
            28: (
                at * mpmath.besseli(order - 1, at) / mpmath.besseli(order, at),
                order + s - e1 * y * w**2,
            ),
        }
        for number, (value, formula) in pairs.items():
            assert abs(value / formula - 1) < 1e-15, number
