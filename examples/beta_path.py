"""
Accuracy over beta, by class size
=================================

Packaged features of a network trained on long-tailed CIFAR-100. Equal gains help the classes with many
training rows and cost those with few.
"""

import matplotlib.pyplot as plt
import torch
from safetensors.torch import load_file

from resultant import ClassStatistics, class_scores
from resultant.features.packaged import packaged_file

with packaged_file() as path:
    arrays = load_file(path)
z, queries = (
    torch.nn.functional.normalize(arrays[f"{s}/encoder"], dim=1) for s in ("train", "test")
)
truth = arrays["test/labels"].long()
statistics = ClassStatistics(100, z.shape[1]).update(z, arrays["train/labels"].long())
state, n = statistics.state(), statistics.count[truth]
groups = {"more than 100 rows": n > 100, "20 to 100 rows": n.clamp(20, 100) == n, "fewer": n < 20}

betas = torch.linspace(-0.5, 2, 11).tolist()
right = torch.stack(
    [class_scores(queries, state, 0.1, "angular", beta).argmax(1) == truth for beta in betas]
)
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.plot(betas, 100 * right.double().mean(1), "k-o", label="all classes")
for name, rows in groups.items():
    ax.plot(betas, 100 * right[:, rows].double().mean(1), label=name)
ax.set(xlabel="beta (0: equal gains, 1: gains as fitted)", ylabel="accuracy (%)")
ax.legend()
plt.show()
