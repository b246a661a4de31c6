"""
Three ways to edit the gain
===========================

All three make the gains of two classes equal. Direct temperature also moves the intercepts of the scores,
the second way keeps them, and Pure Angular changes the slope alone.
"""

import matplotlib.pyplot as plt
import torch

from resultant import ClassState, Rule, realize

titles = {
    "native": "native: no edit",
    "temperature": "direct temperature",
    "preserve": "intercept-preserving",
    "angular": "Pure Angular",
}
kappa = torch.tensor([40.0, 300.0], dtype=torch.float64)
state = ClassState(torch.eye(2, 128, dtype=torch.float64), kappa, torch.tensor([50, 50]))
rho = torch.linspace(-0.2, 1, 100, dtype=torch.float64)

figure, axes = plt.subplots(1, 4, figsize=(9.5, 2.7), sharey=True, layout="constrained")
for ax, (name, title) in zip(axes, titles.items(), strict=True):
    scores = realize(state, Rule(0.1, name)).at(rho[:, None].expand(-1, 2))
    ax.plot(rho, scores, label=[f"kappa = {k:g}" for k in kappa])
    ax.set(title=title, xlabel="cosine")
axes[0].set_ylabel("score")
axes[0].legend()
plt.show()
