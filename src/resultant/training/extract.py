"""Networks from their files, and their features of a data set into a `FeatureStore`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from resultant._core import tensor_files
from resultant._core.device import full_precision
from resultant._core.files import require_writable_file
from resultant._core.network_files import split_run
from resultant.classes.groups import group_masks
from resultant.features.rows import MemoryRows
from resultant.features.schema import require_vectors
from resultant.features.store import write_store
from resultant.images.cifar import Cifar, load_cifar
from resultant.images.lists import DATASETS, ImageList
from resultant.networks.models import CosineClassifier, ImageNetwork, Outputs, StackedResNet32
from resultant.training.checkpoints import one_run
from resultant.training.config import CIFAR, Run, TrainConfig
from resultant.training.image_sets import (
    WORKERS,
    ListedImages,
    accuracies,
    evaluation_loader,
    load_images,
)
from resultant.training.inference import CHUNK_IMAGES, loaded_outputs, outputs
from resultant.training.proco_checkpoint import imbalance_of, recipe
from resultant.training.stack import build

Location = str | os.PathLike[str]

FEATURES = ("encoder", "projection")


@dataclass(frozen=True, eq=False)
class Loaded:
    """A network from a file, with ``banks`` ``old`` and ``new`` [C, p + 1] where there are any.

    ``run`` is None for a checkpoint of ProCo's authors, whose ``config`` is the preset that fits.
    ``imbalance`` is that of the CIFAR subset it was trained on, None if such a checkpoint does not
    tell; ``about`` is the JSON of the file.
    """

    network: StackedResNet32 | ImageNetwork
    config: TrainConfig
    run: Run | None
    num_classes: int
    imbalance: float | None
    banks: dict[str, Tensor]
    about: dict[str, Any]


def load_network(path: Location) -> Loaded:
    """The network of a run (`checkpoints.save_run`) or of a converted checkpoint of ProCo's
    authors (`resultant.training.proco_checkpoint.convert`), for evaluation and on the CPU.

    Of a job that is not done the run is named: ``out/checkpoint.safetensors:native-seed0``.
    """
    (file, wanted), where = split_run(path), os.fspath(path)
    tensors, about = tensor_files.load(file)
    try:
        if isinstance(about.get("runs"), list):
            tensors, about = one_run(tensors, about, wanted, where)
        elif wanted is not None:
            raise ValueError(f"expected the checkpoint of a job before :{wanted}, got {file}")
        num_classes = about.get("num_classes")
        known = isinstance(about.get("config"), dict) or isinstance(about.get("proco"), dict)
        if not isinstance(num_classes, int) or not known:
            rule = "expected the file of a run or a converted checkpoint of ProCo"
            raise ValueError(f"{rule}, got {where} with {', '.join(about) or 'nothing'}")
        if "proco" in about:
            facts, bank = about["proco"], tensors.get("bank.new")
            imbalance = None if bank is None else imbalance_of(bank[:, -1].round().long())
            run, classifier = None, facts["classifier"]
            config = recipe(facts["arch"], facts["dim"], num_classes, where, imbalance)
        else:
            settings = dict(about["config"])
            odd = settings.keys() - {f.name for f in fields(TrainConfig)}
            if odd:
                raise ValueError(f"expected fields of TrainConfig in {where}, got {min(odd)}")
            settings["milestones"] = tuple(settings.get("milestones", ()))
            run, config = Run(**about["run"]), TrainConfig(**settings)
            imbalance = config.imbalance if config.dataset in CIFAR else None
            classifier = None
    except (KeyError, TypeError, IndexError) as error:
        rule = f"expected the facts of a run in {where}"
        raise ValueError(f"{rule}, got {type(error).__name__}: {error}") from None
    banks = {k.removeprefix("bank."): a for k, a in tensors.items() if k.startswith("bank.")}
    weights = {k: a for k, a in tensors.items() if not k.startswith("bank.")}
    classes = num_classes if any(k.startswith("classifier.") for k in weights) else None
    network = build(config, [run or Run()], classes)
    stacked = isinstance(network, StackedResNet32)
    # The authors' networks may have the kind of classifier that is for the others here.
    other = classifier == ("cosine" if stacked else "linear")
    if other and network.classifier is not None:
        kind = CosineClassifier if stacked else nn.Linear
        network.add_module("classifier", kind(network.classifier.weight.shape[-1], num_classes))
    if stacked:
        # A stack of one, but for such a classifier; its norms do not count their batches.
        weights = {
            k: a if other and k.startswith("classifier.") else a.unsqueeze(0)
            for k, a in weights.items()
            if not k.endswith("num_batches_tracked")
        }
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        rule = f"expected the tensors of {config.architecture} in {where}"
        raise ValueError(f"{rule}, got: {' '.join(str(error).split())[:300]}") from None
    return Loaded(network.eval(), config, run, num_classes, imbalance, banks, about)


def load_data(
    dataset: str, lists: Location, images: Location, held_out: str | None = None
) -> Cifar | ListedImages:
    """The images that networks of a data set are asked about; CIFAR is below ``lists``, and its
    held-out images are always those of test."""
    if dataset not in CIFAR:
        return load_images(dataset, lists, images, held_out)
    if held_out not in (None, "test"):
        raise ValueError(f"expected the split test of {dataset}, got {held_out!r}")
    return load_cifar(dataset, lists)


def require_images(
    loaded: Loaded,
    data: Cifar | ListedImages,
    balanced: bool = False,
    imbalance: float | None = None,
) -> None:
    """Raise unless the images are of the data set and the classes of the network, and it is known
    which of them are for training, as `extract` is told by ``balanced`` and ``imbalance``."""
    config = loaded.config
    if isinstance(data, Cifar) != (config.dataset in CIFAR) or (
        data.dataset not in (None, config.dataset)
    ):
        got = "others" if data.dataset is None else f"those of {data.dataset}"
        raise ValueError(f"expected images of {config.dataset}, got {got}")
    number = data.num_classes if isinstance(data, Cifar) else data.train.num_classes
    if number != loaded.num_classes:
        rule = f"expected images of {loaded.num_classes} classes, as the network knows"
        raise ValueError(f"{rule}, got {number} in {config.dataset}")
    if isinstance(data, Cifar) and not balanced and imbalance is None and loaded.imbalance is None:
        rule = f"expected the imbalance of the training images of {config.dataset}"
        told = "resultant extract takes --imbalance, or --balanced for all images"
        raise ValueError(f"{rule}, got a checkpoint that does not tell; {told}")


def extract(
    loaded: Loaded,
    data: Cifar | ListedImages,
    out: Location,
    *,
    balanced: bool = False,
    imbalance: float | None = None,
    dtype: Literal["float16", "float32"] = "float16",
    device: torch.device | str = "cpu",
    workers: int = WORKERS,
    progress: Callable[[int, int], object] | None = None,
) -> None:
    """Write Encoder and Projection of the training and the held-out images as a `FeatureStore`.

    ``train/*`` are of the long-tailed subset of CIFAR (of imbalance ``imbalance``, that of the run
    unless given, and to be given where that is unknown), with ``balanced`` of the whole training
    set; of listed images all. ``identities`` are positions in the official order or in the list.
    ``test/*`` are of the held-out images, of whichever split they are; the metadata have its name
    as ``held_out``, and what the network's own classifier reaches there, if it has one, as
    ``classifier``. There ``imbalance`` is that of ``train/*``, and that of ``config`` the one that
    the network was trained at. No image is augmented, and features are computed in float32 and
    stored as ``dtype``. ``progress`` gets the images done and their number.
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
    taken = None
    if isinstance(data, Cifar):
        taken = 1.0 if balanced else loaded.imbalance if imbalance is None else imbalance
    parts = _parts(data, None if balanced else taken, loaded.config.subset)
    total, done, arrays = sum(len(part.labels) for part in parts.values()), 0, {}
    decided: list[Tensor] = []
    for split, part in parts.items():
        arrays |= {f"{split}/labels": part.labels, f"{split}/identities": part.identities}
        pieces = _outputs(loaded, part.images, torch.device(device), workers)
        for found in _fill(arrays, split, pieces, getattr(torch, dtype)):
            if split == "test" and found.logits is not None:
                decided.append(found.logits[0].argmax(-1).cpu())
            done += found.encoder.shape[1]
            if progress is not None:
                progress(done, total)
    known = imbalance if loaded.imbalance is None else loaded.imbalance
    about = _about(loaded, data, known) | {"imbalance": taken, "dtype": dtype}
    if decided:
        train = parts["train"].labels
        if isinstance(data, Cifar) and known is not None:
            # Shot groups are of the images that it was trained on, whichever are extracted.
            train = data.train_labels[data.members(known, loaded.config.subset)]
        test = parts["test"].labels
        about["classifier"] = _classified(torch.cat(decided), test, train, loaded.num_classes)
    write_store(out, arrays, about)


class _Part(NamedTuple):
    """The images of a split, with their labels [N] and positions [N]."""

    images: Tensor | ImageList
    labels: Tensor
    identities: Tensor


def _parts(data: Cifar | ListedImages, imbalance: float | None, subset: int) -> dict[str, _Part]:
    """The images that are asked about: of CIFAR a long-tailed subset, or all, and the test."""
    if isinstance(data, ListedImages):
        both = {"train": data.train, "test": data.test}
        return {k: _Part(a, a.labels, torch.arange(len(a))) for k, a in both.items()}
    members, test = torch.arange(len(data.train_labels)), torch.arange(len(data.test_labels))
    if imbalance is not None:
        members = data.members(imbalance, subset)
    return {
        "train": _Part(data.images_at(members), data.train_labels[members], members),
        "test": _Part(data.test_images, data.test_labels, test),
    }


def _outputs(
    loaded: Loaded, images: Tensor | ImageList, device: torch.device, workers: int
) -> Iterator[Outputs]:
    """What the network makes of images, piece by piece."""
    network, config = loaded.network.to(device), loaded.config
    if isinstance(images, Tensor):
        assert isinstance(network, StackedResNet32)
        for chunk in images.split(CHUNK_IMAGES):
            yield outputs(network, chunk.to(device), torch.float32)
        return
    read, of = evaluation_loader(images, config, workers), DATASETS[config.dataset]
    for found, _ in loaded_outputs(network, read, of, device, partial(full_precision, device)):
        yield found


def _fill(
    arrays: dict[str, Tensor], split: str, pieces: Iterator[Outputs], dtype: torch.dtype
) -> Iterator[Outputs]:
    """Put the features of pieces into ``arrays``, in which the labels of the split are, and hand
    each on."""
    top = 0
    for found in pieces:
        n = found.encoder.shape[1]
        for what in FEATURES:
            name, x = f"{split}/{what}", getattr(found, what)[0].to("cpu", dtype)
            if name not in arrays:
                arrays[name] = x.new_empty(len(arrays[f"{split}/labels"]), x.shape[1])
            # At once, and not when hours of images are done: float16 may be too narrow.
            require_vectors(x, f"{name} as {dtype}", MemoryRows(arrays[name]), top)
            arrays[name][top : top + n] = x
        top += n
        yield found


def _classified(predicted: Tensor, labels: Tensor, train: Tensor, classes: int) -> dict[str, float]:
    """The `accuracies` of what was ``predicted`` [N] of ``labels`` [N], in the shot groups of the
    labels ``train`` [M]."""
    right, number, counts = (
        torch.bincount(y, minlength=classes) for y in (labels[predicted == labels], labels, train)
    )
    return accuracies(right.double(), number, group_masks(counts))


def _about(loaded: Loaded, data: Cifar | ListedImages, imbalance: float | None) -> dict[str, Any]:
    """What is known of the network, trained at ``imbalance`` if on CIFAR, and of the images."""
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
