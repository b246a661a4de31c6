"""From a folder of pictures to a tuned network with a classifier: divide the images, check the
network and its settings, and take the steps of `tune_steps`. `resultant.predict` reads the folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from resultant._core import distributed
from resultant._core.files import lock_folder, make_folder, require_writable_folder
from resultant._core.text import counted
from resultant.features.naming import Location
from resultant.images.held_out import validation_images, without_trained
from resultant.images.opening import open_images
from resultant.images.source import ImageSplits
from resultant.training.adapters import require_adapters
from resultant.training.config import Run, TuneConfig
from resultant.training.extract import Precision, timm_network
from resultant.training.predict import Model, load_model
from resultant.training.trackers import require_tracker
from resultant.training.tune_steps import COUNTS, Tuning, Watch
from resultant.training.tuner import require_stages

# Steps of an epoch of few images, and the least batch size for them.
STEPS, LEAST = 32, 16
# Images that are enough to choose by: rare classes need the others.
VALIDATE = 500


@dataclass(frozen=True, eq=False)
class TuneResult:
    """A tuned network with its classifier, and what both reach.

    Attributes:
        out: The folder, which ``resultant predict`` reads.
        report: The numbers of ``tune.json``.
        text: The page ``tune.md``.
    """

    out: Path
    report: Mapping[str, Any]
    text: str

    @property
    def model(self) -> Model:
        """The model, whose ``predict`` takes pictures."""
        return load_model(self.out)


def tune(
    data: Location | ImageSplits,
    model: str,
    *,
    out: Location = "out/tune",
    weights: Location | None = None,
    validation: float | None = None,
    seed: int = 0,
    beta: float = 0.0,
    realization: str = "angular",
    references: str = "fast",
    precision: Precision = "bf16",
    device: torch.device | str = "cpu",
    workers: int | None = None,
    images: Mapping[str, Any] | None = None,
    log: str | None = None,
    watch: Watch | None = None,
    **settings: Any,
) -> TuneResult:
    """Fit a classifier to the features of a pretrained network, fine-tune the network, fit one
    again, and keep what is best on validation images.

    Args:
        data: Folder of class folders or of Parquet files, as for `resultant.images.open_images`, or
            splits.
        model: Network of timm, such as ``resnet50``, ``hf_hub:timm/NAME`` or ``local-dir:FOLDER``.
        out: Folder of the result; the same call continues an interrupted one.
        weights: File of the weights of the network; by default timm fetches them.
        validation: Share of the training images that choose, for data without validation images;
            by default a tenth, of at most 500 images, and one of each class of four or more.
        seed: Seed of the views, of the projection and of the validation images.
        beta, realization: Rule of the contrastive scores, see `ProCoLoss`.
        references: Classifiers of scikit-learn to compare with on the frozen features, as for
            `analyze`: ``none``, ``fast`` or ``all``.
        precision: ``bf16`` on a GPU, or ``float32``, as on all other devices.
        device: Device of the network.
        workers: Threads that decode images; by default one per core.
        images: Other arguments of `open_images`.
        log: ``tensorboard``, ``mlflow`` or ``wandb``: where the metrics go too.
        watch: Functions that are called with the progress.
        **settings: Settings of the training, see `resultant.training.config.TuneConfig`:
            ``epochs``, ``learning_rate``, ``stages``, ``contrastive_weight`` and so on.

    Returns:
        The result; its ``model`` predicts.

    Raises:
        ValueError: Images, network or settings do not fit.

    Example:
        >>> import resultant
        >>> result = resultant.tune("photos", "resnet50", epochs=10)  # doctest: +SKIP
        >>> result.model.predict("new_photos").to_pandas()  # doctest: +SKIP
    """
    out, device, watch = Path(out), torch.device(device), watch or Watch()
    if distributed.world_size() > 1:
        raise ValueError("expected one process, got several: resultant train images uses them")
    require_writable_folder(out)
    require_tracker(log)
    # Autocast is for GPUs.
    used: Precision = precision if device.type == "cuda" else "float32"
    config = tune_config(model, weights, settings, used)
    if not isinstance(data, ImageSplits):
        data = open_images(data, **{**(images or {}), "workers": workers})
    # A wrong name or file is found before the images are decoded.
    frozen = timm_network(
        config, pretrained=config.pretrained, weights=config.weights, size=config.size
    )
    config = frozen.config
    assert isinstance(config, TuneConfig)
    encoder: Any = frozen.network.encoder
    require_stages(encoder, config.stages)
    require_adapters(encoder, config.lora)
    if data.num_classes < 2:
        raise ValueError(f"expected two classes or more, got one: {data.class_names[0]}")
    run = Run(realization, beta, seed)
    data = with_validation(data, validation, seed)
    if "batch_size" not in settings:
        config = replace(config, batch_size=fitting_batch(config.batch_size, len(data.train)))
    make_folder(out)
    with lock_folder(out):
        steps = Tuning(out, data, config, run, frozen, device, used, workers, watch, log)
        return TuneResult(out, *steps.run_all(references))


def tune_config(
    model: str, weights: Location | None, settings: Mapping[str, Any], precision: Precision
) -> TuneConfig:
    """Return the settings of a fine-tuning."""
    chosen: dict[str, Any] = {"architecture": model, **settings}
    if weights is not None:
        chosen |= {"weights": str(weights), "pretrained": False}
    if chosen.get("epochs") == 1:
        chosen.setdefault("warmup", 0)
    chosen["precision"] = "bfloat16" if precision == "bf16" else "float32"
    return TuneConfig(**chosen)


def with_validation(data: ImageSplits, share: float | None, seed: int) -> ImageSplits:
    """Return training, validation and test images, none of them in two of these.

    Validation images come out of the training images where the data have none, or judge by them; by
    default a tenth, or `VALIDATE` images.
    """
    if share is None:
        share = min(0.1, VALIDATE / max(1, len(data.train)))
    if not 0 < share < 1:
        raise ValueError(f"expected validation in (0, 1), got {share}")
    test = data.test if data.test is not None else data.val
    if test is None:
        raise ValueError("expected held-out images, got training images alone")
    val, train = (data.val if data.test is not None else None), data.train
    if val is None:
        # Other hashes than those that held out the test images.
        held = validation_images(train, share, seed + 1_000_003)
        if not held.any():
            rule = "expected a class of four training images or more, to choose by"
            raise ValueError(f"{rule}, got {counted(len(train), 'image', 'images')}; give val")
        # Classes are head or tail by all their images.
        data = replace(data, about={**data.about, COUNTS: data.counts.tolist()})
        train, val = train.select(~held), train.select(held)
    splits = replace(data, train=train, val=val, test=test)
    known = np.concatenate([train.contents, val.contents])
    judged = without_trained(replace(splits, val=None, divided=False), known)
    chosen = without_trained(replace(splits, test=None, divided=False), train.contents)
    skipped = dict.fromkeys((*judged.skipped, *chosen.skipped))
    return replace(splits, val=chosen.val, test=judged.test, skipped=tuple(skipped))


def fitting_batch(most: int, images: int) -> int:
    """Return a batch size for `STEPS` steps per epoch or more, within `LEAST` and ``most``."""
    return max(min(most, images // STEPS), min(most, LEAST))
