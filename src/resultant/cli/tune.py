"""``resultant tune``: from a folder of pictures to a tuned network with a classifier."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

from tyro import conf

from resultant.cli import arguments
from resultant.cli.arguments import find_device, shown_default
from resultant.training.config import Realization, TuneConfig

DEFAULTS = TuneConfig()
# Options that are settings of the training.
SETTINGS = ("epochs", "patience", "batch_size", "accumulate", "learning_rate", "warmup")
SETTINGS += ("weight_decay", "averaging", "drop_path", "stages", "lora", "crop", "colour", "dim")
SETTINGS += ("temperature", "contrastive_weight", "alpha", "prior")


@dataclass(frozen=True)
class Tune:
    """Tune a pretrained network to your pictures, and fit a classifier.

    Fits a classifier to the features of the network as it comes, fine-tunes the network lightly,
    fits a classifier again, and keeps the best of all on validation images. The folder --out has
    the network, the classifier, and a page with the accuracies before and after; resultant predict
    reads it. If the command was interrupted, the same command continues.

    Examples:
      resultant tune --data FOLDER --model resnet50
      resultant tune --data FOLDER --model vit_small_patch14_dinov2 --size 224 --stages 4
    """

    model: str
    """A timm network, such as resnet50, hf_hub:timm/NAME, or local-dir:FOLDER."""
    weights: arguments.OptionalPath = None
    """File of weights of the network: safetensors, or a .pth of tensors alone."""
    pretrained: Annotated[
        bool, conf.arg(help_behavior_hint="(default: --weights, or the pretrained ones of timm)")
    ] = True
    """Begin with random weights."""
    size: Annotated[int, shown_default("INT", "as the network expects")] = 0
    """Height and width of the images."""
    image_set: arguments.ImageOptions = field(default_factory=arguments.ImageOptions)
    """The images."""
    out: Path = Path("out/tune")
    """Folder of the result; other files are left untouched."""
    validation: Annotated[Optional[float], shown_default("SHARE", "a tenth, of 500 at most")] = None
    """Share of the training images that choose, where there are no validation images."""
    epochs: int = DEFAULTS.epochs
    """Passes over the training images at most."""
    patience: int = DEFAULTS.patience
    """Epochs clearly behind the best accuracy on the validation images that end the training."""
    batch_size: Annotated[
        Optional[int], shown_default("INT", "128, or fewer so that an epoch has 32 steps")
    ] = None
    """Images per step of the optimizer; each has two views."""
    accumulate: int = DEFAULTS.accumulate
    """Parts of a batch that are computed one after another, for less memory."""
    learning_rate: float = DEFAULTS.learning_rate
    """Largest learning rate of AdamW, after the warm-up; it falls along a cosine."""
    warmup: Annotated[Optional[int], shown_default("INT", "1, or 0 of a single epoch")] = None
    """Epochs of linear growth to the learning rate."""
    weight_decay: float = DEFAULTS.weight_decay
    """Weight decay of AdamW."""
    averaging: float = DEFAULTS.averaging
    """Decay of the moving average of the weights, which is the network that is kept."""
    drop_path: float = DEFAULTS.drop_path
    """Largest share of the images for which a step skips a residual branch of the network."""
    stages: Annotated[Optional[int], shown_default("INT", "the whole network")] = None
    """Last stages of the network to train."""
    lora: Annotated[Optional[int], shown_default("RANK", "no adapters")] = None
    """Rank of adapters of the attention of a transformer, trained in place of the network."""
    crop: float = DEFAULTS.crop
    """Least share of an image that a view shows."""
    colour: float = DEFAULTS.colour
    """Strength of the random changes of colour in the views; 0 for none."""
    dim: int = DEFAULTS.dim
    """Dimension of the projection, which only the training uses."""
    temperature: float = DEFAULTS.temperature
    """tau of the contrastive scores."""
    contrastive_weight: float = DEFAULTS.contrastive_weight
    """Weight of the contrastive loss; 0 for the cross-entropy alone."""
    alpha: float = DEFAULTS.alpha
    """Weight of the logit-adjusted cross-entropy."""
    prior: float = DEFAULTS.prior
    """gamma, the coefficient of log pi_c in both losses."""
    realization: Realization = "angular"
    """Realization of the target gains in the contrastive scores."""
    beta: float = 0.0
    """Share of the differences between gains to keep; ignored by native and cosine."""
    seed: int = 0
    """Seed of the views and of the validation images."""
    references: Literal["none", "fast", "all"] = "fast"
    """Classifiers of scikit-learn to compare with on the features of the network as it comes."""
    precision: Literal["bf16", "float32"] = "bf16"
    """Precision of the network on a GPU; elsewhere it is float32."""
    log: arguments.Log = None
    """Send the metrics there too, by the package of that name."""
    device: arguments.Device = "auto"
    """auto, cpu, cuda or cuda:N."""
    workers: arguments.Workers = None
    """Number of threads that decode images."""


def tune(options: Tune) -> None:
    """Tune the network, and print the page."""
    from resultant.cli.arguments import shown
    from resultant.cli.progress import EpochProgress, PlainConsole
    from resultant.images.opening import open_images
    from resultant.training import tune as tuning
    from resultant.training.tune_steps import PAGE, Watch

    device, console = find_device(options.device), PlainConsole()
    log = PlainConsole(stderr=True)
    options.image_set.require_given()
    settings: dict[str, Any] = {name: getattr(options, name) for name in SETTINGS}
    settings |= {"size": options.size, "pretrained": options.pretrained}
    settings = {name: value for name, value in settings.items() if value is not None}
    # Wrong settings are found before any image is read.
    tuning.tune_config(options.model, options.weights, settings, options.precision)
    data = open_images(**options.image_set.source(), workers=options.workers)
    data = tuning.with_validation(data, options.validation, options.seed)
    shown(data, "images", log)
    with EpochProgress(log, "tune", options.epochs) as progress:
        watch = Watch(
            step=lambda text: progress.line(text),
            images=progress.decoding,
            epoch=progress,
            part=progress.tick,
            note=lambda text: progress.line(text),
        )
        try:
            result = tuning.tune(
                data,
                options.model,
                out=options.out,
                weights=options.weights,
                validation=options.validation,
                seed=options.seed,
                beta=options.beta,
                realization=options.realization,
                references=options.references,
                precision=options.precision,
                device=device,
                workers=options.workers,
                log=options.log,
                watch=watch,
                **settings,
            )
        except KeyboardInterrupt:
            raise KeyboardInterrupt("rerun the same command to resume") from None
    console.print(result.text, soft_wrap=True)
    console.print(f"page: {options.out / PAGE}")
