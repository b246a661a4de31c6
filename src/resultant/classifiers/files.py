"""Fitted classifiers as safetensors files, and as arrays for pickle and skops."""

import json
import os
import warnings
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from resultant._core.tensor_files import load, save
from resultant._core.text import one_line
from resultant.classes.metric import Metric
from resultant.classes.statistics import ClassState, ClassStatistics
from resultant.classifiers.conformal import Conformal
from resultant.classifiers.em import Components
from resultant.classifiers.lift import Lift
from resultant.classifiers.refine import Refined
from resultant.classifiers.sums import KeptRows, RowSums

FORMAT = "resultant.classifier 1"

# Tensors of statistics and metric, and attributes that a fit or a calibration chooses.
SUMS = ("count", "weight", "total")
METRIC = ("mean", "basis", "variance")
CHOSEN = ("temperature_", "shrinkage_", "refine_", "scale_", "calibration_")

# The names of columns, as scikit-learn calls them.
NAMES = "feature_names_in_"
# The network of the features, see `resultant.training.checkpoints.LoadedNetwork.identity`.
OF_NETWORK = "network"

RANKED, CONFORMAL = ("scores", "fits", "number"), ("scale", "none", "held_out", "rule")

KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        *(ClassState, ClassStatistics, Components, Conformal),
        *(KeptRows, Lift, Metric, Refined, RowSums),
    )
}


