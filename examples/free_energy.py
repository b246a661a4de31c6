"""
Low temperature leaves the expansion
====================================

The expansion holds while one over the temperature is small compared with the dimension. Beyond, its error grows
without bound, while the free-energy form stays close to the exact score.
"""

import matplotlib.pyplot as plt
import torch

from resultant import free_energy_expansion, joint_expansion, vmf_score

p, rho = 256, torch.tensor(0.5, dtype=torch.float64)
kappa = torch.tensor(256.0, dtype=torch.float64)
tau = torch.logspace(-4, 1, 100, dtype=torch.float64)
exact = vmf_score(rho, kappa, tau, p)
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for label, expand in (("joint expansion", joint_expansion), ("free energy", free_energy_expansion)):
    error = (expand(rho, kappa, tau, p, validate_args=False) / exact - 1).abs()
    ax.loglog(1 / tau, error, label=label)
ax.axvline(p / 2 - 1, color="0.4", linestyle=":", label="nu = p/2 - 1")
ax.set(xlabel="one over the temperature", ylabel="relative error of the score")
ax.legend()
plt.show()
