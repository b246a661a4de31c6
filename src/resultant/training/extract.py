"""Features of trained networks as a `FeatureStore`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from resultant._core.device import full_precision
from resultant._core.files import require_writable_file
from resultant._core.network_files import Location
from resultant.classes.groups import group_masks
from resultant.features.rows import MemoryRows
from resultant.features.schema import require_vectors
from resultant.features.store import FeatureStore, write_store
from resultant.images.cifar import Cifar, load_cifar
from resultant.images.lists import DATASETS, ImageList
from resultant.networks.outputs import Outputs
from resultant.networks.stacked_resnet import StackedResNet32
from resultant.training.config import CIFAR
from resultant.training.image_sets import (
    WORKERS,
    ListedImages,
    accuracies,
    evaluation_loader,
    load_images,
)
from resultant.training.inference import CHUNK_IMAGES, loaded_outputs, outputs
from resultant.training.loading import LoadedNetwork, load_network

FEATURES = ("encoder", "projection")

Images = Cifar | ListedImages
# Called with the finished images and their number.
OnImages = Callable[[int, int], object]


@dataclass(frozen=True, eq=False)
class NetworkFeatures:
    """A network with the images that it is evaluated on; `write` computes the features.

    Attributes:
        loaded: The network.
        images: Images of the network's dataset.
    """

    loaded: LoadedNetwork
    images: Images

    @property
    def dataset(self) -> str:
        return self.loaded.config.dataset

    @property
    def num_classes(self) -> int:
        return self.loaded.num_classes

    def write(
        self, out: Path, device: torch.device | str = "cpu", progress: OnImages | None = None
    ) -> FeatureStore:
        """Write the features to ``out``, which ends in .safetensors, and open them."""
        extract(self.loaded, self.images, out, device=device, progress=progress)
        return FeatureStore.open(out)


def open_networks(
    files: Mapping[int, Location], lists: Location, images: Location
) -> dict[int, NetworkFeatures]:
    """Load networks together with the images of their datasets.

    Args:
        files: Files of networks by any number.
        lists: Folder of the lists, or of CIFAR.
        images: Folder of the listed images.

    Returns:
        The networks under the same numbers. Networks of one dataset share its images.

    Raises:
        ValueError: If a file is no network, or its images are missing or do not fit.
    """
    loaded = {i: load_network(file) for i, file in files.items()}
    datasets = dict.fromkeys(network.config.dataset for network in loaded.values())
    data = {dataset: load_data(dataset, lists, images) for dataset in datasets}
    networks = {i: NetworkFeatures(a, data[a.config.dataset]) for i, a in loaded.items()}
    for network in networks.values():
        require_images(network.loaded, network.images)
    return networks


def load_data(
    dataset: str, lists: Location, images: Location, held_out: str | None = None
) -> Images:
    """Load the images of a dataset.

    Args:
        dataset: Name of the dataset.
        lists: Folder of the lists, or of CIFAR.
        images: Folder of the listed images.
        held_out: Split of the held-out images; None for the usual one, always ``test`` for CIFAR.

    Returns:
        Training and held-out images.

    Raises:
        ValueError: If CIFAR is requested with a split other than test.
    """
    if dataset not in CIFAR:
        return load_images(dataset, lists, images, held_out)
    if held_out not in (None, "test"):
        raise ValueError(f"expected the split test of {dataset}, got {held_out!r}")
    return load_cifar(dataset, lists)


def require_images(
    loaded: LoadedNetwork, data: Images, balanced: bool = False, imbalance: float | None = None
) -> None:
    """Raise a ValueError unless the images fit the network and the training subset is known."""
    config = loaded.config
    if isinstance(data, Cifar) != (config.dataset in CIFAR) or (
        data.dataset not in (None, config.dataset)
    ):
        got = "others" if data.dataset is None else f"those of {data.dataset}"
        raise ValueError(f"expected images of {config.dataset}, got {got}")
    number = data.num_classes if isinstance(data, Cifar) else data.train.num_classes
    if number != loaded.num_classes:
        rule = f"expected images of {loaded.num_classes} classes, as the network has"
        raise ValueError(f"{rule}, got {number} in {config.dataset}")
    if isinstance(data, Cifar) and not balanced and imbalance is None and loaded.imbalance is None:
        rule = f"expected the imbalance of the training images of {config.dataset}"
        remedy = "resultant extract takes --imbalance, or --balanced for all images"
        raise ValueError(f"{rule}, got a checkpoint without it; {remedy}")


def extract(
    loaded: LoadedNetwork,
    data: Images,
    out: Location,
    *,
    balanced: bool = False,
    imbalance: float | None = None,
    dtype: Literal["float16", "float32"] = "float16",
    device: torch.device | str = "cpu",
    workers: int = WORKERS,
    progress: OnImages | None = None,
) -> None:
    """Write the encoder and projection features of training and held-out images.

    Images are not augmented, and features are computed in float32. The store has ``train/*`` and
    ``test/*`` with labels and ``identities``, the positions in the official order or in the list.
    Its metadata name the held-out split as ``held_out``, the imbalance of ``train/*`` as
    ``imbalance`` and that of the training in ``config``, and the accuracies of the network's own
    classifier on the held-out images as ``classifier``.

    Args:
        loaded: The network.
        data: Images of the network's dataset.
        out: File to write, ending in .safetensors.
        balanced: Take all training images of CIFAR instead of the long-tailed subset.
        imbalance: Imbalance of the CIFAR subset; None for that of the training.
        dtype: Type of the stored features.
        device: Device of the network.
        workers: Processes that read image files.
        progress: Called with the finished images and their number.

    Raises:
        ValueError: If the name, the images or the options do not fit, or a feature is not finite in
            ``dtype``.
    """
    out = Path(out)
    if out.suffix != ".safetensors":
        raise ValueError(f"expected a name that ends in .safetensors, got {out}")
    require_writable_file(out)
    if dtype not in ("float16", "float32"):
        raise ValueError(f"expected dtype to be float16 or float32, got {dtype!r}")
    require_images(loaded, data, balanced, imbalance)
    if isinstance(data, ListedImages) and (balanced or imbalance is not None):
        dataset = loaded.config.dataset
        raise ValueError(f"expected balanced and imbalance for CIFAR alone, not {dataset}")
    subset_imbalance = None
    if isinstance(data, Cifar):
        subset_imbalance = loaded.imbalance if imbalance is None else imbalance
        subset_imbalance = 1.0 if balanced else subset_imbalance
    splits = _splits(data, None if balanced else subset_imbalance, loaded.config.subset)
    total, done, arrays = sum(len(split.labels) for split in splits.values()), 0, {}
    predictions: list[Tensor] = []
    for name, split in splits.items():
        arrays |= {f"{name}/labels": split.labels, f"{name}/identities": split.identities}
        chunks = _outputs(loaded, split.images, torch.device(device), workers)
        for chunk in _fill(arrays, name, chunks, getattr(torch, dtype)):
            if name == "test" and chunk.logits is not None:
                predictions.append(chunk.logits[0].argmax(-1).cpu())
            done += chunk.encoder.shape[1]
            if progress is not None:
                progress(done, total)
    trained_imbalance = imbalance if loaded.imbalance is None else loaded.imbalance
    about = _about(loaded, data, trained_imbalance)
    about |= {"imbalance": subset_imbalance, "dtype": dtype}
    if predictions:
        train, test = splits["train"].labels, splits["test"].labels
        if isinstance(data, Cifar) and trained_imbalance is not None:
            # Shot groups follow the images of the training, even if others are extracted.
            train = data.train_labels[data.members(trained_imbalance, loaded.config.subset)]
        about["classifier"] = _classifier(torch.cat(predictions), test, train, loaded.num_classes)
    write_store(out, arrays, about)


class _Split(NamedTuple):
    """Images of a split, with their labels [N] and positions [N]."""

    images: Tensor | ImageList
    labels: Tensor
    identities: Tensor


def _splits(data: Images, imbalance: float | None, subset: int) -> dict[str, _Split]:
    if isinstance(data, ListedImages):
        both = {"train": data.train, "test": data.test}
        return {k: _Split(a, a.labels, torch.arange(len(a))) for k, a in both.items()}
    members, test = torch.arange(len(data.train_labels)), torch.arange(len(data.test_labels))
    if imbalance is not None:
        members = data.members(imbalance, subset)
    return {
        "train": _Split(data.train_images[members], data.train_labels[members], members),
        "test": _Split(data.test_images, data.test_labels, test),
    }


def _outputs(
    loaded: LoadedNetwork, images: Tensor | ImageList, device: torch.device, workers: int
) -> Iterator[Outputs]:
    """Yield the outputs of the network, chunk by chunk."""
    network, config = loaded.network.to(device), loaded.config
    if isinstance(images, Tensor):
        assert isinstance(network, StackedResNet32)
        for chunk in images.split(CHUNK_IMAGES):
            yield outputs(network, chunk.to(device), torch.float32)
        return
    loader, dataset = evaluation_loader(images, config, workers), DATASETS[config.dataset]
    autocast = partial(full_precision, device)
    for chunk, _ in loaded_outputs(network, loader, dataset, device, autocast):
        yield chunk


def _fill(
    arrays: dict[str, Tensor], split: str, chunks: Iterator[Outputs], dtype: torch.dtype
) -> Iterator[Outputs]:
    """Copy the features of each chunk into ``arrays``, and yield the chunk."""
    top = 0
    for chunk in chunks:
        n = chunk.encoder.shape[1]
        for feature in FEATURES:
            name, x = f"{split}/{feature}", getattr(chunk, feature)[0].to("cpu", dtype)
            if name not in arrays:
                arrays[name] = x.new_empty(len(arrays[f"{split}/labels"]), x.shape[1])
            # Checked now and not after hours of images: float16 may be too narrow.
            require_vectors(x, f"{name} as {dtype}", MemoryRows(arrays[name]), top)
            arrays[name][top : top + n] = x
        top += n
        yield chunk


def _classifier(predicted: Tensor, labels: Tensor, train: Tensor, classes: int) -> dict[str, float]:
    """Compute the `accuracies` of predictions [N], in the shot groups of the labels ``train``."""
    correct, number, counts = (
        torch.bincount(y, minlength=classes) for y in (labels[predicted == labels], labels, train)
    )
    return accuracies(correct.double(), number, group_masks(counts))


def _about(loaded: LoadedNetwork, data: Images, imbalance: float | None) -> dict[str, Any]:
    """Collect the metadata of the network, trained at ``imbalance`` if on CIFAR."""
    about = {
        "num_classes": loaded.num_classes,
        "dataset": loaded.config.dataset,
        "held_out": data.held_out if isinstance(data, ListedImages) else "test",
        "config": asdict(loaded.config),
        "run": None if loaded.run is None else asdict(loaded.run),
    }
    about |= {key: loaded.about[key] for key in ("proco", "epoch") if key in loaded.about}
    if isinstance(data, Cifar):
        about["config"]["imbalance"] = imbalance
        about["class_names"] = list(data.class_names)
    return about