class SavedEstimator(BaseEstimator):
    """Classifier of sums that is written to a file, or pickled."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: packed(value) for name, value in super().__getstate__().items()}  # type: ignore[union-attr]

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({name: unpacked(value) for name, value in state.items()})

    def save(self, path: str | os.PathLike[str], *, rows: bool = False) -> None:
        """Write the fitted classifier, of plain labels and parameters, as a safetensors file; with
        ``rows`` also the kept rows, so that `partial_fit` continues as if it had not stopped."""
        check_is_fitted(self, "statistics_")
        fitted: Any = self
        fitted._require_fitted_with()
        parameters = {k: v for k, v in self.get_params(deep=False).items() if k != "device"}
        fixed = isinstance(parameters["whiten"], Metric)
        if fixed:
            # The metric itself is in the file.
            parameters |= {"whiten": "within", "shrinkage": parameters["whiten"].shrinkage}
        labels, metric, components = fitted.classes_, fitted.metric_, fitted.components_
        if labels.dtype.kind not in "biufU" and not all(isinstance(a, str) for a in labels):
            raise ValueError(f"expected labels of strings or numbers, got {labels.dtype}")
        about: dict[str, Any] = {
            "format": FORMAT,
            "class": type(self).__name__,
            "parameters": parameters,
            "chosen": _present({name: getattr(self, name, None) for name in CHOSEN}),
            "labels": labels.tolist(),
            "dtype": labels.dtype.str if labels.dtype.kind != "O" else "object",
        }
        if (columns := getattr(self, NAMES, None)) is not None:
            about["columns"] = columns.tolist()
        if hasattr(self, OF_NETWORK):
            about[OF_NETWORK] = getattr(self, OF_NETWORK)
        tensors = {name: getattr(fitted.statistics_, name) for name in SUMS}
        if metric is not None:
            about |= {"metric": metric.shrinkage, "fixed": fixed}
            tensors |= _present({f"metric.{part}": getattr(metric, part) for part in METRIC})
        tensors |= {} if components is None else components.tensors()
        if fitted.refined_ is not None:
            tensors["refined"] = fitted.refined_.theta
        if fitted.lift_ is not None:
            about["lift"] = fitted.lift_.k
            tensors |= fitted.lift_.tensors()
        tensors |= self._row_tensors(rows)
        if (known := fitted._known_scores()) is not None:
            about["conformal"] = {name: getattr(known, name) for name in CONFORMAL}
            tensors |= {f"conformal.{name}": getattr(known, name) for name in RANKED}
        try:
            about = json.loads(json.dumps(about, allow_nan=False, default=np.generic.item))
        except (TypeError, ValueError) as error:
            raise ValueError(f"expected parameters of plain values, got: {error}") from None
        save(Path(path), tensors, about)

    def _row_tensors(self, rows: bool) -> dict[str, Tensor]:
        """Return sums that are not those in the metric, and the kept rows if they are wanted."""
        fitted: Any = self
        sums = None if fitted.sampled_ else fitted._sums
        if rows and (sums is None or not bool(sums.kept.limit.any())):
            raise ValueError("expected a classifier with kept rows, got one without; fit it")
        if sums is None:
            return {}
        kept, plain = sums.kept, sums.statistics
        tensors = {f"kept.{name}": a for name, a in vars(kept).items()} if rows else {}
        if plain is not fitted.statistics_:
            tensors |= _present({f"plain.{n}": getattr(plain, n) for n in (*SUMS, "scatter")})
        # Sums of several names may share memory, which the file cannot express.
        return {name: a.clone() for name, a in tensors.items()}

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, device: torch.device | str | None = None
    ) -> Self:
        """Read a classifier that `save` wrote, onto a device, by default the CPU."""
        rule = f"expected {path} to be a file of {cls.__name__}.save"
        try:
            tensors, about = load(Path(path))
        except ValueError as error:
            raise ValueError(f"{rule}, got a file that cannot be read ({error})") from None
        if about.get("format") != FORMAT or about.get("class") != cls.__name__:
            got = f"format {about.get('format')!r} of {about.get('class')!r}"
            raise ValueError(f"{rule}, got {got}")
        try:
            return cls._loaded(path, tensors, about, device)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, RuntimeError) as error:
            text = one_line(error)
            raise ValueError(f"{rule}, got contents that do not fit: {text}") from None

    @classmethod
    def _loaded(
        cls, path: Any, tensors: dict[str, Tensor], about: dict[str, Any], device: Any
    ) -> Self:
        """Return the classifier of the tensors and the metadata of a file."""
        statistics = ClassStatistics(*tensors["total"].shape, device=device)
        tensors = {name: a.to(statistics.device) for name, a in tensors.items()}
        vars(statistics).update({name: tensors[name] for name in SUMS})
        parameters, chosen = about["parameters"], about["chosen"]
        # Files of earlier versions.
        parameters.pop("calibration", None)
        if chosen.pop("calibrators_", None) is not None:
            text = f"expected {path} without a calibration of an earlier version, got one"
            warnings.warn(f"{text}, which is dropped; call calibrate again", stacklevel=2)
        classifier: Any = cls(**parameters, device=device)  # type: ignore[call-arg]
        vars(classifier).update({name: chosen[name] for name in CHOSEN if name in chosen})
        if "metric" in about:
            parts: Any = {part: tensors.get(f"metric.{part}") for part in METRIC}
            classifier.metric_ = Metric(**parts, shrinkage=about["metric"])
            if about.get("fixed"):
                classifier.whiten = classifier.metric_
        classifier._fitted_with = classifier._of_fit()
        if "owner" in tensors:
            classifier.components_ = Components.of(tensors, statistics.device)
        if "refined" in tensors:
            classifier.refined_ = Refined.of(tensors["refined"])
        if "lift" in about:
            classifier.lift_ = Lift.of(about["lift"], tensors)
        classifier.n_features_in_ = dim = len(tensors.get("lift.centre", statistics.total[0]))
        classifier.classes_ = np.array(about["labels"], dtype=about["dtype"])
        if not {"owner", "refined", "lift.centre"} & set(tensors):
            plain = {n.partition(".")[2]: a for n, a in tensors.items() if n.startswith("plain.")}
            kept = {n.partition(".")[2]: a for n, a in tensors.items() if n.startswith("kept.")}
            classifier._sums = RowSums(
                classifier.classes_,
                ClassStatistics.of(**plain) if plain else statistics,
                KeptRows(**kept) if kept else KeptRows.none(*statistics.total.shape).to(device),
            )
            classifier._sums.require()
        if "conformal" in about:
            ranked = {name: tensors[f"conformal.{name}"] for name in RANKED}
            classifier.conformal_ = Conformal(**ranked, **about["conformal"])
        classifier._finish(statistics, torch.float64)
        # A file may hold tensors, labels and curves that do not fit each other.
        one = torch.ones(1, dim, device=statistics.device)
        if classifier.predict_proba(one).shape != (1, len(classifier.classes_)):
            raise ValueError(f"{len(classifier.classes_)} labels of {statistics.num_classes} sums")
        if "columns" in about:
            setattr(classifier, NAMES, np.array(about["columns"], object))
        if OF_NETWORK in about:
            setattr(classifier, OF_NETWORK, dict(about[OF_NETWORK]))
        return classifier


def _present(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def packed(value: Any) -> Any:
    """Replace tensors, also of fitted classes, by arrays and their device, for skops."""
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
        # Memory that another process shares may be read-only.
        array = np.require(value["array"], requirements="W")
        return torch.as_tensor(array, device="cpu" if absent else value["device"])
    if keys == {"kind", "parts"}:
        kind: Any = KINDS[value["kind"]]
        fitted = kind.__new__(kind)
        vars(fitted).update({name: unpacked(part) for name, part in value["parts"].items()})
        return fitted
    return value
