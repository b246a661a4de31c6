"""
The gain enters the gradients
=============================

A sample pulls on the network in proportion to the gain of its class. With one temperature, compact classes
pull harder; with equal gains, all pull alike.
"""

import matplotlib.pyplot as plt
import torch

from resultant import ClassState, Rule, realize

p, count = 128, 12
kappa = torch.logspace(1, 3.3, count, dtype=torch.float64)
state = ClassState(torch.eye(count, p, dtype=torch.float64), kappa, torch.full((count,), 50))
rho = torch.full((count,), 0.6, dtype=torch.float64)

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for name, beta, marker in (("native", 1.0, "o"), ("angular", 0.5, "s"), ("angular", 0.0, "^")):
    slope = realize(state, Rule(0.1, name, beta)).slope_at(rho)
    ax.semilogx(kappa, slope, marker, label=f"{name}, beta = {beta:g}")
ax.set(xlabel="concentration of the class", ylabel="slope of its score at cosine 0.6")
ax.legend()
plt.show()
