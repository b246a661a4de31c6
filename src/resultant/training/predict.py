"""Labels for new pictures and new features, as a table with a row for each of them.

A `Model` is a network with a classifier of its own, a classifier of features, or a network and a
classifier of its features. `predict` applies it to pictures in folders, lists and Parquet, and to
files of features.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from resultant._core.memory import row_slices
from resultant.analysis.saved import load_classifier
from resultant.analysis.write import file_order
from resultant.classifiers.files import NAMES, OF_NETWORK
from resultant.features.naming import Location, Names, kind_of, split_part, what_of
from resultant.features.store import FeatureStore
from resultant.images.files import is_image, walk
from resultant.images.opening import open_pictures
from resultant.images.parquet import has_column
from resultant.images.source import ImageSource, ImageSplits, without_broken
from resultant.images.store import OnImages
from resultant.training.checkpoints import LoadedNetwork, load_network
from resultant.training.extract import FEATURES, Precision, network_outputs_of
from resultant.training.network_files import (
    CLASSIFIER,
    NETWORK,
    find_network,
    is_network,
    split_run,
)
from resultant.training.predictions import Columns

if TYPE_CHECKING:
    import pyarrow as pa

# The entry of a network's file with the factor of its logits.
SCALE = "scale"
# Bytes of rows and their probabilities at a time.
CHUNK = 1 << 26


@dataclass(frozen=True, eq=False)
class Model:
    """A network, a classifier of features, or a network and a classifier of its features.

    Attributes:
        network: The network, None for features.
        classifier: The classifier with ``predict_proba``, None for the classifier of the network.
        feature: ``encoder`` or ``projection``, the output that the classifier reads.
    """

    network: LoadedNetwork | None = None
    classifier: Any = None
    feature: str = "encoder"

    @property
    def labels(self) -> list[str]:
        """The names of the classes."""
        if self.classifier is not None:
            return [str(label) for label in self.classifier.classes_.tolist()]
        assert self.network is not None, "a model has a network or a classifier"
        number = self.network.num_classes
        return list(self.network.class_names or map(str, range(number)))

    @property
    def scale(self) -> float:
        """Factor of the logits of the network, by which ``resultant tune`` calibrates them."""
        return 1.0 if self.network is None else float(self.network.about.get(SCALE, 1.0))

    def probabilities(self, outputs: Any) -> tuple[np.ndarray, Tensor]:
        """Return the probabilities [n, C] of outputs of the network, and the features [n, d]."""
        x = getattr(outputs, self.feature).float().cpu()
        if self.classifier is not None:
            return np.asarray(self.classifier.predict_proba(x.numpy())), x
        return (self.scale * outputs.logits.double()).softmax(-1).cpu().numpy(), x

    def predict(self, data: Any, **options: Any) -> pa.Table:
        """Predict pictures or features; the arguments are those of `resultant.predict`."""
        return predict(self, data, **options)


def load_model(
    path: Location, network: Location | LoadedNetwork | None = None, feature: str | None = None
) -> Model:
    """Load a model that predicts.

    Args:
        path: The file of a network, of a classifier that `resultant.analyze` or ``save`` wrote, or
            the folder of ``resultant analyze`` or ``resultant tune``.
        network: The network whose features the classifier reads, for pictures: its file, or one of
            timm by `resultant.training.extract.timm_network`.
        feature: ``encoder`` or ``projection``; by default the one that fits the classifier.

    Returns:
        The model; its ``predict`` takes pictures or features.

    Raises:
        ValueError: The file is missing, broken, or has no classifier.

    Example:
        >>> import resultant
        >>> model = resultant.load_model("out/tune")  # doctest: +SKIP
        >>> model.predict("new_pictures").to_pandas()  # doctest: +SKIP
    """
    path, classifier = Path(path), None
    if path.is_dir() and (path / CLASSIFIER).is_file():
        classifier = load_classifier(path / CLASSIFIER)
        if network is None and (path / NETWORK).is_file():
            network, feature = path / NETWORK, feature or "encoder"
    elif path.is_file() and not is_network(path):
        classifier = load_classifier(path)
    elif network is not None:
        raise ValueError(f"expected a classifier with a network, got two networks, {path} first")
    elif (network := find_network(path) or path).is_dir() or not split_run(path)[0].exists():
        rule = "expected a network, a classifier, or the folder of train, tune or analyze with one"
        raise ValueError(f"{rule}, got {'a folder' if path.is_dir() else 'nothing'} at {path}")
    return with_feature(Model(_loaded(network), classifier), feature)


def _loaded(network: Location | LoadedNetwork | None) -> LoadedNetwork | None:
    """Load the network of a file, or the only one in a folder."""
    if network is None or isinstance(network, LoadedNetwork):
        return network
    return load_network(find_network(network) or network)


def with_feature(model: Model, feature: str | None = None) -> Model:
    """Return a model that reads the output of its network that fits its classifier."""
    network, classifier = model.network, model.classifier
    if network is None or classifier is None:
        return model
    _require_network(classifier, network)
    widths, own = network_widths(network), classifier.n_features_in_
    fitting = [name for name in FEATURES if widths[name] == own and feature in (None, name)]
    if len(fitting) != 1:
        got = ", ".join(f"{name} of {width}" for name, width in widths.items())
        rule = f"expected one output of the network with the {own} numbers of the classifier"
        raise ValueError(f"{rule}, got {got}; --features chooses")
    return Model(network, classifier, fitting[0])


def _require_network(classifier: Any, network: LoadedNetwork) -> None:
    """Raise unless the network is the one of the features that the classifier was fitted to."""
    own, got = getattr(classifier, OF_NETWORK, None), network.identity()
    if own is None or own == got:
        return
    rule = "expected the network of the classifier's features, {architecture} of {size} pixels"
    text = "{architecture} of {size} pixels" + " with other weights" * (
        {**own, "weights": 0} == {**got, "weights": 0}
    )
    remedy = "give --model, --weights and --size as to extract, or its network file"
    raise ValueError(f"{rule.format(**own)}, got {text.format(**got)}; {remedy}")


@torch.no_grad()
def network_widths(loaded: LoadedNetwork) -> dict[str, int]:
    """Return the widths of the outputs of a network."""
    device = next(loaded.network.parameters()).device
    size = loaded.view.size
    outputs = loaded.network(torch.zeros(1, 3, size, size, device=device))
    return {name: getattr(outputs, name).shape[1] for name in FEATURES}


def predict(
    model: Any,
    data: Any,
    *,
    network: Location | LoadedNetwork | None = None,
    features: str | None = None,
    ids: str | None = None,
    top: int = 5,
    error: float | None = None,
    images: Location | None = None,
    image_column: str = "image",
    skip_broken: bool = False,
    precision: Precision = "float32",
    device: torch.device | str = "cpu",
    workers: int | None = None,
    progress: OnImages | None = None,
) -> pa.Table:
    """Predict the classes of pictures, or of features.

    Args:
        model: A `Model`, the path of one as for `load_model`, or a fitted classifier.
        data: A picture, a folder of pictures, a list of their paths, Parquet of images, a file of
            features, features [N, p] as an array, or an `ImageSource`.
        network: The network whose features the classifier reads, for pictures.
        features: Name of the features, if several could be.
        ids: Column of a file of features that names the rows, if it has no usual name.
        top: Number of the most likely classes to report.
        error: Share of the rows of each class whose set may miss the class, for classifiers with
            ``predict_set``; None for no sets.
        images: Folder that the paths of a list are relative to.
        image_column: Parquet column of the images.
        skip_broken: Leave out broken images.
        precision: ``float32``, or ``bf16``, which is faster on a GPU.
        device: Device of the network.
        workers: Threads that decode images; by default one per core.
        progress: Called with the finished pictures and their number.

    Returns:
        A table of Arrow with a row per picture or feature, in the order of the files: ``file``;
        ``row``, the number in the file from 0, and the columns of a file of features that name or
        show its rows, such as ``doc_id``, ``text`` and ``path``; ``predicted``, ``probability``,
        ``predicted_2`` and so on; with ``error`` the ``set`` of classes and ``none_of_these``; and
        ``trained_on`` for pictures of a network that knows its images.

    Raises:
        ValueError: Model and data do not fit.

    Example:
        >>> import resultant
        >>> table = resultant.predict("out/tune", "new_pictures")  # doctest: +SKIP
        >>> table.to_pandas()[["file", "predicted", "probability"]]  # doctest: +SKIP
    """
    if isinstance(model, str | os.PathLike):
        model = load_model(model, network, features if network is not None else None)
    elif not isinstance(model, Model):
        model = with_feature(Model(_loaded(network), model), features)
    if top < 1:
        raise ValueError(f"expected top >= 1, got {top}")
    if error is not None and not hasattr(model.classifier, "predict_set"):
        rule = "expected a vMF classifier for sets of classes, got one without predict_set"
        raise ValueError(f"{rule}; VMFClassifierCV().fit(X, y).save(PATH) writes one")
    columns = Columns(model.labels, min(top, len(model.labels)))
    source = data if isinstance(data, ImageSource) else None
    if isinstance(data, str | os.PathLike) and holds_images(data, image_column):
        source = open_pictures(data, images, image_column)
    if source is not None:
        if model.network is None:
            rule = "expected the network whose features the classifier reads, for pictures"
            remedy = "--network FILE or --model NAME; in Python load_model(PATH, NETWORK)"
            raise ValueError(f"{rule}, got a classifier alone; {remedy}")
        if skip_broken:
            source = without_broken(ImageSplits(source), workers).train
        options: dict[str, Any] = {"precision": precision, "workers": workers}
        _pictures(model, source, columns, error, torch.device(device), progress, options)
    else:
        _features(model, data, columns, error, Names(features, identities=ids))
    table = columns.table()
    if "split" not in columns.parts:
        return table
    return table.take(file_order(table["file"], table["row"]))


def holds_images(data: Location, image_column: str = "image") -> bool:
    """Return True for a path of pictures, False for one of features."""
    path = Path(data)
    if path.is_dir():
        if any(map(is_image, walk(str(path)))):
            return True
        return any(has_column(file, image_column) for file in sorted(path.rglob("*.parquet"))[:1])
    if kind_of(path) == ".parquet" and path.is_file():
        return has_column(path, image_column)
    if kind_of(path) in (".csv", ".tsv", ".txt") and path.is_file():
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = [line.strip() for line, _ in zip(file, range(2), strict=False)]
        # A list of pictures has the name of one in its first line, or behind a header line.
        words = " ".join(lines).replace(",", " ").replace(";", " ").replace('"', " ").split()
        return any(map(is_image, words))
    return is_image(path.name)


def _pictures(
    model: Model,
    source: ImageSource,
    columns: Columns,
    error: float | None,
    device: torch.device,
    progress: OnImages | None,
    options: dict[str, Any],
) -> None:
    """Add the predictions of pictures."""
    loaded = model.network
    assert loaded is not None, "pictures have a network"
    loaded.network.to(device)
    places, top = source.places(), 0
    several = any(row for _, row in places)
    for outputs in network_outputs_of(loaded, source, device, progress=progress, **options):
        if model.classifier is None and outputs.logits is None:
            rule = "expected a network with a classifier"
            remedy = "analyze its features, and give the classifier with --network"
            raise ValueError(f"{rule}, got one without; {remedy}")
        p, x = model.probabilities(outputs)
        own = places[top : top + len(p)]
        found: dict[str, Any] = {"file": [file for file, _ in own]}
        if several:
            found["row"] = np.array([row for _, row in own])
        last = {}
        if loaded.trained is not None:
            seen = np.isin(source.contents[top : top + len(p)], loaded.trained)
            last["trained_on"] = seen
        columns.add(p, _sets(model, x, error), before=found, **last)
        top += len(p)


def _features(model: Model, data: Any, columns: Columns, error: float | None, names: Names) -> None:
    """Add the predictions of features in a file or an array."""
    if model.classifier is None:
        rule = "expected a classifier of features, or pictures for the network"
        raise ValueError(f"{rule}, got features and a network")
    known = tuple(getattr(model.classifier, NAMES, ()))
    if not isinstance(data, str | os.PathLike) and not (known and hasattr(data, "columns")):
        x = torch.as_tensor(np.asarray(data))
        columns.add(np.asarray(model.classifier.predict_proba(x.numpy())), _sets(model, x, error))
        return
    names = names._replace(columns=known, unlabelled="keep")
    store = FeatureStore.open(data, **names._asdict())
    width = model.classifier.n_features_in_
    for split in store.splits:
        arrays = [n for n in store.features if split_part(n) == split]
        fitting = [n for n in arrays if store.shape(n)[1] == width]
        if len(fitting) != 1:
            got = ", ".join(f"{what_of(n)} of {store.shape(n)[1]}" for n in arrays) or "none"
            rule = f"expected features of {width} numbers in {split} of {store.where}"
            raise ValueError(f"{rule}, got {got}; --features chooses")
        bytes_per_row = 8 * (width + len(columns.labels))
        rows = next(row_slices(store.shape(fitting[0])[0], bytes_per_row, CHUNK)).stop
        origin, classes = store.origins[split], store.metadata.get("class_names")
        own = [store[n] for n in store if n == f"{split}/labels"]
        for at, x in store.chunks(fitting[0], rows):
            index = torch.arange(at.start, at.stop)
            found: dict[str, Any] = {"file": origin.names(index), "row": origin.row[index].numpy()}
            for what, column in origin.columns.items():
                found[what if what not in found else f"{what} (of the file)"] = column[index]
            if len(store.splits) > 1:
                found["split"] = len(index) * [split]
            for y in own:
                found["label"] = [str(classes[c] if classes else c) for c in y[index].tolist()]
            x = x.float()
            with warnings.catch_warnings():
                # The names have chosen the columns.
                warnings.filterwarnings("ignore", "X does not have valid feature names")
                p = np.asarray(model.classifier.predict_proba(x.numpy()))
                columns.add(p, _sets(model, x, error), before=found)


def _sets(model: Model, x: Tensor, error: float | None) -> Any:
    """Return the sets of classes [n, C] of features [n, d], None if none are asked for."""
    return None if error is None else model.classifier.predict_set(x.numpy(), error=error)
