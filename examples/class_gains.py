"""One temperature, a hundred angular scales: draw the gain of every class of real features against
its number of training rows, as fitted and without the bias of few rows."""

from __future__ import annotations

import importlib.resources

import torch

from resultant import ClassStatistics, unbiased_square_resultant
from resultant.features.store import FeatureStore
from resultant.report.style import BLUE, ORANGE, legend_below, panels, save, style

TAU = 0.1
PACKAGED = importlib.resources.files("resultant") / "resources" / "cifar100-lt-if100.safetensors"


def main() -> None:
    with importlib.resources.as_file(PACKAGED) as path:
        store = FeatureStore.open(path)
        z = torch.nn.functional.normalize(store["train/projection"].double(), dim=1)
        y = store["train/labels"].long()
    statistics = ClassStatistics(store.num_classes, z.shape[1]).update(z, y)
    n, length = statistics.count, statistics.total.norm(dim=1) / statistics.count
    corrected = unbiased_square_resultant(length, n).clamp_min(0).sqrt()
    with style():
        figure, (ax,) = panels(width=5.2, height=3.6)
        ax.semilogx(n, length / TAU, "o", color=BLUE, label="gain R / tau")
        ax.semilogx(n, corrected / TAU, "o", mfc="none", color=ORANGE, label="unbiased")
        ax.set(xlabel="training rows of the class", ylabel="angular gain")
        legend_below(figure, ax)
        print(*save(figure, "out/examples/class_gains"), sep="\n")


if __name__ == "__main__":
    main()
