"""Settings of a training and of a run; importing this module loads no torch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import cache
from operator import ge, gt, lt
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeGuard, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from torch import Tensor

    from resultant.classes.rule import Rule

Channels = tuple[float, float, float]
# Mean and standard deviation of the channels, those of ImageNet unless a recipe has others.
IMAGENET_CHANNELS = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
RECIPE_CHANNELS = {
    "imagenet-lt": IMAGENET_CHANNELS,
    "inaturalist18": ((0.466, 0.471, 0.380), (0.195, 0.194, 0.192)),
}
WITHOUT_BETA = ("native", "cosine")
# As in `resultant.classes.rule`, which loads torch; settings and records do not need it.
Realization = Literal["native", "temperature", "preserve", "angular", "cosine"]
REALIZATIONS = get_args(Realization)

# Default folder of the records of trainings.
RESULTS = Path("results")
# Smallest temperature at which float32 scores can be compared (`resultant.class_scores`).
LEAST_TEMPERATURE = 2.0**-17
# Bound of seeds: a generator takes 64 bits, and the epoch is mixed in.
SEEDS = 2**32


# Rules of `number`, in words and as functions of a value and a bound.
BOUNDS = {"least": (">=", ge), "above": (">", gt), "below": ("<", lt)}


def number(default: float | None, **bounds: float) -> Any:
    """Return a setting that is a finite number within bounds, or None if that is the default."""
    return field(default=default, metadata={"bounds": bounds})


def require_bounds(settings: Any) -> None:
    """Raise a ValueError unless settings follow the bounds in their fields."""
    for f in fields(settings):
        value: Any = getattr(settings, f.name)
        name, bounds = f.name, f.metadata.get("bounds")
        if f.type == "bool" and not isinstance(value, bool):
            raise ValueError(f"expected {name} to be True or False, got {value!r}")
        if bounds is None or (value is None and f.default is None):
            continue
        if f.type == "int" and type(value) is not int:
            raise ValueError(f"expected {name} to be an integer, got {value!r}")
        if not is_number(value):
            raise ValueError(f"expected {name} to be a finite number, got {value!r}")
        for rule, bound in bounds.items():
            sign, holds = BOUNDS[rule]
            if not holds(value, bound):
                raise ValueError(f"expected {name} {sign} {bound}, got {value}")


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Settings of a training run, except its realization, beta and seed.

    The defaults train a network on any images; the recipes of other packages are subclasses.

    Example:
        >>> from resultant.training.config import TrainConfig
        >>> TrainConfig(architecture="resnet18", epochs=50).batch_size
        256
    """

    dataset: str = "images"
    """Name of the dataset, in records and errors."""
    long_tail: float | None = number(None, least=1)
    """n_max / n_min of a long-tailed subset of a balanced image dataset; None for all images."""
    subset_seed: int = number(0, least=0, below=SEEDS)
    """Seed that selects the images of the long-tailed subset."""
    architecture: str = "resnet50"
    """A network of timm, such as resnext50_32x4d."""
    pretrained: bool = False
    """Start from the pretrained weights of timm."""
    weights: str | None = None
    """File of initial weights of the encoder: safetensors, or a .pth of tensors alone."""
    dim: int = number(1024, least=2)
    """Dimension p of the projection."""
    size: int = number(0, least=0)
    """Height and width of a view; 0 for the size of the timm model's configuration."""
    mean: Channels | None = None
    """Mean of the channels; None for that of the recipe or the timm model's configuration."""
    std: Channels | None = None
    """Standard deviation of the channels; None as for mean."""
    objective: Literal["contrastive", "joint"] = "joint"
    """The contrastive loss alone, or joint with the loss of a classifier."""
    alpha: float = number(1.0, least=0)
    """Weight of the classification loss in joint training."""
    contrastive_weight: float = number(1.0, least=0)
    """Weight of the contrastive loss."""
    temperature: float = number(0.07, least=LEAST_TEMPERATURE)
    """tau of the contrastive scores."""
    prior: float = number(1.0)
    """gamma, the coefficient of log pi_c in the contrastive logits."""
    classifier_prior: float | None = number(None)
    """gamma of the classifier in joint training; as in the contrastive logits if None."""
    family: Literal["linear", "power"] = "linear"
    """Path of beta from equal gains to native gains: linear, or by powers."""
    estimator: Literal["proco", "mle", "banerjee"] = "proco"
    """Estimator of the concentrations from the lengths of the class means."""
    leave_out: bool = False
    """Leave a query out of its own class when it is scored."""
    classification_view: bool = True
    """Add a third view for the classifier; otherwise the classifier reads the other views."""
    classifier_views: Literal[1, 2] = 2
    """Number of contrastive views that the classifier reads without a third view."""
    epochs: int = number(90, least=1)
    """Passes over the training images."""
    batch_size: int = number(256, least=1)
    """Images per step, over all processes; each has two or three views."""
    accumulate: int = number(1, least=1)
    """Parts of a batch that are computed one after another, for less memory."""
    learning_rate: float = number(0.1, above=0)
    """Largest learning rate of the schedule."""
    momentum: float = number(0.9, least=0, below=1)
    """Momentum of SGD."""
    weight_decay: float = number(5e-4, least=0)
    """Weight decay of SGD."""
    schedule: Literal["cosine", "step"] = "cosine"
    """Decay of the learning rate: along a cosine, or by steps."""
    warmup: int = number(0, least=0)
    """Epochs of linear growth to the learning rate."""
    milestones: tuple[float, ...] = (0.8, 0.9)
    """Shares of the epochs at which the step schedule divides by ten."""
    clip: float | None = number(1.0, above=0)
    """Largest norm of the gradient."""
    precision: Literal["bfloat16", "float32"] = "bfloat16"
    """Precision of the network on a GPU; scores and statistics use float32 or more."""

    def __post_init__(self) -> None:
        for name, choices in choices_of(type(self)).items():
            if (got := getattr(self, name)) not in choices or isinstance(got, bool):
                raise ValueError(f"expected {name} to be one of {choices}, got {got!r}")
        require_bounds(self)
        for valid, rule, got in self.rules():
            if not valid:
                raise ValueError(f"expected {rule}, got {got}")

    def rules(self) -> Iterator[tuple[bool, str, object]]:
        """Yield the rules between settings: True if one holds, its words, and what was given."""
        joint = self.objective == "joint"
        where = "a third view" if self.classification_view else "no classifier"
        rule = "classifier_views 1 only in joint training without a third view"
        third = self.classification_view or not joint
        yield self.classifier_views == 2 or not third, rule, f"it with {where}"
        for name, text in (("dataset", self.dataset), ("architecture", self.architecture)):
            yield isinstance(text, str), f"{name} to be a name", repr(text)
        weights = ("contrastive_weight", "alpha")[: 1 + joint]
        rule = f"{' or '.join(weights)} > 0 for the {self.objective} objective"
        yield any(getattr(self, name) for name in weights), rule, 0
        rule = f"accumulate of {self.batch_size} or less, the batch size"
        yield self.accumulate <= self.batch_size, rule, self.accumulate
        both = self.pretrained and self.weights is not None
        yield not both, "pretrained or weights", f"both: {self.weights}"
        for name, value in (("mean", self.mean), ("std", self.std)):
            three = isinstance(value, tuple) and len(value) == 3 and all(map(is_number, value))
            valid = value is None or (three and (name == "mean" or min(value) > 0))
            yield valid, f"{name} to be three numbers, std > 0", value
        rule = f"warmup in [0, {self.epochs}), fewer than epochs"
        yield self.warmup < self.epochs, rule, self.warmup
        shares = self.milestones
        valid = isinstance(shares, tuple) and all(is_number(a) and 0 < a < 1 for a in shares)
        yield valid, "milestones to be a tuple of shares in (0, 1)", shares
        yield list(shares) == sorted(set(shares)), "milestones to ascend", shares

    @property
    def channels(self) -> tuple[Channels, Channels]:
        """Mean and standard deviation of the channels."""
        mean, std = RECIPE_CHANNELS.get(self.dataset, IMAGENET_CHANNELS)
        return self.mean or mean, self.std or std

    @property
    def views(self) -> int:
        """Views of an image in a step; without a classifier nothing reads a third one."""
        return 3 if self.classification_view and self.objective == "joint" else 2

    def rate(self, epoch: int) -> float:
        """Return the learning rate of an epoch."""
        if epoch < self.warmup:
            return self.learning_rate * (epoch + 1) / self.warmup
        if self.schedule == "step":
            passed = sum(epoch >= share * self.epochs for share in self.milestones)
            return self.learning_rate * 0.1**passed
        done, of = epoch - self.warmup + 1, self.epochs - self.warmup + 1
        return self.learning_rate / 2 * (1 + math.cos(math.pi * done / of))


