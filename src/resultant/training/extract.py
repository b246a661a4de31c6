"""Features of networks as a `FeatureStore`."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from resultant._core.files import require_writable_file
from resultant._core.tensor_files import require_name
from resultant._core.text import one_line
from resultant.features.rows import TensorRows, require_vectors
from resultant.features.store import write_store
from resultant.images.cifar import Cifar, load_cifar
from resultant.images.source import ImageSplits
from resultant.networks.timm_encoder import EncoderNetwork, EvaluationView, model_settings
from resultant.training.checkpoints import LoadedNetwork, load_network
from resultant.training.config import CIFAR, TrainConfig
from resultant.training.image_sets import open_dataset, resolved
from resultant.training.inference import Views, cifar_views, network_outputs, source_views
from resultant.training.network_files import Location
from resultant.training.probe import accuracies

FEATURES = ("encoder", "projection")

Images = Cifar | ImageSplits


def open_networks(
    files: Mapping[int, Location], root: Callable[[str], Location | None], **options: Any
) -> dict[int, tuple[LoadedNetwork, Images]]:
    """Load networks with the images of their datasets, which they share; ``options`` are those of
    `open_dataset`."""
    networks: dict[int, tuple[LoadedNetwork, Images]] = {}
    images: dict[tuple[Any, ...], Images] = {}
    for i, file in files.items():
        network = load_network(file)
        config = network.config
        key = config.dataset, config.long_tail, config.subset_seed
        if key not in images:
            folder = root(config.dataset)
            if config.dataset in CIFAR:
                images[key] = load_cifar(config.dataset, folder if folder is not None else ".")
            else:
                images[key] = open_dataset(config, folder, **options)
        require_images(network, images[key])
        networks[i] = network, images[key]
    return networks


def timm_network(
    config: TrainConfig, *, pretrained: bool = False, weights: str | None = None, size: int = 0
) -> LoadedNetwork:
    """Build the encoder of timm that a configuration names; its images give it the classes."""
    config = resolved(replace(config, pretrained=pretrained, weights=weights, size=size))
    options: dict[str, Any] = {"pretrained": pretrained, "weights": weights, "size": config.size}
    network = EncoderNetwork(config.architecture, **options).eval()
    return LoadedNetwork(network, config, None, 0, None, (), {})


def keep_split(data: Images, split: str) -> ImageSplits:
    """Keep the training images and one held-out split, ``val`` or ``test``."""
    splits = data.held_out_splits if isinstance(data, ImageSplits) else {}
    if not isinstance(data, ImageSplits) or split not in splits:
        got = ", ".join(splits) or "images without splits of that name"
        raise ValueError(f"expected images with the split {split}, got {got}")
    return replace(data, **{name: splits[name] if name == split else None for name in splits})


def require_images(
    loaded: LoadedNetwork, data: Images, balanced: bool = False, imbalance: float | None = None
) -> None:
    """Raise a ValueError unless the images fit the network and the training subset is known."""
    config, dataset = loaded.config, getattr(data, "dataset", None)
    if isinstance(data, Cifar) != (config.dataset in CIFAR) or (
        dataset not in (None, config.dataset)
    ):
        got = "others" if dataset is None else f"those of {dataset}"
        raise ValueError(f"expected images of {config.dataset}, got {got}")
    if data.num_classes != loaded.num_classes:
        rule = f"expected images of {loaded.num_classes} classes, as the network has"
        raise ValueError(f"{rule}, got {data.num_classes} in {config.dataset}")
    for c, (own, other) in enumerate(zip(loaded.class_names, data.class_names, strict=False)):
        if own != other:
            got = f"{one_line(other)!r} as class {c}"
            raise ValueError(f"expected the class {one_line(own)!r} of the network, got {got}")
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
    workers: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> None:
    """Write the encoder and projection features of training and held-out images, in float32.

    ``identities`` are positions in the dataset. In the metadata, ``imbalance`` is that of
    ``train/*``, that of the training is in ``config``, and ``classifier`` are the accuracies of the
    network's own. For CIFAR, ``balanced`` takes all training images, ``imbalance`` another subset.
    """
    out, device, config = Path(out), torch.device(device), loaded.config
    require_name(out)
    require_writable_file(out)
    if dtype not in ("float16", "float32"):
        raise ValueError(f"expected dtype to be float16 or float32, got {dtype!r}")
    if isinstance(loaded.network, EncoderNetwork):
        loaded = replace(loaded, num_classes=data.num_classes, class_names=data.class_names)
    require_images(loaded, data, balanced, imbalance)
    trained_imbalance = imbalance if loaded.imbalance is None else loaded.imbalance
    # Labels [N] and positions [N] of the images of a split, and the input of the network.
    splits: dict[str, tuple[Tensor, Tensor, Views]] = {}
    subset_imbalance: float | None = None
    if isinstance(data, ImageSplits):
        if balanced or imbalance is not None:
            rule = "expected balanced and imbalance only for CIFAR"
            raise ValueError(f"{rule}, got {config.dataset}")
        view, counts = EvaluationView(config.size), data.counts
        if isinstance(loaded.network, EncoderNetwork):
            view = replace(model_settings(config.architecture), size=config.size)
        for name, source in {"train": data.train, **data.held_out_splits}.items():
            views = partial(source_views, source, view, config.channels, device, workers)
            splits[name] = torch.from_numpy(source.labels), torch.arange(len(source)), views
    else:
        train, test = data.train_labels, torch.arange(len(data.test_labels))
        subset_imbalance, rows = 1.0, torch.arange(len(train))
        if not balanced:
            subset_imbalance = loaded.imbalance if imbalance is None else imbalance
            assert subset_imbalance is not None, "refused by require_images"
            rows = data.members(subset_imbalance, config.subset)
        for name, images, labels, positions in (
            ("train", data.train_images, train, rows),
            ("test", data.test_images, data.test_labels, test),
        ):
            views = partial(cifar_views, images[positions].to(device), torch.float32)
            splits[name] = labels[positions], positions, views
        # Shot groups follow the images of the training, even if others are extracted.
        if trained_imbalance is not None:
            train = train[data.members(trained_imbalance, config.subset)]
        counts = torch.bincount(train, minlength=data.num_classes)
    total, done, arrays = sum(len(labels) for labels, _, _ in splits.values()), 0, {}
    predictions: list[Tensor] = []
    for name, (labels, identities, views) in splits.items():
        arrays |= {f"{name}/labels": labels, f"{name}/identities": identities}
        batches, top = views(torch.arange(len(labels))), 0
        for chunk in network_outputs(loaded.network.to(device), batches, device):
            for feature in FEATURES:
                full, x = f"{name}/{feature}", getattr(chunk, feature)[0]
                x = x.to("cpu", getattr(torch, dtype))
                if not x.shape[1]:
                    # An encoder of timm has no projection.
                    continue
                if full not in arrays:
                    arrays[full] = x.new_empty(len(labels), x.shape[1])
                arrays[full][top : top + len(x)] = x
                # Checked now and not after hours of images: float16 may be too narrow.
                written = TensorRows(arrays[full][: top + len(x)])
                require_vectors(x, f"{full} as {x.dtype}", written, top)
            if name == data.held_out and chunk.logits is not None:
                predictions.append(chunk.logits[0].argmax(-1).cpu())
            top += chunk.encoder.shape[1]
            if progress is not None:
                progress(done + top, total)
        done += top
    about = {
        "num_classes": loaded.num_classes,
        "class_names": list(data.class_names),
        "dataset": config.dataset,
        "held_out": data.held_out,
        "config": asdict(config),
        "run": None if loaded.run is None else asdict(loaded.run),
        **{key: loaded.about[key] for key in ("proco", "epoch") if key in loaded.about},
        "imbalance": subset_imbalance,
        "dtype": dtype,
    }
    if isinstance(data, Cifar):
        about["config"]["imbalance"] = trained_imbalance
    if predictions:
        labels, _, _ = splits[data.held_out]
        about["classifier"] = accuracies(torch.cat(predictions), labels, counts)
    write_store(out, arrays, about)
