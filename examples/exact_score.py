"""
Exact where others lose digits
==============================

The score is a difference of two logarithms of Bessel functions, which nearly cancel. Computed directly,
the difference loses digits as the concentration grows, and overflows in high dimension.
"""

import matplotlib.pyplot as plt
import mpmath
import numpy as np
import torch
from scipy.special import ive

from resultant import vmf_score

rho, tau, kappas = 0.5, 0.1, np.logspace(0, 6, 25)


def direct(kappa, nu, log_bessel):
    r = (kappa**2 + 2 * kappa * rho / tau + tau**-2) ** 0.5
    return log_bessel(nu, r) - log_bessel(nu, kappa)


figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
for ax, p in zip(axes, (64, 1024), strict=True):
    nu = p / 2 - 1
    with mpmath.workdps(60), np.errstate(all="ignore"):
        log_i = lambda n, x: mpmath.log(mpmath.besseli(n, x)) - n * mpmath.log(x)
        exact = np.array([float(direct(mpmath.mpf(k), nu, log_i)) for k in kappas])
        peer = direct(kappas, nu, lambda n, x: np.log(ive(n, x)) + x - n * np.log(x))
    for dtype in (torch.float64, torch.float32):
        ours = vmf_score(rho, torch.tensor(kappas, dtype=dtype), tau, p).double().numpy()
        ax.loglog(kappas, abs(ours / exact - 1) + 1e-17, label=f"resultant, {str(dtype)[6:]}")
    ax.loglog(kappas, abs(peer / exact - 1) + 1e-17, label="scipy.special.ive, float64")
    ax.set(title=f"p = {p}", xlabel="kappa")
axes[0].set_ylabel("relative error of the score")
axes[1].legend(loc="lower left", bbox_to_anchor=(0, 0.5))
plt.show()