@dataclass(frozen=True, kw_only=True)
class TuneConfig(TrainConfig):
    """Settings of the light fine-tuning of a pretrained network, by AdamW."""

    architecture: str = ""
    """A network of timm, such as resnet50, hf_hub:timm/NAME, or local-dir:FOLDER."""
    pretrained: bool = True
    """Start from the pretrained weights of timm."""
    dim: int = number(256, least=2)
    """Dimension p of the projection, which only the training uses."""
    classification_view: bool = False
    """Add a third view for the classifier; otherwise the classifier reads the other views."""
    epochs: int = number(20, least=1)
    """Passes over the training images at most."""
    patience: int = number(5, least=1)
    """Epochs clearly behind the best accuracy on the validation images that end the training."""
    batch_size: int = number(128, least=1)
    """Images per step of the optimizer; each has two views."""
    learning_rate: float = number(3e-4, above=0)
    """Largest learning rate, after the warm-up; it falls along a cosine."""
    warmup: int = number(1, least=0)
    """Epochs of linear growth to the learning rate."""
    weight_decay: float = number(0.05, least=0)
    """Weight decay of AdamW."""
    averaging: float = number(0.998, least=0, below=1)
    """Decay of the moving average of the weights, which is the network that is kept."""
    drop_path: float = number(0.2, least=0, below=1)
    """Stochastic depth: the largest share of the images for which a step skips a residual branch,
    in networks of timm that have it."""
    stages: int | None = number(None, least=1)
    """Last stages of the encoder to train; None for the whole network."""
    lora: int | None = number(None, least=1)
    """Rank of low-rank adapters of the attention of a transformer, which are trained in place of
    the encoder; None for no adapters."""
    crop: float = number(0.25, above=0)
    """Least share of an image that a view shows."""
    colour: float = number(1.0, least=0)
    """Strength of the random changes of colour in the views; 0 for none."""

    def rules(self) -> Iterator[tuple[bool, str, object]]:
        yield from super().rules()
        yield self.crop <= 1, "crop in (0, 1]", self.crop
        yield self.lora is None or self.stages is None, "lora or stages", "both"
        yield self.colour <= 2, "colour in [0, 2]", self.colour


