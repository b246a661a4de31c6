"""
The score and its slope
=======================

The exact score of a class is nearly linear in the cosine, and the slope of the line is the gain. What is
left over, the remainder, is small in high dimension.
"""

import matplotlib.pyplot as plt
import torch

from resultant import decompose, vmf_score

rho = torch.linspace(-1, 1, 201, dtype=torch.float64)
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for kappa in (30.0, 100.0, 300.0):
    parts = decompose(rho, kappa, tau=0.1, p=128)
    axes[0].plot(rho, vmf_score(rho, kappa, tau=0.1, p=128), label=f"kappa = {kappa:g}")
    axes[1].plot(rho, parts.remainder, label=f"gain {float(parts.gain.max()):.2f}")
axes[0].set(xlabel="cosine of query and class", ylabel="score")
axes[1].set(xlabel="cosine of query and class", ylabel="score less intercept and gain * cosine")
for ax in axes:
    ax.set_xticks([-1, -0.5, 0, 0.5, 1])
    ax.legend()
plt.show()
