"""Draw the scores of a spread-out and a compact class along the arc between their directions,
native
and with equal gains, and the boundary that moves."""

from __future__ import annotations

import math

import torch

from resultant import ClassState, Rule, displacement, realize, short_arc_roots
from resultant.report.style import BLUE, ORANGE, legend_below, panels, save, style

P, TAU, ANGLE = 128, 0.1, math.radians(80)


def main() -> None:
    mu = torch.zeros(2, P, dtype=torch.float64)
    mu[0, 0], mu[1, 0], mu[1, 1] = 1, math.cos(ANGLE), math.sin(ANGLE)
    kappa = torch.tensor([40.0, 300.0], dtype=torch.float64)
    state = ClassState(mu, kappa, torch.tensor([50, 50]))
    u = torch.linspace(0, ANGLE, 200, dtype=torch.float64)
    rules = {name: realize(state, Rule(TAU, name)) for name in ("native", "angular")}
    roots = {name: short_arc_roots(rule) for name, rule in rules.items()}
    with style():
        figure, axes = panels(2)
        for ax, (name, rule) in zip(axes, rules.items(), strict=True):
            q = rule.at(torch.stack((u.cos(), (ANGLE - u).cos()), 1))
            for c, (title, colour) in enumerate((("loose", BLUE), ("tight", ORANGE))):
                ax.plot(u.rad2deg(), q[:, c], color=colour, label=f"{title}, kappa = {kappa[c]:g}")
            ax.axvline(math.degrees(float(roots[name].root)), color="0.5", ls=":")
            ax.set(title=name, xlabel="degrees from the loose class", ylabel="score")
        legend_below(figure, axes[0], columns=2)
        shift = math.degrees(float(displacement(roots["native"], roots["angular"]).shift))
        print(f"a shared gain moves the boundary by {shift:+.2f} degrees")
        print(*save(figure, "out/examples/boundary"), sep="\n")


if __name__ == "__main__":
    main()
