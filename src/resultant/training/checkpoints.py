"""Files of a training job: its checkpoint, one file for each trained run, and networks of both."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from resultant._core import distributed, tensor_files
from resultant._core.text import one_line
from resultant._core.validation import DivergedError
from resultant.images.evaluation import EvaluationView
from resultant.training.adapters import merged
from resultant.training.config import Run, TrainConfig
from resultant.training.encoder import build
from resultant.training.job import LOWER, Job, Trainee
from resultant.training.network_files import CHECKPOINT, Location, split_run
from resultant.training.plugins import network_kind
from resultant.training.records import require_types

START_AGAIN = "choose another folder to start again"
# Seconds since the last checkpoint after which an epoch is saved in any case.
UNSAVED_SECONDS = 60.0
# The array of the hashes of the training images; see `resultant.images.held_out`.
TRAINED = "images.trained"
# Epochs of a checkpoint, their seconds, and the most jobs that shared the device.
STORED = {"epoch": int, "seconds": float, "beside": int}


class JobCheckpoint:
    """The checkpoint of a job, with its epochs and their seconds: loaded in all processes at the
    start, if there is one, and written by the first process when it is due."""

    def __init__(self, job: Job, trainee: Trainee) -> None:
        self.job, self.trainee, self.path = job, trainee, job.out / CHECKPOINT
        # A checkpoint with other values belongs to another job.
        identity = job.identity() | {"images": trainee.digest}
        self.facts = {**identity, "class_names": list(job.class_names)}
        self.images = {TRAINED: trainee.contents} if len(trainee.contents) else {}
        done: list[Any] = [0, 0.0, 0]
        if distributed.rank() == 0 and self.path.exists():
            done = _load(self.path, job, identity, trainee)
        shared = torch.tensor(done, dtype=torch.float64, device=trainee.device)
        distributed.broadcast_from_rank0(shared, *trainee.tensors().values())
        epoch, self.seconds, concurrent = shared.tolist()
        self.epoch, self.concurrent_jobs = int(epoch), int(concurrent)
        if self.epoch < job.config.epochs:
            self.concurrent_jobs = max(self.concurrent_jobs, job.concurrent_jobs)

    def save_if_due(self, epoch: int, seconds: float, required: bool = False) -> bool:
        """Write the checkpoint if it is due; return True if this process has written it."""
        due = required or epoch == self.job.config.epochs or epoch % self.job.checkpoint_every == 0
        due = due or seconds - self.seconds > UNSAVED_SECONDS
        if not due or distributed.rank() > 0:
            return False
        tensors = self.trainee.tensors()
        for name, a in tensors.items():
            # The last step may have diverged after a finite loss.
            if not a.isfinite().all():
                rule = f"expected finite values ({LOWER})"
                raise DivergedError(f"{rule}, got others in {name} after epoch {epoch}")
        done = dict(zip(STORED, (epoch, seconds, self.concurrent_jobs), strict=True))
        tensor_files.save(self.path, {**tensors, **self.images}, self.facts | done)
        self.epoch, self.seconds = epoch, seconds
        return True

    def save_runs(self) -> None:
        """Write a file for each run, as `one_run` selects the run from the checkpoint."""
        tensors = merged({**self.trainee.tensors(), **self.images})
        for run in self.job.runs:
            path = self.job.out / f"{run.name}.safetensors"
            tensor_files.save(path, *one_run(tensors, self.facts, run.name, str(self.path)))


def _load(path: Path, job: Job, identity: dict[str, Any], trainee: Trainee) -> list[Any]:
    try:
        tensors, facts = tensor_files.load(path)
    except ValueError as error:
        raise ValueError(f"{error}; {START_AGAIN}") from None
    own, defaults = (json.loads(json.dumps(a)) for a in (identity, asdict(type(job.config)())))
    if isinstance(facts.get("config"), dict):
        # An older file lacks later settings, which had the value that is now the default, and has
        # settings of other recipes.
        stored = defaults | facts["config"]
        facts["config"] = {name: stored[name] for name in own["config"]}
    for part, value in own.items():
        if (other := facts.get(part)) != value:
            rule = f"expected the checkpoint of this job in {path}"
            if isinstance(value, dict) and isinstance(other, dict):
                other = ", ".join(f"{k} {v}" for k, v in other.items() if v != value.get(k))
            got = f"another in its {part}: {other}"
            if part == "images":
                got = "other training images: some were added, removed or changed"
            raise ValueError(f"{rule}, got {got}; {START_AGAIN}")
    require_types(facts, STORED, f"in {path}")
    done: list[Any] = [facts.get(name) for name in STORED]
    epoch, seconds, _ = done
    if None in done or not 0 < epoch <= facts["config"]["epochs"] or not seconds >= 0:
        rule = f"expected epochs in (0, {facts['config']['epochs']}] and their seconds in {path}"
        raise ValueError(f"{rule}, got {epoch} and {seconds}; {START_AGAIN}")
    trainee.load({name: a for name, a in tensors.items() if name != TRAINED})
    return done


def one_run(
    tensors: dict[str, Tensor], facts: dict[str, Any], name: str | None, location: str
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Select one run of a job's checkpoint by its name, None for the only one: the network, and the
    banks as ``bank.old`` and ``bank.new``."""
    runs = {Run(**run).name: run for run in facts["runs"]}
    names = list(runs)
    name = names[0] if name is None and len(names) == 1 else name
    if name not in runs:
        rule = f"expected one of {', '.join(names)} behind {CHECKPOINT} and a colon"
        raise ValueError(f"{rule}, got {location}")
    # Several runs are trained as one network, whose weights have an axis of runs, if any.
    stack, index = divmod(names.index(name), facts.get("stack", 1))
    network, bank = f"{stack}.network.", f"{stack}.proco.bank."
    selected = {k.removeprefix(network): a for k, a in tensors.items() if k.startswith(network)}
    if network_kind(facts["config"]["architecture"]) is not None:
        selected = {k: a[index] for k, a in selected.items()}
    for part in ("old", "new"):
        selected[f"bank.{part}"] = tensors[bank + part][index]
    if TRAINED in tensors:
        selected[TRAINED] = tensors[TRAINED]
    kept = {key: facts[key] for key in ("config", "epoch", "class_names", "view") if key in facts}
    return selected, kept | {"run": runs[name], "num_classes": len(selected["bank.old"])}


