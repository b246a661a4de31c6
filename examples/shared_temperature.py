"""
A shared temperature is not a shared scale
==========================================

The angular gain is the mean resultant length of the class divided by the temperature. It grows with the
concentration, and the higher the dimension, the more concentration it takes.
"""

import matplotlib.pyplot as plt
import torch

from resultant import mean_resultant

kappa = torch.logspace(0, 4, 200, dtype=torch.float64)
figure, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
for p in (3, 32, 128, 512, 2048):
    ax.semilogx(kappa, mean_resultant(p, kappa) / 0.1, label=f"p = {p}")
ax.axhline(10, color="0.4", linestyle=":", label="one over the temperature")
ax.set(xlabel="concentration kappa of the class", ylabel="angular gain at temperature 0.1")
figure.legend(loc="outside right center")
plt.show()
