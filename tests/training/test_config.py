"""Settings of tab:training-hyperparameters, schedules, and refused values."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from resultant.classes import rule
from resultant.classes.rule import FAMILIES
from resultant.cli.main import main
from resultant.training import config
from resultant.training.config import CIFAR, PRESETS, ProbeConfig, Run, TrainConfig, preset
from resultant.training.job import Job
from resultant.vmf.estimators import OF_LENGTH

# tab:training-hyperparameters.
CIFAR_COLUMN = {
    "architecture": "resnet32",
    "dim": 128,
    "epochs": 200,
    "batch_size": 256,
    "learning_rate": 0.3,
    "momentum": 0.9,
    "weight_decay": 2e-4,
    "temperature": 0.1,
    "views": 2,
    "prior": 1.0,
    "alpha": 1.0,
    "contrastive_weight": 1.0,
}
IMAGENET_COLUMN = {
    "architecture": "resnet50",
    "dim": 1024,
    "epochs": 90,
    "batch_size": 256,
    "learning_rate": 0.1,
    "momentum": 0.9,
    "weight_decay": 5e-4,
    "temperature": 0.07,
    "views": 3,
    "prior": 1.0,
    "alpha": 1.0,
    "contrastive_weight": 1.0,
}


@pytest.mark.parametrize(
    ("name", "column"), [("cifar-controlled", CIFAR_COLUMN), ("imagenet-lt", IMAGENET_COLUMN)]
)
def test_table(name: str, column: dict[str, Any]) -> None:
    config = preset(name)
    assert {field: getattr(config, field) for field in column} == column
    assert Run().beta == 0


def test_controlled_comparison() -> None:
    """Contrastive learning alone, on two strong views, as in the paper's CIFAR runs."""
    config = preset("cifar-controlled")
    assert (config.objective, config.schedule, config.warmup) == ("contrastive", "cosine", 0)
    assert (config.dataset, config.imbalance, config.size) == ("cifar10", 100, 32)
    assert (config.estimator, config.leave_out, config.family) == ("proco", False, "linear")


def test_recipe_of_the_authors() -> None:
    config = preset("cifar-official")
    assert (config.objective, config.views, config.warmup) == ("joint", 3, 5)
    assert config.classifier_prior is None
    nature, images = preset("inaturalist18"), preset("imagenet-lt")
    assert (nature.learning_rate, nature.weight_decay) == (0.2, 1e-4)
    same = {f.name for f in fields(TrainConfig)} - {"dataset", "learning_rate", "weight_decay"}
    assert all(getattr(nature, name) == getattr(images, name) for name in same)
    assert (images.size, images.schedule, images.objective) == (224, "cosine", "joint")
    assert (images.warmup, images.clip, config.clip) == (0, 1.0, None)


def test_cosine() -> None:
    config = preset("cifar-controlled")
    for epoch in range(200):
        expected = 0.15 * (1 + math.cos(math.pi * epoch / 200))
        assert config.rate(epoch) == pytest.approx(expected, rel=1e-14)
    assert config.rate(0) == 0.3 and config.rate(100) == pytest.approx(0.15)


@pytest.mark.parametrize("warmup", [0, 5])
def test_cosine_of_the_larger_datasets(warmup: int) -> None:
    config = preset("imagenet-lt", warmup=warmup)
    for epoch in range(warmup, 90):
        part = (epoch - warmup + 1) / (90 - warmup + 1)
        expected = 0.05 * (1 + math.cos(math.pi * part))
        assert config.rate(epoch) == pytest.approx(expected, rel=1e-13)
    assert 0 < config.rate(89) < 1e-4
    assert [config.rate(e) for e in range(warmup)] == pytest.approx(
        [0.02, 0.04, 0.06, 0.08, 0.1][:warmup]
    )


def test_steps() -> None:
    config = preset("cifar-official")
    warm = [0.06, 0.12, 0.18, 0.24, 0.3]
    rates = [config.rate(epoch) for epoch in range(200)]
    assert rates == pytest.approx(warm + [0.3] * 155 + [0.03] * 20 + [0.003] * 20)
    long = preset("cifar-official", epochs=400, warmup=10, milestones=(0.9, 0.95))
    rates = [long.rate(epoch) for epoch in (9, 10, 359, 360, 379, 380, 399)]
    assert rates == pytest.approx([0.3, 0.3, 0.3, 0.03, 0.03, 0.003, 0.003])


