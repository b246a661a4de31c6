"""
One temperature, a hundred angular scales
=========================================

The gain of every class of a trained network (ResNet-32, long-tailed CIFAR-100) over its number of
training rows. A class of few rows looks more compact than it is; the second set of points corrects that.
"""

import matplotlib.pyplot as plt
import torch
from safetensors.torch import load_file

from resultant import ClassStatistics, unbiased_square_resultant
from resultant.features.packaged import packaged_file

with packaged_file() as path:
    arrays = load_file(path)
z = torch.nn.functional.normalize(arrays["train/projection"].double(), dim=1)
statistics = ClassStatistics(100, z.shape[1]).update(z, arrays["train/labels"].long())
n = statistics.count
length = statistics.total.norm(dim=1) / n
corrected = unbiased_square_resultant(length, n).clamp_min(0).sqrt()

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.vlines(n, corrected / 0.1, length / 0.1, color="0.75", linewidth=1)
ax.semilogx(n, length / 0.1, "o", label="as fitted")
ax.semilogx(n, corrected / 0.1, "o", fillstyle="none", label="without the bias of few rows")
ax.set(xlabel="training rows of the class", ylabel="angular gain at temperature 0.1")
ax.legend()
plt.show()
