"""Linear evaluation of frozen features (Algorithm 2A, sec:linear-evaluation-algorithm). Probes on
the same samples see the same batches, so M probes are one batched matrix product."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from resultant._core import memory, validation
from resultant._core.arrays import require_labels, shape_of
from resultant._core.validation import COMPUTE_DTYPE, DivergedError
from resultant.classes.groups import group_masks
from resultant.training.evaluation import class_accuracies
from resultant.training.precision import full_precision
from resultant_reproduction.recipes.config import ProbeConfig

# Datasets whose encoder features have length one in the paper's main comparison.
UNIT_ENCODERS = ("images", "imagenet-lt", "inaturalist18", "places-lt", "tiny-imagenet-lt")

OnEpoch = Callable[[int, int], object] | None


@dataclass(frozen=True, eq=False)
class ProbeResult:
    """Accuracies of M probes on the test samples as fractions, float64 on the CPU."""

    accuracy: Tensor  # [M]
    per_class: Tensor  # [M, C]
    groups: dict[str, Tensor] | None  # mean accuracy [M] of shot groups; None for equal counts
    weight: Tensor  # [M, d, C]
    bias: Tensor  # [M, C]
    predictions: Tensor  # classes [M, n_test]

    def to_dict(self) -> dict[str, object]:
        """Return the accuracies as lists for JSON, with None for NaN."""
        groups = self.groups and {name: _listed(a) for name, a in self.groups.items()}
        per_class = [_listed(row) for row in self.per_class]
        return {"accuracy": _listed(self.accuracy), "per_class": per_class, "groups": groups}


def _listed(a: Tensor) -> list[float | None]:
    return [None if math.isnan(value) else value for value in a.tolist()]


def main_encoder(dataset: object) -> Literal["raw", "unit"]:
    """Return the form of encoder features in the paper's main comparison."""
    return "unit" if dataset in UNIT_ENCODERS else "raw"


def linear_probes(
    train: Tensor | Sequence[Tensor],
    train_labels: Tensor,
    test: Tensor | Sequence[Tensor],
    test_labels: Tensor,
    num_classes: int,
    config: ProbeConfig | None = None,
    *,
    counts: Tensor | Sequence[int] | None = None,
    names: Sequence[str] | None = None,
    progress: OnEpoch = None,
) -> ProbeResult:
    """Train M linear probes from zero weights on features [M, n, d], or a list of M tensors [n,
    d_i], and evaluate them; in float32 without TF32, or in float64 for float64 features."""
    config = config or ProbeConfig()
    validation.integer("num_classes", num_classes, 2)
    xs, tests = _require_features("train", train), _require_features("test", test)
    device, widths, test_widths = xs[0].device, *([a.shape[1] for a in b] for b in (xs, tests))
    if widths != test_widths:
        raise ValueError(f"expected test features of widths {widths}, got {test_widths}")
    if tests[0].device != device:
        raise ValueError(f"expected test[0] on {device}, got it on {tests[0].device}")
    require_labels(train_labels, len(xs[0]), num_classes, device, True, "train_labels")
    require_labels(test_labels, len(tests[0]), num_classes, device, True, "test_labels")
    if counts is not None and len(counts) != num_classes:
        raise ValueError(f"expected counts [{num_classes}], got [{len(counts)}]")
    masks = {} if counts is None else group_masks(counts)
    dtypes = {COMPUTE_DTYPE[a.dtype] for a in xs + tests}
    if len(dtypes) > 1:
        raise ValueError("expected features all of float64 or none, got both")
    (dtype,) = dtypes
    with torch.no_grad(), full_precision(device):
        probes = _trained(_stacked(xs, dtype), train_labels, num_classes, config, progress)
        predicted = _predicted(_stacked(tests, dtype), *probes, names)
    per_class = class_accuracies(predicted, test_labels, num_classes)
    groups = {name: per_class[:, mask.cpu()].nanmean(1) for name, mask in masks.items()} or None
    overall = (predicted == test_labels).double().cpu().mean(1)
    return ProbeResult(overall, per_class, groups, *probes, predicted)


