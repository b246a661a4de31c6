"""
Gains while a network learns
============================

A small network is trained with the contrastive loss on three classes of 300, 60 and 12 samples. The
picture follows the gain of each class over the epochs.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn

from resultant import ProCoLoss, angular_gain

counts, dim, tau, epochs = (300, 60, 12), 16, 0.1, 12
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
for ax, realization in zip(axes, ("native", "angular"), strict=True):
    torch.manual_seed(0)
    y = torch.repeat_interleave(torch.arange(3), torch.tensor(counts))
    x = torch.randn(3, 10)[y] + torch.tensor([2.0, 1.0, 0.5])[y, None] * torch.randn(len(y), 10)
    network = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, dim))
    loss = ProCoLoss(3, dim, tau, realization, beta=0.0, class_counts=counts)
    optimizer = torch.optim.SGD(network.parameters(), 0.05, momentum=0.9)
    gains = []
    for _ in range(epochs):
        for rows in torch.randperm(len(y)).split(64):
            views = network(x[rows] + 0.3 * torch.randn(2, len(rows), 10))
            optimizer.zero_grad()
            loss(views, y[rows]).backward()
            optimizer.step()
        gains.append(angular_gain(loss.state(), tau))
    ax.plot(range(1, epochs + 1), torch.stack(gains), label=[f"{n} samples" for n in counts])
    ax.set(title=realization, xlabel="epoch")
axes[0].set_ylabel("angular gain")
axes[1].legend()
plt.show()
