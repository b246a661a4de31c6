"""Files of a training job: its checkpoint, one file for each trained run, and networks of both."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from resultant._core import distributed, tensor_files
from resultant._core.text import one_line
from resultant._core.validation import DivergedError
from resultant.networks.stacked_resnet import StackedResNet32
from resultant.networks.timm_encoder import CosineClassifier, EncoderNetwork, ImageNetwork
from resultant.training.config import CIFAR, Run, TrainConfig
from resultant.training.job import Job
from resultant.training.network_files import CHECKPOINT, Location, split_run
from resultant.training.records import require_types
from resultant.training.stack import LOWER, Stack, build

START_AGAIN = "choose another folder to start again"
# Seconds since the last checkpoint after which an epoch is saved in any case.
UNSAVED_SECONDS = 60.0
# Epochs of a checkpoint, their seconds, and the most jobs that shared the device.
STORED = {"epoch": int, "seconds": float, "beside": int}


class JobCheckpoint:
    """The checkpoint of a job, with its epochs and their seconds: loaded in all processes at the
    start, if there is one, and written by the first process when it is due."""

    def __init__(self, job: Job, stacks: list[Stack]) -> None:
        self.job, self.stacks, self.path = job, stacks, job.out / CHECKPOINT
        # A checkpoint with other values belongs to another job.
        identity = {name: asdict(job)[name] for name in ("config", "runs", "stack")}
        identity["images"] = stacks[0].batches.digest
        self.facts = {**identity, "class_names": list(job.class_names)}
        done: list[Any] = [0, 0.0, 0]
        if distributed.rank() == 0 and self.path.exists():
            done = _load(self.path, identity, stacks)
        shared = torch.tensor(done, dtype=torch.float64, device=stacks[0].device)
        distributed.broadcast_from_rank0(shared, *self.tensors().values())
        epoch, self.seconds, concurrent = shared.tolist()
        self.epoch, self.concurrent_jobs = int(epoch), int(concurrent)
        if self.epoch < job.config.epochs:
            self.concurrent_jobs = max(self.concurrent_jobs, job.concurrent_jobs)

    def tensors(self) -> dict[str, Tensor]:
        """Return the state of all stacks by name."""
        parts = enumerate(stack.tensors() for stack in self.stacks)
        return {f"{i}.{name}": a for i, part in parts for name, a in part.items()}

    def save_if_due(self, epoch: int, seconds: float, required: bool = False) -> bool:
        """Write the checkpoint if it is due; return True if this process has written it."""
        due = required or epoch == self.job.config.epochs or epoch % self.job.checkpoint_every == 0
        due = due or seconds - self.seconds > UNSAVED_SECONDS
        if not due or distributed.rank() > 0:
            return False
        tensors = self.tensors()
        for name, a in tensors.items():
            # The last step may have diverged after a finite loss.
            if not a.isfinite().all():
                rule = f"expected finite values ({LOWER})"
                raise DivergedError(f"{rule}, got others in {name} after epoch {epoch}")
        done = dict(zip(STORED, (epoch, seconds, self.concurrent_jobs), strict=True))
        tensor_files.save(self.path, tensors, self.facts | done)
        self.epoch, self.seconds = epoch, seconds
        return True

    def save_runs(self) -> None:
        """Write a file for each run, as `one_run` selects the run from the checkpoint."""
        tensors = self.tensors()
        for run in self.job.runs:
            path = self.job.out / f"{run.name}.safetensors"
            tensor_files.save(path, *one_run(tensors, self.facts, run.name, str(self.path)))


def _load(path: Path, identity: dict[str, Any], stacks: list[Stack]) -> list[Any]:
    try:
        tensors, facts = tensor_files.load(path)
    except ValueError as error:
        raise ValueError(f"{error}; {START_AGAIN}") from None
    if isinstance(facts.get("config"), dict):
        # An older file lacks later settings; they had the value that is now the default.
        facts["config"] = json.loads(json.dumps(asdict(TrainConfig()))) | facts["config"]
    own = json.loads(json.dumps(identity))
    for part, value in own.items():
        if (other := facts.get(part)) != value:
            rule = f"expected the checkpoint of this job in {path}"
            if isinstance(value, dict) and isinstance(other, dict):
                other = ", ".join(f"{k} {v}" for k, v in other.items() if v != value.get(k))
            got = f"another in its {part}: {other}"
            raise ValueError(f"{rule}, got {got}; {START_AGAIN}")
    require_types(facts, STORED, f"in {path}")
    done: list[Any] = [facts.get(name) for name in STORED]
    epoch, seconds, _ = done
    if None in done or not 0 < epoch <= facts["config"]["epochs"] or not seconds >= 0:
        rule = f"expected epochs in (0, {facts['config']['epochs']}] and their seconds in {path}"
        raise ValueError(f"{rule}, got {epoch} and {seconds}; {START_AGAIN}")
    for i, stack in enumerate(stacks):
        prefix = f"{i}."
        stack.load({k.removeprefix(prefix): a for k, a in tensors.items() if k.startswith(prefix)})
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
    stack, index = divmod(names.index(name), facts["stack"])
    network, bank = f"{stack}.network.", f"{stack}.proco.bank."
    selected = {k.removeprefix(network): a for k, a in tensors.items() if k.startswith(network)}
    if facts["config"]["architecture"] == "resnet32":
        selected = {k: a[index] for k, a in selected.items()}
    for part in ("old", "new"):
        selected[f"bank.{part}"] = tensors[bank + part][index]
    kept = {key: facts[key] for key in ("config", "epoch", "class_names") if key in facts}
    return selected, kept | {"run": runs[name], "num_classes": len(selected["bank.old"])}


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
        tuples = {k: tuple(a) for k, a in settings.items() if isinstance(a, list)}
        config = TrainConfig(**{**settings, **tuples})
        run = Run(**about["run"]) if facts is None else None
        imbalance, classifier = config.imbalance if config.dataset in CIFAR else None, None
        if facts is not None:
            imbalance, classifier = facts["imbalance"], facts["classifier"]
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
