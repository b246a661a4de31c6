"""
The Bessel ratio
================

The ratio of two modified Bessel functions is the mean resultant length of a von Mises-Fisher distribution.
It rises from 0 to 1; its derivative comes with it.
"""

import matplotlib.pyplot as plt
import torch

from resultant import bessel_ratio

figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for nu in (0.5, 5.0, 50.0, 500.0, 5000.0):
    x = torch.logspace(-1, 5, 200, dtype=torch.float64, requires_grad=True)
    ratio = bessel_ratio(nu, x)
    (slope,) = torch.autograd.grad(ratio.sum(), x)
    axes[0].semilogx(x.detach(), ratio.detach(), label=f"order {nu:g}")
    axes[1].loglog(x.detach(), slope, label=f"order {nu:g}")
axes[0].set(xlabel="x", ylabel="I(order + 1, x) / I(order, x)")
axes[1].set(xlabel="x", ylabel="derivative by autograd")
axes[1].legend(loc="lower left")
plt.show()