CIFAR_RUN, IMAGES = partial(preset, "cifar-controlled"), partial(preset, "images")
JOB = partial(Job, config=TrainConfig(), runs=(Run(),), out=Path("out"))
# Settings that are refused, and the fact in the message.
REFUSED: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (CIFAR_RUN, {"epochs": 0}, "epochs >= 1, got 0"),
    (CIFAR_RUN, {"epochs": 2.5}, "epochs to be an integer, got 2.5"),
    (CIFAR_RUN, {"batch_size": True}, "batch_size to be an integer, got True"),
    (CIFAR_RUN, {"dim": 1}, "dim >= 2, got 1"),
    (CIFAR_RUN, {"size": 24}, "size 32 for cifar10, got 24"),
    (CIFAR_RUN, {"temperature": 1e-12}, "temperature >= 7.62939453125e-06, got 1e-12"),
    (CIFAR_RUN, {"temperature": math.inf}, "temperature to be a finite number, got inf"),
    (CIFAR_RUN, {"learning_rate": 0.0}, "learning_rate > 0, got 0"),
    (CIFAR_RUN, {"learning_rate": math.nan}, "learning_rate to be a finite number, got nan"),
    (CIFAR_RUN, {"momentum": 1.0}, "momentum < 1, got 1.0"),
    (CIFAR_RUN, {"momentum": -0.1}, "momentum >= 0, got -0.1"),
    (CIFAR_RUN, {"weight_decay": -1.0}, "weight_decay >= 0, got -1"),
    (CIFAR_RUN, {"alpha": "1"}, "alpha to be a finite number, got '1'"),
    (CIFAR_RUN, {"contrastive_weight": 0.0}, "contrastive_weight > 0 for the contrastive obj"),
    (
        partial(preset, "cifar-official"),
        {"contrastive_weight": 0.0, "alpha": 0.0},
        "contrastive_weight or alpha > 0 for the joint objective, got 0",
    ),
    (CIFAR_RUN, {"prior": None}, "prior to be a finite number, got None"),
    (CIFAR_RUN, {"classifier_prior": math.inf}, "classifier_prior to be a finite number, got inf"),
    (CIFAR_RUN, {"imbalance": 0.5}, "imbalance >= 1, got 0.5"),
    (CIFAR_RUN, {"subset": -1}, "subset >= 0, got -1"),
    (CIFAR_RUN, {"subset": 2**32}, "subset < 4294967296, got 4294967296"),
    (CIFAR_RUN, {"warmup": 200}, r"warmup in \[0, 200\), fewer than epochs, got 200"),
    (CIFAR_RUN, {"warmup": -1}, "warmup >= 0, got -1"),
    (CIFAR_RUN, {"milestones": (0.5, 1.0)}, r"shares in \(0, 1\), got \(0.5, 1.0\)"),
    (CIFAR_RUN, {"milestones": (0.5, math.nan)}, r"shares in \(0, 1\), got \(0.5, nan\)"),
    (CIFAR_RUN, {"milestones": [0.5]}, r"milestones to be a tuple of shares .* got \[0.5\]"),
    (CIFAR_RUN, {"milestones": (0.8, 0.8)}, r"milestones to ascend, got \(0.8, 0.8\)"),
    (CIFAR_RUN, {"leave_out": 1}, "leave_out to be True or False, got 1"),
    (CIFAR_RUN, {"classifier_views": 3}, r"classifier_views to be one of \(1, 2\), got 3"),
    (CIFAR_RUN, {"classifier_views": True}, r"one of \(1, 2\), got True"),
    (CIFAR_RUN, {"classifier_views": 1}, "only in joint .* got it with no classifier"),
    (partial(preset, "cifar-official"), {"classifier_views": 1}, "got it with a third view"),
    (CIFAR_RUN, {"architecture": 32}, "architecture to be a name, got 32"),
    (CIFAR_RUN, {"architecture": "resnet50"}, "got resnet50 for cifar10"),
    (CIFAR_RUN, {"dataset": "places-lt"}, "got resnet32 for places-lt"),
    (CIFAR_RUN, {"dataset": "mnist"}, "dataset to be one of .* got 'mnist'"),
    (CIFAR_RUN, {"family": "cubic"}, "family to be one of .* got 'cubic'"),
    (CIFAR_RUN, {"clip": 1.0}, "clip only for other datasets than CIFAR, got 1.0 for cifar10"),
    (CIFAR_RUN, {"long_tail": 10.0}, "long_tail only for other datasets than CIFAR"),
    (CIFAR_RUN, {"pretrained": True}, "pretrained only for other datasets than CIFAR"),
    (CIFAR_RUN, {"mean": (0.5,) * 3}, "mean only for other datasets than CIFAR"),
    (CIFAR_RUN, {"rate": 1, "tau": 1}, "fields of TrainConfig, got rate, tau"),
    (IMAGES, {"clip": 0.0}, "clip > 0, got 0.0"),
    (IMAGES, {"clip": True}, "clip to be a finite number, got True"),
    (IMAGES, {"contrastive_view": "autoaugment"}, "contrastive_view only for CIFAR, got auto"),
    (IMAGES, {"subset": 3}, "subset only for CIFAR, got 3 for images"),
    (IMAGES, {"imbalance": 50.0}, "imbalance only for CIFAR, got 50.0 for images"),
    (IMAGES, {"long_tail": 0.5}, "long_tail >= 1, got 0.5"),
    (IMAGES, {"subset_seed": -1}, "subset_seed >= 0, got -1"),
    (IMAGES, {"pretrained": 1}, "pretrained to be True or False, got 1"),
    (IMAGES, {"pretrained": True, "weights": "a.pth"}, r"pretrained or weights, got both: a\.pth"),
    (IMAGES, {"mean": (0.5, 0.5)}, r"mean to be three numbers, std > 0, got \(0.5, 0.5\)"),
    (IMAGES, {"std": (1.0, 0.0, 1.0)}, r"std to be three numbers, std > 0, got \(1.0, 0.0"),
    (partial(preset, "cifar"), {}, r"one of cifar-controlled, .* got 'cifar'"),
    (Run, {"realization": "exact"}, "realization to be one of .* got 'exact'"),
    (Run, {"seed": 1.0}, "seed to be an integer, got 1.0"),
    (Run, {"seed": 99999999999999999999}, "seed < 4294967296, got 99999999999999999999"),
    (Run, {"beta": math.inf}, "beta to be a finite number, got inf"),
    (JOB, {"runs": ()}, "one run or more, got none"),
    (JOB, {"runs": (Run(), Run("angular"), Run())}, "different runs, got native-seed0 twice"),
    (JOB, {"checkpoint_every": 0}, "checkpoint_every >= 1, got 0"),
    (JOB, {"stack": 0}, "stack >= 1, got 0"),
    (JOB, {"gradient_epochs": (1, 201)}, r"gradient epochs in \[1, 200\], got 201"),
    (
        JOB,
        {"config": TrainConfig(contrastive="supcon"), "runs": (Run("angular"),)},
        "native runs of supcon, which has no gains to edit, got angular-beta0",
    ),
    (ProbeConfig, {"seed": True}, "seed to be an integer, got True"),
    (ProbeConfig, {"momentum": "0.9"}, "momentum to be a finite number, got '0.9'"),
]


