"""
The expansion in high dimension
===============================

Each further term of the expansion gains one order in the dimension. The slopes of the lines are what the
theorem says: -1, -2 and -3.
"""

import matplotlib.pyplot as plt
import torch

from resultant import joint_expansion, vmf_score

dimensions = [2**k for k in range(4, 15)]
rho = torch.linspace(-1, 1, 41, dtype=torch.float64)
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for order in (0, 1, 2):
    errors = []
    for p in dimensions:
        nu = p / 2 - 1
        arguments = rho, torch.tensor(2 * nu, dtype=torch.float64), 0.5, p
        errors.append(
            float((joint_expansion(*arguments, order) - vmf_score(*arguments)).abs().max())
        )
    ax.loglog(dimensions, errors, "o-", label=f"up to B{order}")
ax.set(xlabel="dimension p, with kappa = p - 2", ylabel="largest error of the score")
ax.legend()
plt.show()
