"""The steps of a fine-tuning: features of the pretrained network, a head, the training, features
and heads of the tuned network, the choice by validation images, the files.

Every step that a rerun would repeat is on the disk.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from resultant._core import tensor_files
from resultant._core.device import device_of, versions
from resultant._core.files import write_text
from resultant.analysis.choose import choose
from resultant.analysis.fit import fit
from resultant.analysis.read import ready
from resultant.analysis.split import Settings, choose_metric, plan, row_weights
from resultant.features.prepare import prepare
from resultant.features.store import FeatureStore
from resultant.images.evaluation import source_views
from resultant.images.photo_views import PhotoView
from resultant.images.source import ImageSplits, require_whole
from resultant.images.store import ImageStore, OnImages, delete_stores, open_store
from resultant.training.adapters import merged
from resultant.training.batches import Batches
from resultant.training.checkpoints import LoadedNetwork, load_network, save_network
from resultant.training.config import Run, TuneConfig
from resultant.training.encoder import build, name_in_timm
from resultant.training.evaluation import network_outputs
from resultant.training.extract import Precision, extract
from resultant.training.heads import Head, best_head, compared, head, own_head, refined
from resultant.training.job import Progress
from resultant.training.loop import train
from resultant.training.network_files import BEST, CLASSIFIER, NETWORK
from resultant.training.page import markdown
from resultant.training.predict import SCALE
from resultant.training.tuner import TuneJob, Tuner

# Files in the folder of a tuned network; `NETWORK` and `CLASSIFIER` are those that predict.
FROZEN, TUNED, RESULTS, PAGE = "frozen.safetensors", "tuned.safetensors", "tune.json", "tune.md"
TRAINING, STORE = "training", "store"
# The entry of `ImageSplits.about` with the training images per class before some validate.
COUNTS = "counts"


@dataclass(frozen=True)
class Watch:
    """Functions that are called with the progress of `tune`."""

    step: Callable[[str], object] = lambda text: None  # with the name of each step
    images: OnImages = lambda done, total: None  # with the finished images of a step
    epoch: Callable[[Progress], object] | None = None  # after an epoch
    part: Callable[[float], object] | None = None  # with the finished share of an epoch
    note: Callable[[str], object] | None = None  # with sentences


@dataclass(eq=False)
class Tuning:
    """A network that is tuned: its images and settings, and the steps in their order."""

    out: Path
    data: ImageSplits
    config: TuneConfig
    run: Run
    frozen: LoadedNetwork
    device: torch.device
    precision: Precision
    workers: int | None
    watch: Watch
    log: str | None
    seconds: dict[str, float] = field(default_factory=dict)
    # Classes of too few images for `analyze`.
    unknown: list[str] = field(default_factory=list)

    @cached_property
    def labels(self) -> dict[str, Tensor]:
        """The classes of the held-out images."""
        return {n: torch.from_numpy(s.labels) for n, s in self.data.held_out_splits.items()}

    def run_all(self, references: str) -> tuple[dict[str, Any], str]:
        """Take the steps, and write the folder; return the numbers and the page."""
        before = self.timed("features", self.features, self.frozen, FROZEN, "frozen network")
        heads = [self.timed("head", self.head, "frozen", self.frozen, before, references)]
        trained = self.timed("fine-tuning", self.train, before)
        network = self.tuned_network(trained)
        after = self.timed("tuned features", self.features, network, TUNED, "tuned network")
        heads.append(own_head(network, after, self.device))
        heads.append(self.timed("tuned head", self.head, "head", network, after, "none"))
        self.watch.step("fit refined classes")
        heads.append(self.timed("refined head", refined, network, after, self.names))
        chosen = best_head(heads, self.weights("val"))
        self.write(chosen)
        report = json.loads(json.dumps(self.report(heads, chosen, trained), allow_nan=False))
        text = markdown(report)
        write_text(self.out / PAGE, text)
        write_text(self.out / RESULTS, json.dumps(report, indent=2) + "\n")
        return report, text

    def timed(self, name: str, step: Callable[..., Any], *given: Any) -> Any:
        """Take a step and note its seconds."""
        began = time.perf_counter()
        result = step(*given)
        self.seconds[name] = time.perf_counter() - began
        return result

    def features(self, network: LoadedNetwork, name: str, title: str) -> FeatureStore:
        """Return the features of all images, from an earlier call if nothing has changed."""
        self.watch.step(f"features of the {title}")
        path, sources = self.out / name, {"train": self.data.train, **self.data.held_out_splits}
        state = {n: a.contiguous().cpu() for n, a in network.network.state_dict().items()}
        made_of = {
            "images": {split: source.digest for split, source in sources.items()},
            "network": tensor_files.checksum(state, json.dumps(asdict(network.view))),
            "precision": self.precision,
        }
        if path.exists():
            store = FeatureStore.open(path, features="encoder")
            if store.metadata.get("made_of") == made_of:
                return store
        extract(
            network,
            replace(self.data, about={"made_of": made_of}),
            path,
            dtype="float32",
            precision=self.precision,
            device=self.device,
            workers=self.workers,
            progress=self.watch.images,
        )
        return FeatureStore.open(path, features="encoder")

    def head(self, key: str, network: LoadedNetwork, store: FeatureStore, references: str) -> Head:
        """Fit a classifier to features, as `resultant analyze` chooses it on training rows."""
        prepared = replace(prepare(store, seed=self.run.seed), val=None)
        (data,) = ready(prepared, str(self.out), seed=self.run.seed)
        settings = Settings(
            references=references, metric=self.metric, device=self.device, theory=False
        )
        rows = plan(data, settings)
        candidates = fit(data, rows, settings, self.watch.step)
        used = choose(candidates, rows).used
        one = next(c for c in candidates if c.key == used)
        self.unknown = sorted(set(self.data.class_names).difference(data.class_names))
        # The names of the folders, also where they are numbers.
        one.model.classes_ = np.array(data.class_names)
        refits = one.rows == len(data.fitted)
        return head(key, one.name, network, store, self.names, one.model, refits)

    @property
    def names(self) -> np.ndarray:
        """The names [C] of the classes."""
        return np.array(self.data.class_names)

    def train(self, before: FeatureStore) -> Tuner:
        """Fine-tune the network, or continue."""
        self.watch.step("fine-tune the network")
        data, config, view = self.data, self.config, self.frozen.view
        job = TuneJob(
            config,
            (self.run,),
            self.out / TRAINING,
            checkpoint_every=1,
            class_names=data.class_names,
            view=view,
            log=self.log,
        ).on(self.device)
        assert isinstance(job.config, TuneConfig)
        config = whole_batch(job.config, len(data.train))
        job = replace(job, config=config)
        # Networks see the filter: trained on pictures of another one, they are tested on others.
        of_view = {"interpolation": view.interpolation}

        def decoded() -> ImageStore:
            require_whole([self.val], self.workers)
            options = view.short_side, self.workers, self.watch.images, self.watch.note
            return open_store(data.train, self.out / STORE, *options, **of_view)

        batches = Batches(
            data.train,
            decoded,
            [tuned_view(config)] * config.views,
            self.run.seed,
            config.batch_size,
            config.channels,
            getattr(torch, config.precision),
            self.device,
            note=self.watch.note,
            **of_view,
        )
        tuner = Tuner(
            config,
            self.run,
            batches,
            data.counts,
            self.device,
            self.directions(before),
            self.known,
            len(self.val),
        )
        rows, y = torch.arange(len(self.val)), self.labels["val"]

        def validate(epoch: int, lines: Any) -> None:
            network: Any = tuner.average.module
            views = source_views(self.val, view, config.channels, self.device, self.workers, rows)
            parts = network_outputs(network, views, self.device, tuner.autocast)
            predicted = torch.cat([part.logits.argmax(-1).cpu() for part in parts])
            right = (predicted == y).double()
            tuner.validated(right, self.weights("val"))
            lines[0].update(accuracy=float(right @ self.weights("val")))

        try:
            with device_of(tuner.total):
                train(job, tuner, (validate,), self.watch.epoch, self.watch.part)
        finally:
            batches.close()
        delete_stores(self.out / STORE)
        return tuner

    @property
    def val(self) -> Any:
        """The validation images."""
        assert self.data.val is not None, "with_validation before"
        return self.data.val

    @property
    def counts(self) -> Tensor:
        """Number of images [C] per class, which train or validate."""
        return torch.tensor(self.data.about.get(COUNTS, self.data.counts.tolist()))

    @property
    def metric(self) -> str:
        """The metric that chooses: balanced accuracy where classes are unequal."""
        return choose_metric(self.data, None)[0]  # type: ignore[arg-type]

    def weights(self, split: str) -> Tensor:
        """Return weights [N] of images whose mean of correct predictions is the metric."""
        return row_weights(self.labels[split], self.metric)

    def directions(self, store: FeatureStore) -> Tensor:
        """Return the directions [C, d] of the classes in the features."""
        z = F.normalize(store["train/encoder"].float(), dim=-1)
        sums = z.new_zeros(self.data.num_classes, z.shape[1])
        return sums.index_add_(0, store["train/labels"].long(), z).to(self.device)

    def tuned_network(self, tuner: Tuner) -> LoadedNetwork:
        """Write the best network of the training, and load it."""
        path = self.out / TRAINING / BEST
        self.save_network(path, merged(tuner.best), tuner.config, tuner.best_epoch)
        return load_network(path)

    def save_network(
        self,
        path: Path,
        weights: Mapping[str, Tensor],
        config: TuneConfig,
        epoch: int,
        facts: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Write the file of a network, which names the images it knows."""
        names, view = self.data.class_names, self.frozen.view
        # Where the network came from, a folder or the hub, is not needed any more.
        config = replace(config, architecture=self.architecture)
        save_network(path, weights, config, self.run, epoch, names, self.known, view=view, **facts)

    @cached_property
    def architecture(self) -> str:
        """The name of the network in timm."""
        encoder: Any = self.frozen.network.encoder
        return name_in_timm(self.config.architecture, encoder, self.config.size)

    @property
    def known(self) -> Tensor:
        """Hashes of the images that the network was trained on or chosen by."""
        contents = self.data.train.contents, self.val.contents
        return torch.from_numpy(np.concatenate(contents))

    def write(self, chosen: Head) -> None:
        """Write the network and the classifier that predict."""
        file = self.out / CLASSIFIER
        known: Any = chosen.network.network
        weights = known.state_dict()
        if chosen.key == "frozen":
            # The projection of the format, which nothing reads here.
            network = build(self.config, self.run.seed, None)
            network.encoder.load_state_dict(known.encoder.state_dict())
            weights = network.state_dict()
        if chosen.classifier is None:
            file.unlink(missing_ok=True)
        config = chosen.network.config if chosen.key != "frozen" else self.config
        epoch = int(chosen.network.about.get("epoch", 0))
        facts = {} if chosen.scale is None else {SCALE: chosen.scale}
        self.save_network(self.out / NETWORK, weights, config, epoch, facts)  # type: ignore[arg-type]
        if chosen.classifier is not None:
            chosen.classifier.save(file)

    def report(self, heads: list[Head], chosen: Head, tuner: Tuner) -> dict[str, Any]:
        """Return all numbers as JSON types."""
        gpu, (_, best, last) = self.device.type == "cuda", tuner.record_of_best.tolist()
        sizes = {"train": self.data.train, **self.data.held_out_splits}
        return {
            "model": self.config.architecture,
            "chosen": chosen.key,
            "metric": self.metric,
            "classes": self.data.num_classes,
            "counts": [int(self.counts.min()), int(self.counts.max())],
            "images": {name: len(source) for name, source in sizes.items()},
            "left_out": list(self.data.skipped),
            "unknown": self.unknown,
            "methods": compared(heads, self.labels["test"], self.counts, self.weights("val")),
            "epochs": {"trained": int(last), "best": int(best), "most": tuner.config.epochs},
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
            "device": str(self.device),
            "gpu_bytes": torch.cuda.max_memory_allocated(self.device) if gpu else None,
            "config": asdict(tuner.config),
            "run": asdict(self.run),
            "versions": versions(self.device),
        }


def tuned_view(config: TuneConfig) -> PhotoView:
    """Return the random view of a fine-tuning."""
    view = PhotoView(size=config.size, scale=(config.crop, 1.0))
    brightness, contrast, saturation, hue = (config.colour * a for a in view.jitter)
    jitter = brightness, contrast, saturation, hue
    return replace(view, jitter=jitter, p_grey=config.colour * view.p_grey)


def whole_batch(config: TuneConfig, images: int) -> TuneConfig:
    """Return the settings with batches of all images where they are fewer than a batch."""
    return replace(config, batch_size=min(config.batch_size, images))
