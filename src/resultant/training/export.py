"""A model for other programs: the weights of its encoder for timm, or network and classifier as one
ONNX file, from pictures to probabilities."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import torch
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.preprocessing import Normalizer, StandardScaler
from torch import Tensor, nn
from torch.nn.functional import normalize

from resultant._core.files import replacing
from resultant._core.tensor_files import write_tensors
from resultant.analysis.saved import ScaledClassifier
from resultant.classifiers.module import ScoreModule
from resultant.features.naming import Location
from resultant.training.predict import Model

SUFFIXES = (".onnx", ".safetensors")


def export(model: Model, path: Location) -> str:
    """Write a model for other programs.

    Args:
        model: The model, see `resultant.load_model`.
        path: ``.onnx``: network and classifier, from float32 ``pictures`` [N, 3, S, S] between 0
            and 1, resized and cropped as in the metadata, to ``probabilities`` [N, C].
            ``.safetensors``: the weights of the encoder, as timm reads them.

    Returns:
        A line of code that reads the file.

    Raises:
        ValueError: The model has no network, or a classifier that cannot be written.

    Example:
        >>> import resultant
        >>> from resultant.training.export import export
        >>> export(resultant.load_model("out/tune"), "model.onnx")  # doctest: +SKIP
    """
    path = Path(path)
    if path.suffix not in SUFFIXES:
        raise ValueError(f"expected a name that ends in {' or '.join(SUFFIXES)}, got {path}")
    encoder: Any = getattr(model.network and model.network.network, "encoder", None)
    if model.network is None or encoder is None:
        raise ValueError("expected a network of timm, got a model without one")
    config = model.network.config
    if path.suffix == ".onnx":
        _write_onnx(PictureModule(model), model, path)
        return f"onnxruntime.InferenceSession({str(path)!r})"
    weights = {name: a.detach().cpu().contiguous() for name, a in encoder.state_dict().items()}
    write_tensors(path, weights, {"format": "pt"})
    arguments = [repr(config.architecture), "num_classes=0", f"checkpoint_path={str(path)!r}"]
    if getattr(encoder, "patch_embed", None) is not None:
        arguments.insert(1, f"img_size={config.size}")
    return f"timm.create_model({', '.join(arguments)})"


class PictureModule(nn.Module):
    """Probabilities [N, C] of pictures [N, 3, S, S] between 0 and 1."""

    mean: Tensor
    std: Tensor

    def __init__(self, model: Model) -> None:
        super().__init__()
        assert model.network is not None, "a model with a network"
        network: Any = model.network.network.cpu().eval()
        self.encoder = network.encoder
        self.projector = network.projector if model.feature == "projection" else None
        self.head = network.classifier if model.classifier is None else head(model.classifier)
        self.scale = model.scale if model.classifier is None else 1.0
        if self.head is None:
            raise ValueError("expected a network with a classifier, got one without")
        for name, channel in zip(("mean", "std"), model.network.config.channels, strict=True):
            self.register_buffer(name, torch.tensor(channel).view(3, 1, 1))

    def forward(self, pictures: Tensor) -> Tensor:
        x = self.encoder((pictures - self.mean) / self.std)
        if self.projector is not None:
            x = normalize(self.projector(x), dim=-1)
        assert self.head is not None
        return (self.scale * self.head(x)).softmax(-1)


class PipelineModule(nn.Module):
    """Scores of a pipeline of scikit-learn: normalized or standardized rows, then lines."""

    def __init__(self, classifier: ScaledClassifier) -> None:
        super().__init__()
        *self.steps, last = (step for _, step in classifier.pipeline.steps)
        if isinstance(last, KNeighborsClassifier):
            remedy = "choose another one with resultant.analyze or VMFClassifier"
            raise ValueError(f"expected scores that are lines, got nearest neighbours; {remedy}")
        if isinstance(last, NearestCentroid):
            # The squares of the rows are the same for all classes.
            weight = torch.from_numpy(last.centroids_).double()
            bias = -weight.square().sum(1) / 2
        else:
            weight = torch.from_numpy(last.coef_).double()
            bias = torch.from_numpy(last.intercept_).double()
            if len(weight) == 1:
                weight, bias = (torch.cat([torch.zeros_like(a), a]) for a in (weight, bias))
            if isinstance(last, LogisticRegression) and len(weight) != len(last.classes_):
                raise ValueError("expected a multinomial classifier, got another")
        scale = float(classifier.scale)
        classes, width = weight.shape
        self.line = nn.Linear(width, classes)
        with torch.no_grad():
            self.line.weight.copy_(scale * weight)
            self.line.bias.copy_(scale * bias)
        for i, step in enumerate(self.steps):
            if isinstance(step, StandardScaler):
                for name, values in (("mean", step.mean_), ("deviation", step.scale_)):
                    self.register_buffer(f"{name}{i}", torch.as_tensor(values).float())
            elif not isinstance(step, Normalizer) or step.norm != "l2":
                raise ValueError(f"expected rows of length one or standardized, got {step}")

    def forward(self, x: Tensor) -> Tensor:
        for i, step in enumerate(self.steps):
            if isinstance(step, Normalizer):
                x = normalize(x, dim=-1)
            else:
                x = (x - getattr(self, f"mean{i}")) / getattr(self, f"deviation{i}")
        return self.line(x)


def head(classifier: Any) -> nn.Module:
    """Return a classifier of features as a module: rows [N, p] to scores [N, C]."""
    if isinstance(classifier, ScaledClassifier):
        return PipelineModule(classifier)
    return ScoreModule(classifier)


def _write_onnx(module: nn.Module, model: Model, path: Path) -> None:
    """Write a module as one ONNX file, with the names of the classes and the view in it."""
    assert model.network is not None, "a model with a network"
    for name in ("onnx", "onnxscript"):
        try:
            __import__(name)
        except ModuleNotFoundError:
            raise ValueError(f"expected {name}: pip install onnx onnxscript") from None
    view = model.network.view
    pictures = torch.rand(2, 3, view.size, view.size)
    with warnings.catch_warnings():
        # Those of the exporter about itself.
        warnings.simplefilter("ignore")
        program: Any = torch.onnx.export(
            module.eval(),
            (pictures,),
            dynamo=True,
            verbose=False,
            input_names=["pictures"],
            output_names=["probabilities"],
            dynamic_shapes=({0: torch.export.Dim("number", min=1)},),
        )
    about = {
        "classes": model.labels,
        "size": view.size,
        "crop": view.crop,
        "mode": view.mode,
        "interpolation": view.interpolation,
    }
    texts = {name: json.dumps(value, ensure_ascii=False) for name, value in about.items()}
    program.model.metadata_props.update(texts)
    with replacing(path) as temporary:
        program.save(temporary, external_data=False)