def _trained(
    x: Tensor, y: Tensor, num_classes: int, config: ProbeConfig, progress: OnEpoch
) -> tuple[Tensor, Tensor]:
    """Train M affine classifiers on features x [M, n, d] with labels y [n], by SGD with momentum on
    the mean cross-entropy of a batch; return weights [M, d, C] and biases [M, C]."""
    weight = x.new_zeros(len(x), x.shape[2], num_classes)
    bias = x.new_zeros(len(x), num_classes)
    velocities = torch.zeros_like(weight), torch.zeros_like(bias)
    rate, minus_one = x.new_zeros(()), x.new_full((1, 1, 1), -1.0)
    generator = torch.Generator().manual_seed(config.seed)
    for epoch in range(config.epochs):
        order = torch.randperm(len(y), generator=generator).to(y.device)
        rate.fill_(config.rate(epoch))
        for rows in order.split(config.batch_size):
            batch = x.index_select(1, rows)
            residual = torch.baddbmm(bias.unsqueeze(1), batch, weight).softmax(-1)
            own = y[rows].view(1, -1, 1).expand(len(x), -1, 1)
            residual.scatter_add_(2, own, minus_one.expand_as(own)).div_(len(rows))
            velocities[0].baddbmm_(batch.mT, residual, beta=config.momentum)
            velocities[1].mul_(config.momentum).add_(residual.sum(1))
            for value, velocity in zip((weight, bias), velocities, strict=True):
                if config.weight_decay:
                    velocity.add_(value, alpha=config.weight_decay)
                value.addcmul_(velocity, rate, value=-1)
        if progress is not None:
            progress(epoch + 1, config.epochs)
    return weight, bias


def _predicted(x: Tensor, weight: Tensor, bias: Tensor, names: Sequence[str] | None) -> Tensor:
    """Return the classes [M, N] of largest logit of features [M, N, d]."""
    across = len(x) * (x.shape[2] + bias.shape[1]) * x.element_size()
    predicted, largest = [], x.new_zeros(len(x))
    for rows in x.split(memory.rows_per_chunk(across, memory.DEVICE_BYTES), 1):
        logits = torch.baddbmm(bias.unsqueeze(1), rows, weight)
        predicted.append(logits.argmax(-1))
        # NaN propagates.
        largest = torch.maximum(largest, logits.abs().amax((1, 2)))
    limit = 1 / torch.finfo(x.dtype).eps
    finite = weight.isfinite().flatten(1).all(1) & bias.isfinite().all(1)
    for i in (~(finite & (largest < limit))).nonzero()[:1, 0].tolist():
        got = f"{float(largest[i]):.1e}" if finite[i] else "weights that are not finite"
        rule = f"expected logits below {limit:.1e} after training"
        got += f" in probe {i if names is None else names[i]}"
        raise DivergedError(f"{rule} (a lower learning_rate may help), got {got}")
    return torch.cat(predicted, 1)


def _require_features(name: str, values: Tensor | Sequence[Tensor]) -> list[Tensor]:
    """Return M tensors [n, d_i]; raise unless they are finite, of equal length, on one device."""
    features = list(values) if not isinstance(values, Tensor) or values.dim() == 3 else []
    if not features:
        got = shape_of(values) if isinstance(values, Tensor) else "none"
        raise ValueError(f"expected {name} [M, n, d] or a list of one [n, d_i] or more, got {got}")
    for i, a in enumerate(features):
        part = f"expected {name}[{i}]"
        if not isinstance(a, Tensor) or a.dim() != 2 or not a.numel():
            raise ValueError(f"{part} [n, d] of one row or more, got {shape_of(a)}")
        if len(a) != (rows := len(features[0])):
            raise ValueError(f"{part} of rows {rows}, got {len(a)}")
        if a.device != (device := features[0].device):
            raise ValueError(f"{part} of device {device}, got {a.device}")
        if a.dtype not in COMPUTE_DTYPE:
            raise ValueError(f"{part} of a floating dtype, got {a.dtype}")
        # The extremes take no memory, and NaN propagates to them.
        if not torch.stack(torch.aminmax(a.detach())).isfinite().all():
            row, column = (int(k) for k in (~a.isfinite()).nonzero()[0])
            got = f"{float(a[row, column])} at row {row}, column {column}"
            raise ValueError(f"{part} finite, got {got}")
    return features


def _stacked(features: list[Tensor], dtype: torch.dtype) -> Tensor:
    """Return the features as [M, n, d], padded with zeros."""
    width = max(a.shape[1] for a in features)
    out = features[0].new_zeros(len(features), len(features[0]), width, dtype=dtype)
    for row, a in zip(out, features, strict=True):
        row[:, : a.shape[1]] = a.detach()
    return out
