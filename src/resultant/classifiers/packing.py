"""Fitted classifiers as plain values and arrays, for pickle and skops: skops stores no tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from resultant.classes.metric import Metric
from resultant.classes.state import ClassState
from resultant.classes.statistics import ClassStatistics
from resultant.classifiers.components import Components

KINDS: dict[str, Any] = {
    kind.__name__: kind for kind in (ClassState, ClassStatistics, Components, Metric)
}


def packed(value: Any) -> Any:
    """Replace the tensors of a value, or of fitted classes, by arrays and their device."""
    if isinstance(value, Tensor):
        return {"array": value.detach().cpu().numpy(), "device": str(value.device)}
    if type(value) in KINDS.values():
        parts = {name: packed(part) for name, part in vars(value).items()}
        return {"kind": type(value).__name__, "parts": parts}
    return value


def unpacked(value: Any) -> Any:
    """Return the value of `packed`; on the CPU where the device is absent."""
    keys = value.keys() if isinstance(value, dict) else ()
    if keys == {"array", "device"}:
        absent = value["device"].startswith("cuda") and not torch.cuda.is_available()
        return torch.as_tensor(value["array"], device="cpu" if absent else value["device"])
    if keys == {"kind", "parts"}:
        kind: Any = KINDS[value["kind"]]
        fitted = kind.__new__(kind)
        vars(fitted).update({name: unpacked(part) for name, part in value["parts"].items()})
        return fitted
    return value
