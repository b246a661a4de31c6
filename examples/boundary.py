"""
A boundary that moves
=====================

A spread-out and a compact class share one temperature, but not one angular scale. Their boundary lies
closer to the class of lower gain. Equal gains move it.
"""

import math

import matplotlib.pyplot as plt
import torch

from resultant import ClassState, Rule, realize, short_arc_roots

angle = math.radians(80)
mu = torch.zeros(2, 128, dtype=torch.float64)
mu[0, 0], mu[1, 0], mu[1, 1] = 1, math.cos(angle), math.sin(angle)
state = ClassState(mu, torch.tensor([40.0, 300.0]).double(), torch.tensor([50, 50]))
u = torch.linspace(0, angle, 200, dtype=torch.float64)
cosines = torch.stack((u.cos(), (angle - u).cos()), 1)

figure, axes = plt.subplots(1, 2, figsize=(9, 2.7), sharey=True, layout="constrained")
for ax, name in zip(axes, ("native", "angular"), strict=True):
    rule = realize(state, Rule(0.1, name))
    root = math.degrees(float(short_arc_roots(rule).root))
    for c, label in enumerate(("spread-out class", "compact class")):
        ax.plot(u.rad2deg(), rule.at(cosines)[:, c], label=label)
        ax.axvspan(*((0, root), (root, 80))[c], color=f"C{c}", alpha=0.12, linewidth=0)
    ax.axvline(root, color="0.3")
    ax.annotate(f" boundary at {root:.0f}°", (root, 8.4))
    ax.set(xlim=(0, 80), ylim=(0, 9.2), xlabel="degrees from the spread-out class")
axes[0].set(title="one temperature", ylabel="score")
axes[0].legend(loc="center right")
axes[1].set(title="equal gains")
plt.show()
