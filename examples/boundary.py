"""
A boundary that moves
=====================

A spread-out and a compact class share one temperature, but not one angular scale. Their boundary lies
closer to the class of lower gain. Equal gains move it.
"""

import math

import matplotlib.pyplot as plt
import torch

from resultant import ClassState, Rule, displacement, realize, short_arc_roots

p, angle = 128, math.radians(80)
mu = torch.zeros(2, p, dtype=torch.float64)
mu[0, 0], mu[1, 0], mu[1, 1] = 1, math.cos(angle), math.sin(angle)
kappa = torch.tensor([40.0, 300.0], dtype=torch.float64)
state = ClassState(mu, kappa, torch.tensor([50, 50]))

u = torch.linspace(0, angle, 200, dtype=torch.float64)
cosines = torch.stack((u.cos(), (angle - u).cos()), 1)
rules = {name: realize(state, Rule(0.1, name)) for name in ("native", "angular")}
roots = {name: short_arc_roots(rule) for name, rule in rules.items()}
shift = math.degrees(float(displacement(roots["native"], roots["angular"]).shift))

figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
for ax, title, (name, rule) in zip(
    axes, ("one temperature", "equal gains"), rules.items(), strict=True
):
    scores = rule.at(cosines)
    for c, label in enumerate(("spread-out class", "compact class")):
        ax.plot(u.rad2deg(), scores[:, c], label=label)
    ax.axvline(math.degrees(float(roots[name].root)), color="0.4", linestyle=":", label="boundary")
    ax.set(title=title, xlabel="degrees from the spread-out class")
axes[0].set_ylabel("score")
axes[1].legend(title=f"the boundary moves by {shift:+.1f} degrees")
plt.show()
