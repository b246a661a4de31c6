"""Models for other programs: as predict computes, without this package."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from torch import Tensor

from cli.conftest import Shown, call
from resultant import CosinePrototypeClassifier, VMFClassifier
from resultant.analysis.saved import ScaledClassifier
from resultant.images.vision import vision_module
from resultant.training.checkpoints import LoadedNetwork
from resultant.training.config import TrainConfig
from resultant.training.encoder import Outputs, build
from resultant.training.export import PictureModule, export
from resultant.training.extract import timm_network
from resultant.training.predict import Model

CONFIG = TrainConfig(architecture="test_resnet", size=32, dim=8)
P, C = 96, 3


def network(classes: int | None = C) -> LoadedNetwork:
    torch.manual_seed(0)
    loaded = timm_network(CONFIG, size=32)
    own = build(loaded.config, 0, classes).eval()
    view, config = loaded.view, loaded.config
    return LoadedNetwork(own, view, config, None, C, ("a", "b", "c, d"), {})


def features(p: int = P, C: int = C) -> tuple[Tensor, np.ndarray]:
    generator = torch.Generator().manual_seed(1)
    y = torch.arange(60) % C
    z = 0.4 * torch.randn(60, p, generator=generator) + 2 * torch.eye(p)[y]
    return z, np.array(["a", "b", "c, d"])[y]


def fitted(kind: Any, p: int = P, C: int = C) -> Any:
    return kind.fit(*features(p, C))


def scikit(*steps: Any, scale: float = 1.7) -> ScaledClassifier:
    z, y = features()
    return ScaledClassifier(make_pipeline(*steps), scale).fit(z.numpy(), y)


HEADS: dict[str, Any] = {
    "own": lambda: None,
    "angular": lambda: fitted(VMFClassifier()),
    "whitened": lambda: fitted(VMFClassifier(0.3, "preserve", 0.4, whiten="within", shrinkage=0.5)),
    "native, prior": lambda: fitted(VMFClassifier(realization="native", prior=1.0)),
    "mixture": lambda: fitted(VMFClassifier(components=2)),
    "refined": lambda: fitted(VMFClassifier(refine=0.3, whiten="within", shrinkage=0.85)),
    "lifted": lambda: fitted(VMFClassifier(refine=0.3, lift=1.0, whiten="within", shrinkage=0.85)),
    "prototypes": lambda: fitted(CosinePrototypeClassifier()),
    "two classes": lambda: fitted(VMFClassifier(), C=2),
    "logistic": lambda: scikit(Normalizer(), LogisticRegression()),
    "standardized": lambda: scikit(StandardScaler(), LogisticRegression()),
    "two lines": lambda: ScaledClassifier(make_pipeline(LogisticRegression())).fit(
        *(a.numpy() if isinstance(a, Tensor) else a for a in features(C=2))
    ),
    "discriminants": lambda: scikit(LinearDiscriminantAnalysis()),
    "centroids": lambda: scikit(Normalizer(), NearestCentroid()),
}


@pytest.mark.parametrize("name", [*HEADS, "of projections"])
def test_pictures_to_probabilities(name: str) -> None:
    """The module takes pictures as they are, and gives the probabilities of the classifier."""
    if name in HEADS:
        model = Model(network(), HEADS[name]())
    else:
        model = Model(network(), fitted(VMFClassifier(), p=8), "projection")
    loaded = model.network
    assert loaded is not None
    x = torch.rand(5, 3, 32, 32, generator=torch.Generator().manual_seed(2))
    mean, std = (torch.tensor(a).view(3, 1, 1) for a in loaded.config.channels)
    with torch.no_grad():
        expected, _ = model.probabilities(loaded.network((x - mean) / std))
        got = PictureModule(model)(x).numpy()
    assert got.shape == expected.shape and got.std() > 1e-4
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(("name", "size"), [("test_resnet", 32), ("test_vit", 96)])
def test_weights_for_timm(name: str, size: int, tmp_path: Path, capsys: Shown) -> None:
    """The line that is printed makes the encoder."""
    torch.manual_seed(3)
    timm = vision_module("timm")
    source = timm_network(TrainConfig(architecture=name), size=size)
    path = tmp_path / "own.safetensors"
    line = export(Model(source), path)
    built = eval(line, {"timm": timm}).eval()
    x = torch.rand(2, 3, size, size)
    with torch.no_grad():
        outputs = source.network(x)
        assert isinstance(outputs, Outputs) and torch.equal(built(x), outputs.encoder)


def test_refusals(tmp_path: Path, capsys: Shown) -> None:
    x, y = features()
    calibrated = fitted(VMFClassifier()).calibrate(x, y, method="sigmoid")
    neighbours = scikit(Normalizer(), KNeighborsClassifier())
    for model, name, message in (
        (Model(network(), calibrated), "x.onnx", "a calibration by a scale, got sigmoid"),
        (Model(network(), neighbours), "x.onnx", "got nearest neighbours"),
        (Model(network(None)), "x.onnx", "expected a network with a classifier"),
        (Model(None, neighbours), "x.onnx", "expected a network of timm, got a model without"),
        (Model(network()), "x.pt", "ends in .onnx or .safetensors, got"),
    ):
        with pytest.raises(ValueError, match=message):
            export(model, tmp_path / name)
    assert list(tmp_path.iterdir()) == []
    assert call(f"export {tmp_path} --out {tmp_path / 'x.onnx'}") == 2


def test_one_file_of_onnx(tmp_path: Path) -> None:
    """The same probabilities in onnxruntime, of any number of pictures; the view is in the file."""
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    for name in ("own", "whitened", "refined", "lifted", "native, prior", "standardized"):
        model, path = Model(network(), HEADS[name]()), tmp_path / f"{name}.onnx"
        export(model, path)
        session = onnxruntime.InferenceSession(path)
        for number in (1, 3):
            x = torch.rand(number, 3, 32, 32)
            (got,) = session.run(["probabilities"], {"pictures": x.numpy()})
            with torch.no_grad():
                expected = PictureModule(model)(x).numpy()
            np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-5)
        about = session.get_modelmeta().custom_metadata_map
        assert json.loads(about["classes"]) == ["a", "b", "c, d"] and about["size"] == "32"
    assert len(list(tmp_path.iterdir())) == 6
