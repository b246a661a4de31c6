"""
Samples on the sphere
=====================

Three von Mises-Fisher distributions in three dimensions, from spread out to compact.
"""

import matplotlib.pyplot as plt
import torch

from resultant import VonMisesFisher

torch.manual_seed(0)
figure = plt.figure(figsize=(10, 3.6), layout="constrained")
for i, kappa in enumerate((2.0, 20.0, 200.0)):
    vmf = VonMisesFisher(torch.tensor([0.6, -0.8, 0.0]), torch.tensor(kappa))
    x, y, z = vmf.sample((800,)).T.numpy()
    ax = figure.add_subplot(1, 3, i + 1, projection="3d")
    ax.scatter(x, y, z, s=3)
    ax.set(title=f"kappa = {kappa:g}, mean length {float(vmf.mean.norm()):.2f}")
    ax.set(xlim=(-1, 1), ylim=(-1, 1), zlim=(-1, 1), box_aspect=(1, 1, 1))
plt.show()
