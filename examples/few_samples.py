"""
Few samples look compact
========================

The mean of n random unit vectors is never zero, so a class of few rows is fitted with too large a
concentration. In high dimension this bias hides the truth.
"""

import matplotlib.pyplot as plt
import torch

from resultant import VonMisesFisher, concentration

torch.manual_seed(0)
sizes = (2, 5, 10, 30, 100, 300, 1000)
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for p, colour in ((16, "C0"), (128, "C1"), (1024, "C2")):
    vmf = VonMisesFisher(torch.eye(p)[0].double(), torch.tensor(float(p) / 2, dtype=torch.float64))
    z = vmf.sample((8, max(sizes)))
    fitted = [concentration(p, z[:, :n].mean(1).norm(dim=1), "mle").median() for n in sizes]
    ax.loglog(sizes, fitted, "o-", color=colour, label=f"p = {p}")
    ax.axhline(p / 2, color=colour, linestyle=":")
ax.set(xlabel="samples", ylabel="fitted concentration (dotted: true)")
ax.legend()
plt.show()
