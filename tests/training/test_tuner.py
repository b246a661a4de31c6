"""The step, the schedule and the kept epoch of a fine-tuning, against plain loops; and the choice
between classifiers of features."""

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from resultant import LogitAdjustedCrossEntropy, ProCoLoss
from resultant.images.photo_views import COLUMNS
from resultant.training import tune as tuning, tune_steps
from resultant.training.batches import mixed
from resultant.training.config import Run, TuneConfig
from resultant.training.encoder import build, timm_encoder
from resultant.training.heads import Head, best_head
from resultant.training.tuner import Tuner, freeze, stage_parameters

CONFIG = TuneConfig(
    architecture="test_vit",
    pretrained=False,
    size=160,
    dim=8,
    epochs=3,
    batch_size=6,
    precision="float32",
    clip=1e9,
)
STEPS, N, C = 2, 6, 3


def tuner_of(
    config: TuneConfig, images: int = 0, kind: type[Tuner] = Tuner, place: str = "cpu"
) -> Tuner:
    """A tuner on one batch that comes again and again, with some validation images."""
    device, generator = torch.device(place), torch.Generator().manual_seed(0)
    x = torch.randn(2 * N, 3, config.size, config.size, generator=generator).to(device)
    y = (torch.arange(N) % C).to(device)
    source = SimpleNamespace(digest="", contents=np.arange(N))
    batches: Any = SimpleNamespace(
        steps=STEPS, source=source, batch=lambda: (x, y), load=lambda drawn: None, advance=id
    )
    batches.advance = lambda: None
    batches.rehearse = lambda epoch: None
    counts = torch.tensor([4, 2, 1])
    return kind(config, Run("angular"), batches, counts, device, validation=images)