def save_network(
    path: Path,
    weights: Mapping[str, Tensor],
    config: TrainConfig,
    run: Run,
    epoch: int,
    class_names: Sequence[str],
    known: Tensor,
    *,
    view: EvaluationView | None = None,
    **facts: Any,
) -> None:
    """Write the network of a run after an epoch, with the hashes of the images that it knows; a
    ``view`` other than that of all trainings is kept, and so are JSON values ``facts``."""
    about = {
        "config": asdict(config),
        "run": asdict(run),
        "epoch": epoch,
        "num_classes": len(class_names),
        "class_names": list(class_names),
        **facts,
    }
    if view is not None:
        about["view"] = asdict(view)
    tensor_files.save(path, {**weights, TRAINED: known}, about)


@dataclass(frozen=True, eq=False)
class LoadedNetwork:
    """A network on the CPU in evaluation mode, from normalized images to `encoder.Outputs`."""

    network: nn.Module
    view: EvaluationView
    config: TrainConfig
    run: Run | None  # None without a training of this package
    num_classes: int
    class_names: tuple[str, ...]  # empty if the file has none
    about: dict[str, Any]  # the JSON of the file
    trained: np.ndarray | None = None  # hashes of the training images, None if the file has none

    def identity(self) -> dict[str, Any]:
        """Return architecture, size of the images and a hash of the weights: a classifier of the
        features knows its network by them."""
        content = hashlib.sha256()
        for name, a in sorted(self.network.state_dict().items()):
            content.update(name.encode() + a.cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
        facts = {"architecture": self.config.architecture, "size": self.view.size}
        return {**facts, "weights": content.hexdigest()}


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
        tuples = {k: tuple(a) if isinstance(a, list) else a for k, a in settings.items()}
        kind = network_kind(settings.get("architecture"))
        config = known_settings(tuples) if kind is None else kind.config(tuples)
        run = Run(**about["run"]) if facts is None else None
        classifier = None if facts is None else facts["classifier"]
    except (LookupError, TypeError, AttributeError, ArithmeticError) as error:
        rule = f"expected the facts of a run in {location}"
        raise ValueError(f"{rule}, got {type(error).__name__}: {error}") from None
    trained = tensors.pop(TRAINED, None)
    weights = {k: a for k, a in tensors.items() if not k.startswith("bank.")}
    require_sizes(config, num_classes, weights, location)
    load = load_timm if kind is None else kind.load
    network = load(config, num_classes, classifier, weights, location)
    names = about.get("class_names") or []
    if not isinstance(names, list) or len(names) not in (0, num_classes):
        raise ValueError(f"expected {num_classes} class names in {location}, got {str(names)[:80]}")
    view = EvaluationView(config.size) if kind is None else kind.view(config)
    if isinstance(about.get("view"), dict):
        view = known_view(about["view"], location)
    images = None if trained is None else trained.numpy()
    facts = tuple(map(str, names)), about, images
    return LoadedNetwork(network, view, config, run, num_classes, *facts)


def known_view(settings: dict[str, Any], location: str) -> EvaluationView:
    """Return the evaluation view of a file."""
    try:
        tuples: dict[str, Any] = {
            k: tuple(a) if isinstance(a, list) else a for k, a in settings.items()
        }
        return EvaluationView(**tuples)
    except TypeError as error:
        raise ValueError(f"expected an evaluation view in {location}, got: {error}") from None


def known_settings(settings: dict[str, Any]) -> TrainConfig:
    """Return the settings of a file, without those of the recipes of other networks."""
    known = {field.name for field in fields(TrainConfig)}
    return TrainConfig(**{name: a for name, a in settings.items() if name in known})


def require_sizes(
    config: TrainConfig, num_classes: int, weights: dict[str, Tensor], location: str
) -> None:
    """Raise unless the last layers fit, before a network is built whose sizes a file declares."""
    sizes = {"projector.3.weight": config.dim, "classifier.weight": num_classes}
    for name, size in sizes.items():
        if name in weights and size not in weights[name].shape:
            got = f"{name} of shape {tuple(weights[name].shape)}"
            raise ValueError(f"expected {size} outputs in {location}, got {got}")


def load_timm(
    config: TrainConfig,
    num_classes: int,
    classifier: str | None,
    weights: dict[str, Tensor],
    location: str,
) -> nn.Module:
    """Build a network of timm with these weights; ``classifier`` may be ``linear``."""
    classified = any(k.startswith("classifier.") for k in weights)
    network = build(config, 0, num_classes if classified else None)
    if classifier == "linear" and network.classifier is not None:
        width = network.classifier.weight.shape[-1]
        network.add_module("classifier", nn.Linear(width, num_classes))
    load_weights(network, weights, config, location)
    return network.eval()


def load_weights(
    network: nn.Module, weights: dict[str, Tensor], config: TrainConfig, location: str
) -> None:
    """Load all weights of a network; an error names the file."""
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        rule = f"expected the tensors of {config.architecture} in {location}"
        raise ValueError(f"{rule}, got: {one_line(error)[:300]}") from None
