"""Train with the contrastive loss on three long-tailed classes, native and Pure Angular, and draw
the
gain of every class over the epochs."""

from __future__ import annotations

import torch
from torch import nn

from resultant import ProCoLoss, angular_gain
from resultant.report.style import BLUE, GREEN, ORANGE, legend_below, panels, save, style

COUNTS, DIM, TAU, EPOCHS = (300, 60, 12), 16, 0.1, 20


def gains(realization: str) -> torch.Tensor:
    """Return the gain of every class after every epoch, [epochs, C]."""
    torch.manual_seed(0)
    y = torch.cat([torch.full((n,), c) for c, n in enumerate(COUNTS)])
    # Classes of different width.
    width = torch.tensor([2.0, 1.0, 0.5])[y, None]
    x = torch.eye(3)[y] @ torch.randn(3, 10) + width * torch.randn(len(y), 10)
    network = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, DIM))
    loss = ProCoLoss(3, DIM, TAU, realization, beta=0.0, class_counts=COUNTS)
    optimizer = torch.optim.SGD(network.parameters(), 0.05, momentum=0.9)
    found = []
    for _ in range(EPOCHS):
        loss.start_epoch()
        for rows in torch.randperm(len(y)).split(64):
            noisy = x[rows] + 0.3 * torch.randn(2, len(rows), 10)
            views = nn.functional.normalize(network(noisy), dim=-1)
            optimizer.zero_grad()
            loss(views, y[rows]).backward()
            optimizer.step()
        found.append(angular_gain(loss.state(), TAU))
    return torch.stack(found)


def main() -> None:
    with style():
        figure, axes = panels(2)
        for ax, name in zip(axes, ("native", "angular"), strict=True):
            for n, g, colour in zip(COUNTS, gains(name).T, (BLUE, ORANGE, GREEN), strict=True):
                ax.plot(range(1, EPOCHS + 1), g, color=colour, label=f"class of {n} images")
            ax.set(title=name, xlabel="epoch", ylabel="angular gain")
        legend_below(figure, axes[0])
        print(*save(figure, "out/examples/train"), sep="\n")


if __name__ == "__main__":
    main()
