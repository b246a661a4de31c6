"""Light fine-tuning of a pretrained network: the step of `loop.Trainer` with AdamW, a warm-up, a
cosine and a moving average of the weights, all of timm. The best average by validation is kept."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from resultant.analysis.metrics import mean_and_error
from resultant.images.evaluation import EvaluationView
from resultant.images.vision import vision_module
from resultant.training.adapters import adapt
from resultant.training.batches import Batches, mixed
from resultant.training.config import Run, TuneConfig
from resultant.training.evaluation import Rows
from resultant.training.job import Job, OnStep
from resultant.training.loop import Trainer
from resultant.training.precision import timed_convolutions

# Standard errors by which an epoch is clearly behind the best one.
CLEAR = 2.0
# State of AdamW per weight, all zero before the first step.
MOMENTS = ("step", "exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class TuneJob(Job):
    """A job of fine-tuning, with the view that the network is evaluated on."""

    view: EvaluationView | None = None

    def identity(self) -> dict[str, Any]:
        return super().identity() | {"view": None if self.view is None else asdict(self.view)}


class Tuner(Trainer):
    """Fine-tunes the network of a run; ``best`` are the weights of the epoch that is kept.

    Args:
        config, run, batches, counts, device: As for `Trainer`.
        directions: Directions [C, d] of the classes in the features of the pretrained network,
            from which the classifier starts.
        seen: Hashes of the images that the network keeps as those it knows; by default those that
            it is trained on.
        validation: Number of validation images.
    """

    config: TuneConfig
    total: Tensor
    # A run that takes minutes does not wait for torch.compile.
    compiled = False

    def __init__(
        self,
        config: TuneConfig,
        run: Run,
        batches: Batches,
        counts: Tensor,
        device: torch.device,
        directions: Tensor | None = None,
        seen: Tensor | None = None,
        validation: int = 0,
    ) -> None:
        super().__init__(config, run, batches, counts, device)
        self.seen = super().contents if seen is None else seen
        if directions is not None and self.network.classifier is not None:
            with torch.no_grad():
                self.network.classifier.weight.copy_(F.normalize(directions, dim=-1))
        timm = vision_module("timm")
        self.average = timm.utils.ModelEmaV3(
            self.network, decay=config.averaging, use_warmup=True
        ).requires_grad_(False)
        self.best = {n: a.clone() for n, a in self.average.module.state_dict().items()}
        # The best accuracy, the epoch that is kept, and the last epoch.
        self.record_of_best = torch.tensor([-1.0, 0.0, 0.0], dtype=torch.float64)
        # The correct predictions of the epoch of the best accuracy.
        self.right_of_best = torch.zeros(validation, dtype=torch.float64)
        self.scheduler = scheduler_of(self.optimizer, config, batches.steps)
        # The learning rate, which a CUDA graph reads from one place, and the finished steps.
        self.rate, self.steps_done = torch.zeros((), device=device), 0
        self.set_rate()

    def make_optimizer(self) -> torch.optim.Optimizer:
        freeze(self.network.encoder, self.config.stages)
        adapt(self.network.encoder, self.config.lora, self.run.seed)
        make: Any = vision_module("timm.optim").create_optimizer_v2
        gpu = self.device.type == "cuda"
        optimizer = make(
            self.network,
            opt="adamw",
            lr=self.config.learning_rate,
            weight_decay=self.config.weight_decay,
            fused=gpu,
            capturable=gpu,
        )
        for p in trained_parameters(self.network).values():
            moments = {"exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
            optimizer.state[p] = {"step": torch.zeros((), device=self.device), **moments}
        return optimizer

    def set_rate(self) -> None:
        """Set the learning rate of the next step."""
        self.scheduler.step_update(self.steps_done)
        groups = self.optimizer.param_groups
        self.rate.fill_(groups[0]["lr"])
        for group in groups:
            group["lr"] = self.rate

    def replay(self) -> None:
        self.set_rate()
        super().replay()
        self.steps_done += 1
        self.average.update(self.network, step=self.steps_done)

    def train_epoch(self, epoch: int, drawn: list[Tensor], on_step: OnStep = None) -> None:
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices), timed_convolutions():
            # Dropout follows from the seed and the epoch, as the views do.
            torch.manual_seed(mixed(self.run.seed, epoch))
            super().train_epoch(epoch, drawn, on_step)

    def start_epoch(self, epoch: int) -> None:
        self.epoch = epoch + 1
        self.total.zero_()
        self.contrastive.start_epoch()
        self.train_mode()

    def train_mode(self) -> None:
        super().train_mode()
        for module in self.network.encoder.modules():
            own = list(module.parameters())
            if own and not any(p.requires_grad for p in own):
                # The statistics of frozen layers stay too.
                module.eval()

    def record(self, epoch: int = 0) -> None:
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            super().record(epoch)

    @property
    def contents(self) -> Tensor:
        return self.seen

    def rows(self) -> Rows:
        (row,) = super().rows()
        return [{**row, "rate": float(self.rate)}]

    def validated(self, right: Tensor, weights: Tensor) -> None:
        """Keep the average of the weights unless its correct predictions [V] are clearly behind
        those of the best epoch: later epochs have lower rates, and few images choose by chance."""
        accuracy, most = float(right @ weights), float(self.record_of_best[0])
        gain, error = mean_and_error(right - self.right_of_best, weights)
        self.record_of_best[0], self.record_of_best[2] = max(most, accuracy), self.epoch
        if accuracy > most:
            self.right_of_best.copy_(right)
        if gain + CLEAR * error >= 0:
            self.record_of_best[1] = self.epoch
            for name, a in self.average.module.state_dict().items():
                self.best[name].copy_(a)

    @property
    def best_accuracy(self) -> float:
        return float(self.record_of_best[0])

    @property
    def best_epoch(self) -> int:
        return int(self.record_of_best[1])

    @property
    def stopped(self) -> bool:
        _, best, last = self.record_of_best.tolist()
        return last - best >= self.config.patience

    def optimizer_tensors(self) -> dict[str, Tensor]:
        state, tensors = self.optimizer.state, {}
        for name, p in trained_parameters(self.network).items():
            tensors |= {f"{part}.{name}": state[p][part] for part in MOMENTS}
        return tensors

    def load(self, tensors: dict[str, Tensor]) -> None:
        super().load(tensors)
        self.steps_done = int(next(iter(self.optimizer.state.values()))["step"])

    def tensors(self) -> dict[str, Tensor]:
        kept = {"average": self.average.module.state_dict(), "best": self.best}
        named = {f"0.{part}.{name}": a for part, own in kept.items() for name, a in own.items()}
        return (
            super().tensors()
            | named
            | {"0.best_epoch": self.record_of_best, "0.best_right": self.right_of_best}
        )


def trained_parameters(network: nn.Module) -> dict[str, nn.Parameter]:
    """Return the weights that are trained, by name."""
    return {name: p for name, p in network.named_parameters() if p.requires_grad}


def scheduler_of(optimizer: torch.optim.Optimizer, config: TuneConfig, steps: int) -> Any:
    """Return timm's schedule of the learning rate: a warm-up, then a cosine to zero."""
    make: Any = vision_module("timm.scheduler").create_scheduler_v2
    return make(
        optimizer,
        "cosine",
        num_epochs=config.epochs - config.warmup,
        warmup_epochs=config.warmup,
        warmup_lr=config.learning_rate / 100,
        warmup_prefix=True,
        step_on_epochs=False,
        updates_per_epoch=steps,
    )[0]


def require_stages(encoder: nn.Module, stages: int | None) -> None:
    """Raise unless an encoder of timm has so many stages."""
    if stages is not None and stages > (number := len(stage_parameters(encoder))):
        rule = f"expected stages of {number} or less, those of the network"
        raise ValueError(f"{rule}, got {stages}")


def freeze(encoder: nn.Module, stages: int | None) -> None:
    """Train only the last stages of an encoder of timm, all for None."""
    require_stages(encoder, stages)
    if stages is None:
        return
    frozen = {name for group in stage_parameters(encoder)[:-stages] for name in group}
    for name, p in encoder.named_parameters():
        p.requires_grad_(name not in frozen)


def stage_parameters(encoder: nn.Module) -> Sequence[Sequence[str]]:
    """Return the names of the weights of each stage in their order, the stem first."""
    group: Any = vision_module("timm.models").group_parameters
    matcher: Any = encoder.group_matcher
    groups = group(encoder, matcher(coarse=True))
    return [groups[k] for k in sorted(groups)]
