"""A fitted classifier as a module of torch, for `torch.export` and ONNX."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize


class ScoreModule(nn.Module):
    """Scores of a fitted `VMFClassifier`: rows [N, p] in float32 to scores [N, C], whose softmax
    are its probabilities. Later changes of the classifier do not change the module.

    Args:
        classifier: The classifier, on the CPU; its calibration is a scale.
    """

    def __init__(self, classifier: Any) -> None:
        super().__init__()
        if classifier.calibration_ is not None:
            method = classifier.calibration_["method"]
            raise ValueError(f"expected a calibration by a scale, got {method}: calibrate again")
        if not bool((classifier.statistics_.weight > 0).all()):
            raise ValueError("expected rows of every class in the fit, got a class without weight")
        lift = classifier.lift_
        self.lift = None if lift is None else lift.to(torch.float32)
        metric = classifier.metric_
        self.whitened = metric is not None
        if metric is not None:
            metric = metric.to(dtype=torch.float64)
            ends = torch.cat([torch.zeros(1, len(metric.mean)), torch.eye(len(metric.mean))])
            # A metric is a line up to the length of the result.
            rotated = metric.rotate(ends.double())
            rotated = rotated if metric.basis is None else rotated * metric.scale
            self.register_buffer("shift", rotated[0].float())
            self.register_buffer("matrix", (rotated[1:] - rotated[0]).float())
        self.parts, self.scale = classifier._parts, float(classifier._scale())
        self.classes = classifier._class_scores(torch.float32)
        self.register_buffer("mu", self.classes.mu.to(torch.float32))

    mu: Tensor
    shift: Tensor
    matrix: Tensor

    def forward(self, x: Tensor) -> Tensor:
        z = normalize(x, dim=-1)
        z = z if self.lift is None else self.lift(z)
        if self.whitened:
            z = normalize(z @ self.matrix + self.shift, dim=-1)
        return self.scale * self.parts.of_classes(self.classes.at(z @ self.mu.mT))