@pytest.mark.parametrize(("make", "changes", "message"), REFUSED)
def test_refused(make: Callable[..., Any], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(**changes)


def test_no_epochs_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    """The recipe has a warm-up, which is not the user's mistake."""
    assert main(["train", "cifar-official", "--epochs", "0"]) == 2
    assert "expected epochs >= 1, got 0" in capsys.readouterr().err


def test_limits_are_accepted() -> None:
    """The smallest and largest values."""
    ends: dict[str, Any] = {"temperature": 8e-6, "momentum": 0.0, "weight_decay": 0.0, "dim": 2}
    ends |= {"subset": 2**32 - 1, "imbalance": 1, "milestones": (), "prior": -1, "warmup": 199}
    config = preset("cifar-controlled", **ends)
    assert {name: getattr(config, name) for name in ends} == ends
    # Either loss alone can be learned in joint training.
    for name in ("alpha", "contrastive_weight"):
        assert getattr(preset("cifar-official", **{name: 0.0}), name) == 0


def test_choices_are_those_of_the_layers_below() -> None:
    for family in FAMILIES:
        assert preset("cifar-controlled", family=family).family == family
    for estimator in OF_LENGTH:
        assert preset("cifar-controlled", estimator=estimator).estimator == estimator
    assert {config.dataset for config in PRESETS.values()} >= {CIFAR[0], "imagenet-lt"}


def test_runs() -> None:
    assert Run("angular", 0.5, 3).name == "angular-beta0.5-seed3"
    assert Run("native", 0.5).name == "native-seed0"
    assert Run(seed=2**32 - 1).seed == 2**32 - 1
    assert config.REALIZATIONS == rule.REALIZATIONS