def require_same(got: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """Equal up to rounding, but for weights whose gradient is zero: AdamW magnifies its noise."""
    assert got.keys() == expected.keys()
    for name, a in expected.items():
        rows = torch.ones(len(a) if a.ndim else 1, dtype=torch.bool)
        if name.endswith("qkv.bias"):
            # A softmax is the same with any bias of the keys.
            rows[len(a) // 3 : 2 * len(a) // 3] = False
        if name in ("projector.0.bias", "projector.1.running_mean"):
            # Normalization takes it away.
            continue
        one, other = (b.reshape(len(rows), -1)[rows] for b in (got[name], a))
        torch.testing.assert_close(one, other, rtol=1e-3, atol=2e-6, msg=name)


def test_steps_are_those_of_a_plain_loop() -> None:
    """AdamW without decay of biases, a warm-up and a cosine, stochastic depth, an average with a
    warm-up."""
    tuner = tuner_of(CONFIG)
    network = build(CONFIG, 0, C, initial_weights=True)
    # Positions have no decay, by the rule of the network itself.
    free = {f"encoder.{name}" for name in network.encoder.no_weight_decay()}
    assert "encoder.pos_embed" in free
    rule = {n: p.ndim > 1 and n not in free for n, p in network.named_parameters()}
    decayed = [p for n, p in network.named_parameters() if rule[n]]
    others = [p for n, p in network.named_parameters() if not rule[n]]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.05}, {"params": others, "weight_decay": 0.0}]
    )
    proco = ProCoLoss(
        num_classes=C,
        dim=8,
        temperature=0.07,
        realization="angular",
        class_counts=[4, 2, 1],
        estimator="proco",
    )
    entropy = LogitAdjustedCrossEntropy([4, 2, 1])
    average = {n: a.clone() for n, a in network.state_dict().items()}
    rates = [3e-6, 3e-6 + (3e-4 - 3e-6) / 2]
    rates += [1.5e-4 * (1 + np.cos(np.pi * k / 4)) for k in range(4)]
    x, y = tuner.batches.batch()
    for number, rate in enumerate(rates):
        if number % STEPS == 0:
            tuner.train_epoch(number // STEPS, [])
            proco.start_epoch()
            # The branches that are skipped follow from seed and epoch.
            torch.manual_seed(mixed(0, number // STEPS))
        for group in optimizer.param_groups:
            group["lr"] = rate
        outputs = network.train()(x)
        views, logits = (a.view(2, N, -1) for a in (outputs.projection, outputs.logits))
        loss = proco(views, y) + entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        decay = min(0.998, 1 - (1 + number) ** (-2 / 3)) if number else 0.0
        for name, a in network.state_dict().items():
            mean = decay * average[name] + (1 - decay) * a
            average[name] = mean if a.is_floating_point() else a.clone()
    require_same(tuner.network.state_dict(), network.state_dict())
    require_same(tuner.average.module.state_dict(), average)


@pytest.mark.gpu
@pytest.mark.parametrize("stages", [None, 2])
@pytest.mark.parametrize("name", ["test_resnet", "test_vit"])
def test_a_graph_takes_the_steps_of_the_plain_loop(name: str, stages: int | None) -> None:
    """With the branches that are skipped by chance, and after a checkpoint."""
    config = replace(CONFIG, architecture=name, stages=stages)
    plain, graph = (tuner_of(config, place="cuda") for _ in range(2))
    graph.record()
    assert graph.graph is not None
    for epoch in range(2):
        for tuner in (plain, graph):
            tuner.train_epoch(epoch, [])
        (one,), (other,) = plain.rows(), graph.rows()
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-4)
        assert one["rate"] == other["rate"]
    later = tuner_of(config, place="cuda")
    later.load({name: a.clone() for name, a in graph.tensors().items()})
    later.record()
    for tuner in (plain, graph, later):
        tuner.train_epoch(2, [])
    # Weights whose gradient is noise follow the order of sums on a GPU; losses do not.
    losses = [tuner.rows()[0]["loss"] for tuner in (plain, graph, later)]
    assert losses == pytest.approx(losses[:1] * 3, rel=1e-3)
    assert [tuner.steps_done for tuner in (plain, graph, later)] == [3 * STEPS] * 3


def test_accumulated_parts_are_the_whole_batch() -> None:
    """Without layers that read the batch or skip by chance, up to rounding; uneven parts too."""
    config = replace(CONFIG, contrastive_weight=0.0, epochs=2, drop_path=0.0)
    weights = []
    for parts in (1, 4):
        tuner = tuner_of(replace(config, accumulate=parts))
        for network in (tuner.network, tuner.average.module):
            # Its weights stay where the optimizer knows them.
            network.projector[1].forward = torch.nn.Identity().forward
        tuner.train_epoch(0, [])
        weights.append((tuner.network.state_dict(), tuner.rows()[0]["loss"]))
    (whole, loss), (accumulated, other) = weights
    assert loss == pytest.approx(other, rel=1e-5)
    require_same(accumulated, whole)


@pytest.mark.parametrize("name", ["test_resnet", "test_vit"])
def test_the_last_stages_alone(name: str) -> None:
    config = replace(CONFIG, architecture=name, stages=2, dim=8)
    tuner = tuner_of(config)
    before = {n: a.clone() for n, a in tuner.network.encoder.state_dict().items()}
    tuner.train_epoch(0, [])
    after = tuner.network.encoder.state_dict()
    moved = {n for n, a in after.items() if not torch.equal(a, before[n])}
    stages = stage_parameters(tuner.network.encoder)
    trained = {n for stage in stages[-2:] for n in stage}
    assert trained <= moved
    # Statistics of frozen layers stay; those of trained ones are no weights.
    rest = moved - trained
    prefixes = tuple(n.rpartition(".")[0] for n in trained)
    assert all(n.startswith(prefixes) for n in rest)
    assert sum(map(len, stages)) == len(list(tuner.network.encoder.parameters()))
    with pytest.raises(ValueError, match=f"expected stages of {len(stages)} or less"):
        freeze(timm_encoder(name), len(stages) + 1)


def test_the_last_epoch_is_kept_that_is_not_clearly_behind() -> None:
    """By two standard errors of the paired difference to the best epoch; others end the training.

    Nine of ten images right in the best epoch: 6 of them are 3 behind, which is 2.07 errors of
    sqrt(3 * .7^2 + 7 * .3^2) / 10 = .145, and 7 are 2 behind, 1.58 errors of .126."""
    tuner, weights = tuner_of(replace(CONFIG, patience=2), images=10), torch.full((10,), 0.1)
    kept = []
    for epoch, right in enumerate((4, 9, 9, 7, 6, 8, 6, 5)):
        tuner.epoch = epoch + 1
        with torch.no_grad():
            next(tuner.average.module.parameters()).fill_(epoch)
        assert not tuner.stopped
        tuner.validated((torch.arange(10) < right).double(), weights.double())
        kept.append(int(next(iter(tuner.best.values())).flatten()[0]))
    assert kept == [0, 1, 2, 3, 3, 5, 5, 5]
    assert tuner.stopped and tuner.best_epoch == 6 and tuner.best_accuracy == pytest.approx(0.9)
    other = tuner_of(replace(CONFIG, patience=2), images=10)
    other.load({name: a.clone() for name, a in tuner.tensors().items()})
    assert other.stopped and other.best_epoch == 6
    # As the best epoch, of which the checkpoint keeps the predictions.
    other.epoch = 9
    other.validated((torch.arange(10) < 9).double(), weights.double())
    assert not other.stopped and other.best_epoch == 9


def test_the_classifier_starts_at_the_classes() -> None:
    directions = torch.randn(C, 64)
    tuner = tuner_of(CONFIG)
    other = Tuner(
        CONFIG, Run(), tuner.batches, torch.tensor([4, 2, 1]), torch.device("cpu"), directions
    )
    assert other.network.classifier is not None
    torch.testing.assert_close(other.network.classifier.weight, F.normalize(directions, dim=1))


@pytest.mark.parametrize(
    ("images", "expected"), [(50_000, 128), (4096, 128), (1000, 31), (600, 18), (200, 16), (9, 16)]
)
def test_few_images_have_small_batches(images: int, expected: int) -> None:
    """32 steps per epoch where 128 images per step would leave fewer, and 16 images at least."""
    assert tuning.fitting_batch(128, images) == expected
    assert tune_steps.whole_batch(replace(CONFIG, batch_size=expected), images).batch_size <= images


def test_colour_scales_the_changes_of_views() -> None:
    """0 leaves the pixels of a crop as they are, by every parameter drawn; 2 is the most."""
    plain = tune_steps.tuned_view(replace(CONFIG, colour=0.0))
    view = tune_steps.tuned_view(replace(CONFIG, colour=0.5))
    assert view.jitter == (0.2, 0.2, 0.2, 0.05) and view.p_grey == 0.1
    drawn = plain.draw(torch.full((200, 2), 64.0), torch.Generator().manual_seed(0))
    codes = [k for k, name in enumerate(COLUMNS) if name.startswith("code")]
    assert not drawn[:, codes].any() and drawn[:, COLUMNS.index("flip")].any()
    with pytest.raises(ValueError, match=r"expected colour in \[0, 2\], got 3"):
        replace(CONFIG, colour=3.0)


@pytest.mark.parametrize(
    ("frozen", "own", "head", "chosen"),
    [
        ("1110", "1110", "1100", "frozen"),
        # Two images gained and one lost are within a standard error.
        ("1110000000", "0111100000", "1100000000", "frozen"),
        ("1000", "1110", "1111", "head"),
        ("0000", "1111", "1110", "own"),
    ],
)
def test_choice(frozen: str, own: str, head: str, chosen: str) -> None:
    weights = torch.full((len(own),), 1 / len(own), dtype=torch.float64)
    right = {"frozen": frozen, "own": own, "head": head}
    none: Any = None
    heads = [
        Head(key, key, none, None, torch.tensor([*map(float, hits)]).double(), torch.zeros(1))
        for key, hits in right.items()
    ]
    assert best_head(heads, weights).key == chosen
