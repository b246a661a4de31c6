"""Features of networks as a `FeatureStore`."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from resultant._core.files import require_writable_file
from resultant._core.tensor_files import require_name
from resultant._core.text import one_line
from resultant.classifiers.files import OF_NETWORK
from resultant.features.rows import TensorRows, require_vectors
from resultant.features.selection import WORDS
from resultant.features.store import write_store
from resultant.images.evaluation import source_views
from resultant.images.held_out import without_trained
from resultant.images.source import ImageSource, ImageSplits
from resultant.images.store import OnImages
from resultant.training.checkpoints import LoadedNetwork
from resultant.training.config import TrainConfig
from resultant.training.encoder import EncoderNetwork, Outputs, model_settings
from resultant.training.evaluation import accuracies, network_outputs
from resultant.training.image_sets import resolved, with_long_tail
from resultant.training.network_files import Location
from resultant.training.plugins import network_kind, open_dataset_images

FEATURES = ("encoder", "projection")
Precision = Literal["float32", "bf16"]


def open_network_images(
    loaded: LoadedNetwork,
    data: Location | None,
    changes: Mapping[str, Any] | None = None,
    **options: Any,
) -> ImageSplits:
    """Open images for a network, those of its training subset unless ``changes`` has another
    ``long_tail`` or ``subset_seed``; ``options`` are those of `open_images`."""
    kind, changes = network_kind(loaded.config.architecture), changes or {}
    if kind is not None:
        images = kind.open_images(loaded.config, loaded.about, data, changes)
    else:
        config = replace(loaded.config, **changes)
        images = not_trained_on(loaded, open_dataset_images(config.dataset, data, **options))
        images = with_long_tail(images, config.long_tail, config.subset_seed)
    require_images(loaded, images)
    return images


def not_trained_on(loaded: LoadedNetwork, data: ImageSplits) -> ImageSplits:
    """Return the images, with held-out images that the network was not trained on."""
    if loaded.trained is not None:
        return without_trained(data, loaded.trained)
    if data.divided and not isinstance(loaded.network, EncoderNetwork):
        rule = "expected a network that names the images it was trained on"
        remedy = "name held-out images, by a folder test or by --test-list"
        raise ValueError(f"{rule}, got one of an earlier version; {remedy}")
    return data


def timm_network(
    config: TrainConfig, *, pretrained: bool = False, weights: str | None = None, size: int = 0
) -> LoadedNetwork:
    """Build the encoder of timm that a configuration names, such as
    ``TrainConfig(dataset="images", architecture="resnet18")``; its images give it the classes."""
    config = resolved(replace(config, pretrained=pretrained, weights=weights, size=size))
    options: dict[str, Any] = {"pretrained": pretrained, "weights": weights, "size": config.size}
    network = EncoderNetwork(config.architecture, **options).eval()
    view = replace(model_settings(config.architecture), size=config.size)
    return LoadedNetwork(network, view, config, None, 0, (), {})


def keep_split(data: ImageSplits, split: str) -> ImageSplits:
    """Keep the training images and one held-out split, ``val`` or ``test``."""
    splits = data.held_out_splits
    if split not in splits:
        got = ", ".join(splits) or "images without held-out splits"
        raise ValueError(f"expected images with the split {split}, got {got}")
    return replace(data, **{name: splits[name] if name == split else None for name in splits})


def require_images(loaded: LoadedNetwork, data: ImageSplits) -> None:
    """Raise a ValueError unless the images have the classes of the network, if it knows any."""
    if isinstance(loaded.network, EncoderNetwork):
        return
    if data.num_classes != loaded.num_classes:
        rule = f"expected images of {loaded.num_classes} classes, as the network has"
        raise ValueError(f"{rule}, got {data.num_classes} in {loaded.config.dataset}")
    for c, (own, other) in enumerate(zip(loaded.class_names, data.class_names, strict=False)):
        if own != other:
            got = f"{one_line(other)!r} as class {c}"
            raise ValueError(f"expected the class {one_line(own)!r} of the network, got {got}")


def network_outputs_of(
    loaded: LoadedNetwork,
    source: ImageSource,
    device: torch.device,
    *,
    precision: Precision = "float32",
    workers: int | None = None,
    progress: OnImages | None = None,
) -> Iterator[Outputs]:
    """Yield the outputs of a network on images, batch by batch in their order.

    Args:
        loaded: The network, on the device.
        source: The images.
        device: The device.
        precision: ``float32`` without TF32, or ``bf16``: autocast to bfloat16, faster on a GPU.
        workers: Threads that decode images; by default one per core.
        progress: Called with the finished images and their number.
    """
    rows, done = torch.arange(len(source)), 0
    batches = source_views(source, loaded.view, loaded.config.channels, device, workers, rows)
    autocast = None
    if precision == "bf16":
        autocast = partial(torch.autocast, device.type, torch.bfloat16)
    for chunk in network_outputs(loaded.network, batches, device, autocast):
        yield chunk
        done += len(chunk.encoder)
        if progress is not None:
            progress(done, len(source))


def extract(
    loaded: LoadedNetwork,
    data: ImageSplits,
    out: Location,
    *,
    dtype: Literal["float16", "float32"] = "float16",
    precision: Precision = "float32",
    device: torch.device | str = "cpu",
    workers: int | None = None,
    progress: OnImages | None = None,
) -> None:
    """Write the encoder and projection features of training and held-out images.

    Each row has the file of its ``image``. The metadata has the ``config`` of the network, and as
    ``classifier`` the accuracies of its own classifier. Images of `without_labels` have no labels.
    """
    out, device = Path(out), torch.device(device)
    require_name(out)
    require_writable_file(out)
    if dtype not in ("float16", "float32"):
        raise ValueError(f"expected dtype to be float16 or float32, got {dtype!r}")
    labelled = data.class_names != ("",)
    if labelled:
        require_images(loaded, data)
    splits = {"train": data.train, **data.held_out_splits}
    total, done, arrays = sum(map(len, splits.values())), 0, {}
    predictions: list[Tensor] = []
    loaded.network.to(device)
    for name, source in splits.items():
        if labelled:
            arrays[f"{name}/labels"] = torch.from_numpy(source.labels)
        arrays[f"{name}/identities"] = torch.from_numpy(source.identities)
        top = 0
        for chunk in network_outputs_of(
            loaded, source, device, precision=precision, workers=workers
        ):
            for feature in FEATURES:
                x = getattr(chunk, feature).to("cpu", getattr(torch, dtype))
                # An encoder of timm has no projection.
                if x.shape[1]:
                    keep_rows(arrays, f"{name}/{feature}", x, top, len(source))
            if name == data.held_out and chunk.logits is not None:
                predictions.append(chunk.logits.argmax(-1).cpu())
            top += len(chunk.encoder)
            if progress is not None:
                progress(done + top, total)
        done += top
    about = facts_of(loaded, data, splits) | {"dtype": dtype, "precision": precision}
    if predictions and labelled:
        labels = torch.from_numpy(splits[data.held_out].labels)
        about["classifier"] = accuracies(torch.cat(predictions), labels, data.counts)
    texts = {f"{name}/image": file_names(source) for name, source in splits.items()}
    write_store(out, arrays, about, texts)


def file_names(source: ImageSource) -> list[str]:
    """Return the file of each image, and its row in a file of several."""
    places = source.places()
    several = any(row for _, row in places)
    return [f"{file} row {row}" if several else file for file, row in places]


def facts_of(
    loaded: LoadedNetwork, data: ImageSplits, splits: Mapping[str, ImageSource]
) -> dict[str, Any]:
    """Return the facts of a network and of images that their features keep."""
    about: dict[str, Any] = {
        "dataset": loaded.config.dataset,
        "held_out": data.held_out,
        "config": asdict(loaded.config),
        OF_NETWORK: loaded.identity(),
        "run": None if loaded.run is None else asdict(loaded.run),
        **{key: loaded.about[key] for key in ("proco", "epoch") if key in loaded.about},
        "imbalance": None,
        **data.about,
    }
    if data.class_names != ("",):
        about |= {"num_classes": data.num_classes, "class_names": list(data.class_names)}
        # A classifier of these features predicts names.
        about["labels"] = WORDS
    if loaded.trained is not None:
        seen = {name: np.isin(source.contents, loaded.trained) for name, source in splits.items()}
        about["trained_on"] = {name: int(mask.sum()) for name, mask in seen.items()}
    return about


def keep_rows(arrays: dict[str, Tensor], name: str, x: Tensor, top: int, total: int) -> None:
    """Write rows of features into an array of ``total`` rows, from row ``top`` on."""
    if name not in arrays:
        arrays[name] = x.new_empty(total, x.shape[1])
    arrays[name][top : top + len(x)] = x
    # Checked now and not after hours of images: float16 may be too narrow.
    require_vectors(x, f"{name} as {x.dtype}", TensorRows(arrays[name][: top + len(x)]), top)
