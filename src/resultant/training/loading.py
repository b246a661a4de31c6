"""Trained networks from their files."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import Any

from torch import Tensor, nn

from resultant._core import tensor_files
from resultant._core.network_files import Location, split_run
from resultant._core.text import one_line
from resultant.networks.stacked_resnet import StackedResNet32
from resultant.networks.timm_encoder import CosineClassifier, EncoderNetwork, ImageNetwork
from resultant.training.checkpoints import one_run
from resultant.training.config import CIFAR, Run, TrainConfig
from resultant.training.stack import build


@dataclass(frozen=True, eq=False)
class LoadedNetwork:
    """A network from a file, on the CPU in evaluation mode; one of ProCo's authors has no run."""

    network: StackedResNet32 | ImageNetwork | EncoderNetwork
    config: TrainConfig
    run: Run | None
    num_classes: int
    imbalance: float | None  # of the CIFAR subset of the training, if known
    class_names: tuple[str, ...]  # empty if the file has none
    about: dict[str, Any]  # the JSON of the file


def load_network(path: Location) -> LoadedNetwork:
    """Load the network of a run from the file of the run, of ``resultant import-proco``, or of the
    checkpoint of a job, as ``out/checkpoint.safetensors:native-seed0``."""
    (file, run_name), location = split_run(path), os.fspath(path)
    tensors, about = tensor_files.load(file)
    try:
        if isinstance(about.get("runs"), list):
            tensors, about = one_run(tensors, about, run_name, location)
        elif run_name is not None:
            raise ValueError(f"expected the checkpoint of a job before :{run_name}, got {file}")
        num_classes, settings, facts = (about.get(k) for k in ("num_classes", "config", "proco"))
        if not isinstance(num_classes, int) or not isinstance(settings, dict):
            rule = "expected the file of a run, or one that import-proco of this version wrote"
            raise ValueError(f"{rule}, got {location} with {', '.join(about) or 'nothing'}")
        unknown = settings.keys() - {f.name for f in fields(TrainConfig)}
        if unknown:
            raise ValueError(f"expected fields of TrainConfig in {location}, got {min(unknown)}")
        tuples = {k: tuple(a) for k, a in settings.items() if isinstance(a, list)}
        config = TrainConfig(**{**settings, **tuples})
        run = Run(**about["run"]) if facts is None else None
        imbalance = config.imbalance if config.dataset in CIFAR else None
        if facts is not None:
            imbalance = facts["imbalance"]
        classifier = None if facts is None else facts["classifier"]
    except (LookupError, TypeError, AttributeError, ArithmeticError) as error:
        rule = f"expected the facts of a run in {location}"
        raise ValueError(f"{rule}, got {type(error).__name__}: {error}") from None
    weights = {k: a for k, a in tensors.items() if not k.startswith("bank.")}
    network = build_network(config, run or Run(), num_classes, classifier, weights, location)
    names = about.get("class_names") or []
    if not isinstance(names, list) or len(names) not in (0, num_classes):
        raise ValueError(f"expected {num_classes} class names in {location}, got {str(names)[:80]}")
    classes = tuple(map(str, names))
    return LoadedNetwork(network, config, run, num_classes, imbalance, classes, about)


def build_network(
    config: TrainConfig,
    run: Run,
    num_classes: int,
    classifier: str | None,
    weights: dict[str, Tensor],
    location: str,
) -> StackedResNet32 | ImageNetwork:
    classified = any(k.startswith("classifier.") for k in weights)
    # Before a network of these sizes is built, which a small file may declare as large.
    sizes = {"projector.3.weight": config.dim, "classifier.weight": num_classes}
    for name, size in sizes.items():
        if name in weights and size not in weights[name].shape:
            got = f"{name} of shape {tuple(weights[name].shape)}"
            raise ValueError(f"expected {size} outputs in {location}, got {got}")
    network = build(config, [run], num_classes if classified else None)
    stacked = isinstance(network, StackedResNet32)
    # The authors use both kinds of classifiers for both kinds of networks.
    replaced = classifier == ("cosine" if stacked else "linear")
    if replaced and network.classifier is not None:
        kind = CosineClassifier if stacked else nn.Linear
        network.add_module("classifier", kind(network.classifier.weight.shape[-1], num_classes))
    if stacked:
        # The leading axis of runs; a replaced classifier has none, and no norm counts its batches.
        weights = {
            k: a if replaced and k.startswith("classifier.") else a.unsqueeze(0)
            for k, a in weights.items()
            if not k.endswith("num_batches_tracked")
        }
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        rule = f"expected the tensors of {config.architecture} in {location}"
        raise ValueError(f"{rule}, got: {one_line(error)[:300]}") from None
    return network.eval()
