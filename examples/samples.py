"""
Samples on the sphere
=====================

Three von Mises-Fisher distributions in three dimensions, from spread out to compact. The arrow is the
mean of the samples; its length is the mean resultant length.
"""

import math

import matplotlib.pyplot as plt
import torch

from resultant import VonMisesFisher

torch.manual_seed(0)
loc = torch.nn.functional.normalize(torch.tensor([0.9, -0.2, 0.5]), dim=0)
t = torch.linspace(0, 2 * math.pi, 100)
figure = plt.figure(figsize=(9, 3.2), layout="constrained")
for i, kappa in enumerate((2.0, 20.0, 200.0)):
    vmf = VonMisesFisher(loc, torch.tensor(kappa))
    ax = figure.add_subplot(1, 3, i + 1, projection="3d")
    for s in torch.linspace(-math.pi / 2, math.pi / 2, 9):
        ax.plot(s.cos() * t.cos(), s.cos() * t.sin(), s.sin(), color="0.8", linewidth=0.5)
        ax.plot(t.cos() * s.cos(), t.cos() * s.sin(), t.sin(), color="0.8", linewidth=0.5)
    x, y, z = vmf.sample((500,)).T.numpy()
    ax.scatter(x, y, z, s=4, color=f"C{i}", alpha=0.6, rasterized=True)
    ax.quiver(0, 0, 0, *vmf.mean, color="0.2", arrow_length_ratio=0.12)
    ax.set(title=f"kappa = {kappa:g}, mean length {float(vmf.mean.norm()):.3f}")
    ax.set(xlim=(-0.65, 0.65), ylim=(-0.65, 0.65), zlim=(-0.65, 0.65), box_aspect=(1, 1, 1))
    ax.set_axis_off()
plt.show()
