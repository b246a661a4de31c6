"""
Where the cosine rule provably agrees
=====================================

Each point is a query. Below the dotted line its cosine margin is larger than all that the exact score can
add, so Pure Angular and the plain cosine rule provably predict the same class. No cross lies there.
"""

import matplotlib.pyplot as plt
import torch
from safetensors.torch import load_file

from resultant import ClassStatistics, certificate
from resultant.features.packaged import packaged_file

with packaged_file() as path:
    arrays = load_file(path)
z, queries = (
    torch.nn.functional.normalize(arrays[f"{s}/projection"], dim=1) for s in ("train", "test")
)
state = ClassStatistics(100, z.shape[1]).update(z, arrays["train/labels"].long()).state()
answer = certificate(queries, state, tau=0.1)
differ = answer.prediction != answer.angular

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.loglog(answer.margin, answer.residual_range, ".", ms=2, rasterized=True, label="same class")
ax.loglog(answer.margin[differ], answer.residual_range[differ], "x", label="different class")
ends = (float(answer.margin.min()), float(answer.margin.max()))
ax.loglog(ends, ends, "k:", label=f"below: certified, {100 * answer.coverage:.1f} % of queries")
ax.set(xlabel="margin of the cosine rule", ylabel="range of the residual")
ax.set(xlim=(1e-3, None), ylim=(0.05, 0.5))
ax.legend()
plt.show()