@cache
def choices_of(kind: type[TrainConfig]) -> dict[str, tuple[Any, ...]]:
    """Return the values of the settings that are one of several."""
    hints = get_type_hints(kind).items()
    return {name: get_args(hint) for name, hint in hints if get_origin(hint) is Literal}


@dataclass(frozen=True)
class Run:
    """Realization, beta and seed of a training run."""

    realization: str = "native"
    beta: float = number(0.0)
    seed: int = number(0, least=0, below=SEEDS)

    def __post_init__(self) -> None:
        if self.realization not in REALIZATIONS:
            rule = f"expected realization to be one of {REALIZATIONS}"
            raise ValueError(f"{rule}, got {self.realization!r}")
        require_bounds(self)

    def rule(self, config: TrainConfig, offset: Tensor | None = None) -> Rule:
        """Return the rule of the run's scores, with an offset [C] of the logits."""
        from resultant.classes.rule import Rule

        return Rule(config.temperature, self.realization, self.beta, config.family, offset)

    @property
    def name(self) -> str:
        strength = "" if self.realization in WITHOUT_BETA else f"-beta{self.beta:g}"
        return f"{self.realization}{strength}-seed{self.seed}"


def is_number(value: object) -> TypeGuard[float]:
    """Return True for a finite int or float, False for a bool."""
    # math.isfinite fails for integers beyond all floats.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf
