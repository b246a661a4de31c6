"""Training on listed images, in one process and in two, against a plain loop."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.func import functional_call

from images.photos import BILINEAR, levels, reference
from listed import SIZES, SMALL, open_listed, scaled, write_images
from programs import run_program
from resultant._core import distributed
from resultant._core.tensor_files import load
from resultant.cli.main import main
from resultant.images.decode import ImageError
from resultant.images.evaluation import source_views
from resultant.images.files import FileImages
from resultant.images.photo_views import classification_view, contrastive_view
from resultant.images.source import ImageSource, ImageSplits
from resultant.losses import LogitAdjustedCrossEntropy, ProCoLoss
from resultant.training.batches import require_batches
from resultant.training.checkpoints import TRAINED, load_network
from resultant.training.config import IMAGENET_CHANNELS, Run, TrainConfig
from resultant.training.encoder import EvaluationView, ImageNetwork
from resultant.training.image_sets import resolved, train_images, with_long_tail
from resultant.training.job import Job
from resultant.training.loop import Trainer
from resultant.training.network_files import BEST, find_network
from resultant.training.records import read_lines
from tiny_cifar import metrics, stop_after

CPU = torch.device("cpu")
C, RUN = len(SIZES["train"]), Run("angular", 0.5, 3)
CHANGES: dict[str, Any] = {"learning_rate": 0.02, "clip": 0.5}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the images and of their lists."""
    path = tmp_path_factory.mktemp("images")
    write_images(path)
    return path


@pytest.fixture
def data(root: Path) -> ImageSplits:
    """The images without validation images."""
    return open_listed(root)


def config(**changes: Any) -> TrainConfig:
    """A small recipe."""
    return TrainConfig(precision="float32", **(SMALL | CHANGES | changes))


def views_by_pil(settings: TrainConfig, data: ImageSplits, epoch: int) -> Any:
    """Yield the views uint8 [3, N, 3, S, S] and the labels [N] of the batches of an epoch."""
    kinds = [contrastive_view(settings.size)] * 2 + [classification_view(settings.size)]
    fill = tuple(round(255 * m) for m in settings.channels[0])
    generator = torch.Generator().manual_seed(RUN.seed * 1_000_003 + epoch)
    order = torch.randperm(len(data.train), generator=generator)
    batches = order.split(settings.batch_size)[: len(order) // settings.batch_size]
    # The images are 64 x 64 and decoded to 36 x 36; the views of all batches are drawn at once.
    sizes = torch.full((len(batches) * settings.batch_size, 2), 36)
    drawn = [kind.draw(sizes, generator).split(settings.batch_size) for kind in kinds]
    for k, rows in enumerate(batches):
        pictures = [data.train.read(i).resize((36, 36), BILINEAR) for i in rows.tolist()]
        views = []
        for parameters in drawn:
            pairs = zip(pictures, parameters[k].tolist(), strict=True)
            views.append(levels([reference(p, row, settings.size, fill) for p, row in pairs]))
        yield torch.stack(views), torch.from_numpy(data.train.labels[rows.numpy()])


def expected(settings: TrainConfig, data: ImageSplits, processes: int) -> Any:
    """Train by a plain loop in one process; return tensors, losses per epoch, and norms.

    The images of each rank and part pass the network on their own, because of batch norm. Losses
    and statistics are those of the ranks together, of a part after the other.
    """
    counts = torch.tensor(SIZES["train"])
    network = ImageNetwork(settings.architecture, settings.dim, C, RUN.seed)
    rule = settings.temperature, RUN.realization, RUN.beta
    proco = ProCoLoss(C, settings.dim, *rule, counts, seed=RUN.seed)
    classification = LogitAdjustedCrossEntropy(counts)
    optimizer = torch.optim.SGD(
        network.parameters(), momentum=settings.momentum, weight_decay=settings.weight_decay
    )
    result = SimpleNamespace(losses=[], norms=[])
    for epoch in range(settings.epochs):
        optimizer.param_groups[0]["lr"] = settings.rate(epoch)
        proco.start_epoch()
        losses = []
        for images, y in views_by_pil(settings, data, epoch):
            z, logits = [], []
            # The moments of the first process are kept.
            moments = {name: a.clone() for name, a in network.named_buffers()}
            for part, share in enumerate(images.chunk(processes * settings.accumulate, 1)):
                flat = scaled(share, settings).flatten(0, 1)
                first = part < settings.accumulate
                out = network(flat) if first else functional_call(network, moments, flat)
                z.append(out.projection.unflatten(0, (3, -1)))
                logits.append(out.logits.unflatten(0, (3, -1))[2])
            if processes > 1:
                z, logits = [torch.cat(z, 1)], [torch.cat(logits)]
            parts = zip(z, logits, y.chunk(settings.accumulate), strict=True)
            every = [len(b) * (proco(a[:2], b) + classification(s, b)) for a, s, b in parts]
            loss = torch.stack(every).sum() / len(y)
            optimizer.zero_grad()
            loss.backward()
            assert settings.clip is not None
            norm = torch.nn.utils.clip_grad_norm_(network.parameters(), settings.clip)
            optimizer.step()
            result.norms.append(float(norm))
            losses.append(float(loss.detach()))
        result.losses.append(sum(losses) / len(losses))
    banks = {"bank.old": proco.bank.old, "bank.new": proco.bank.new}
    result.tensors = network.state_dict() | banks
    return result


def accuracy(tensors: dict[str, Tensor], data: ImageSplits, size: int) -> dict[str, float]:
    """Classify the test images one by one with saved weights."""
    network = ImageNetwork(SMALL["architecture"], SMALL["dim"], C)
    network.load_state_dict({k: a for k, a in tensors.items() if not k.startswith("bank.")})
    network.eval()
    right = torch.zeros(C, dtype=torch.float64)
    assert data.test is not None
    for i, label in enumerate(data.test.labels.tolist()):
        logits = network(scaled(EvaluationView(size)(data.test.read(i))[None], config())).logits
        right[label] += int(logits.argmax()) == label
    sizes = torch.tensor(SIZES["test"])
    # Every class has fewer than 20 training images.
    each = right / sizes
    return {"accuracy": float(right.sum() / sizes.sum()), "tail": float(each.mean())}


def check(out: Path, name: str, want: Any, data: ImageSplits) -> None:
    tensors, about = load(out / f"{name}.safetensors")
    assert set(tensors.pop(TRAINED).tolist()) == set(data.train.contents.tolist())
    assert about["num_classes"] == C
    assert tensors.keys() == want.tensors.keys()
    for key, a in want.tensors.items():
        if key.startswith("bank."):
            # Every class has samples, and every count is whole.
            assert torch.equal(tensors[key][:, -1], a[:, -1]) and (a[:, -1] >= 1).all()
            torch.testing.assert_close(tensors[key], a, rtol=0, atol=2e-4, msg=key)
        else:
            torch.testing.assert_close(tensors[key], a, rtol=1e-4, atol=1e-5, msg=key)
    lines = metrics(out)
    assert [line["epoch"] for line in lines] == [1, 2]
    assert [line["loss"] for line in lines] == pytest.approx(want.losses, rel=1e-5)
    got = {key: lines[-1][key] for key in ("accuracy", "tail")}
    assert got == pytest.approx(accuracy(tensors, data, SMALL["size"]), abs=1e-12)
    assert "head" not in lines[-1]


@pytest.mark.slow
@pytest.mark.parametrize("parts", [1, 2])
def test_one_process(data: ImageSplits, tmp_path: Path, parts: int) -> None:
    """Batches as a whole, and in parts one after another."""
    settings = config(accumulate=parts)
    job = Job(settings, (RUN,), tmp_path, test_every=2)
    train_images(job, data, workers=0)
    want = expected(settings, data, 1)
    # Every gradient is clipped.
    assert min(want.norms) > CHANGES["clip"]
    check(tmp_path, RUN.name, want, data)


@pytest.mark.gpu
@pytest.mark.parametrize("place", ["on the GPU", "on the disk"])
def test_gpu(
    data: ImageSplits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Decoded images anywhere, by the compiled step in a CUDA graph: the losses of the CPU."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    if place == "on the disk":
        monkeypatch.setattr("resultant.images.store.MARGIN_BYTES", 1 << 50)
    settings = config()
    job = Job(settings, (RUN,), tmp_path)
    notes: list[str] = []
    train_images(job, data, "cuda", 2, note=notes.append)
    losses = [line["loss"] for line in metrics(tmp_path)]
    assert losses == pytest.approx(expected(settings, data, 1).losses, rel=1e-3)
    assert place in notes[-1]


# Two processes of a job, as torchrun starts and ends them: first interrupted after an epoch, then
# not.
RANKS = """
import os, signal, socket, sys

from resultant.cli import main, progress


def stop(self, progress):
    # The process that writes, after it has written.
    if os.environ["RANK"] == "0":
        raise KeyboardInterrupt


def ranks(stopped):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free.getsockname()[1]))
    processes = []
    for rank in "01":
        processes.append(os.fork())
        if not processes[-1]:
            os.environ.update(RANK=rank, LOCAL_RANK=rank, WORLD_SIZE="2")
            if stopped:
                progress.EpochProgress.__call__ = stop
            code = main.main(sys.argv[1:])
            sys.stdout.flush()
            os._exit(code)
    first, status = os.wait()
    processes.remove(first)
    if status:
        os.kill(*processes, signal.SIGTERM)
    return [os.waitstatus_to_exitcode(code) for code in (status, os.wait()[1])]


assert ranks(stopped=True)[0] > 0
assert ranks(stopped=False) == [0, 0]
"""


@pytest.mark.slow
def test_two_processes(data: ImageSplits, root: Path, tmp_path: Path) -> None:
    """Statistics, losses, weights and tests of two processes, interrupted and continued, are those
    of one process on all images."""
    call = ["train", "images"]
    for name, value in (SMALL | CHANGES).items():
        call += [f"--{name.replace('_', '-')}", str(value)]
    call += ["--realization", RUN.realization, "--beta", str(RUN.beta), "--seeds", str(RUN.seed)]
    call += ["--data", str(root), "--out", str(tmp_path), "--workers", "0", "--device", "cpu"]
    for split in ("train", "test"):
        call += [f"--{split}-list", str(root / f"ImageNet_LT_{split}.txt")]
    call += ["--precision", "float32", "--checkpoint-every", "1"]
    for name, values in zip(("--mean", "--std"), IMAGENET_CHANNELS, strict=True):
        call += [name, *map(str, values)]
    output, errors = run_program(RANKS, *call)
    assert "resultant: rank 0: interrupted" in errors
    # Only the first process prints.
    assert errors.count("continues after epoch 1/2") == 1
    assert errors.count("epoch 2/2") == 1 and output.count("records: ") == 1
    check(tmp_path / RUN.name, RUN.name, expected(config(), data, 2), data)
    (record,) = read_lines(tmp_path / "records.jsonl")
    assert record["run"] == RUN.name and record["train_images"] == sum(SIZES["train"])
    # Continued by one process, the finished job is the same.
    assert main(call) == 0
    (alone,) = read_lines(tmp_path / "records.jsonl")
    assert alone["last"] == record["last"]


@pytest.mark.slow
def test_resumes_to_the_same_bits(data: ImageSplits, tmp_path: Path) -> None:
    settings, shares = config(objective="contrastive", classification_view=False), []
    whole, broken = (Job(settings, (RUN,), tmp_path / n, checkpoint_every=1) for n in "ab")
    train_images(whole, data, workers=0, on_step=shares.append)
    assert shares == [0.5, 1.0] * 2
    with pytest.raises(KeyboardInterrupt):
        train_images(broken, data, workers=0, on_progress=stop_after(1))
    train_images(broken, data, workers=0)
    (a, _), (b, _) = (load(job.out / f"{RUN.name}.safetensors") for job in (whole, broken))
    assert a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)
    # Without a classifier nothing is tested.
    assert "accuracy" not in (tmp_path / "a" / "metrics.jsonl").read_text()


def test_broken_held_out_image_is_found_before_the_training(
    data: ImageSplits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, whole = tmp_path / "cut.png", Path(data.train.images.name(0).split(" (")[0]).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    images = FileImages([str(path)], str(tmp_path))
    test = ImageSource(images, np.zeros(1, dtype=np.int64), data.class_names)
    monkeypatch.setattr(Trainer, "step", pytest.fail)
    with pytest.raises(ImageError, match=r"cut\.png to be a whole image"):
        train_images(Job(config(), (RUN,), tmp_path), replace(data, test=test), workers=0)


def test_long_tailed_subset(data: ImageSplits) -> None:
    subset, other = (with_long_tail(data, 2.0, seed) for seed in (0, 1))
    assert subset.counts.tolist() == [2, 1, 1, 1]
    assert subset.balanced is not None and len(subset.balanced) == sum(SIZES["train"])
    assert subset.train.digest != other.train.digest


def test_sizes_and_channels_of_the_model() -> None:
    """The settings of timm where the user gives none."""
    model = resolved(TrainConfig(architecture="test_vit"))
    assert (model.size, model.channels) == (160, ((0.5,) * 3, (0.5,) * 3))
    own = resolved(TrainConfig(architecture="test_vit", size=64, mean=(0.1, 0.2, 0.3)))
    assert (own.size, own.channels) == (64, ((0.1, 0.2, 0.3), (0.5,) * 3))


@pytest.mark.slow
def test_the_best_epoch_is_kept_beside_the_last(root: Path, tmp_path: Path) -> None:
    """Its accuracy on validation images, computed from the file; commands take the last one."""
    data = open_listed(root)
    assert data.test is not None
    data = replace(data, val=data.test, test=None)
    job = Job(config(epochs=4, learning_rate=0.1), (RUN,), tmp_path, checkpoint_every=1)
    with pytest.raises(KeyboardInterrupt):
        train_images(job, data, on_progress=stop_after(2))
    train_images(job, data)
    rows = metrics(tmp_path)
    best = max(row["accuracy"] for row in rows)
    loaded = load_network(tmp_path / BEST)
    (first,) = {next(row["epoch"] for row in rows if row["accuracy"] == best)}
    assert loaded.about["epoch"] == first and loaded.about["accuracy"] == best
    val = data.val
    assert val is not None and loaded.trained is not None
    views = source_views(val, loaded.view, loaded.config.channels, CPU, 0, torch.arange(len(val)))
    with torch.no_grad():
        predicted = torch.cat([loaded.network(x).logits.argmax(-1) for x in views])
    assert float((predicted.numpy() == val.labels).mean()) == pytest.approx(best)
    assert find_network(tmp_path) == tmp_path / f"{RUN.name}.safetensors"


def test_no_view_without_a_reader(data: ImageSplits, tmp_path: Path) -> None:
    """Without a classifier two views are made, also where the recipe has a third one for it."""
    job = Job(config(objective="contrastive"), (RUN,), tmp_path)
    trainer = train_images(job, data, workers=0).trainee
    assert trainer.config.classification_view and len(trainer.batches.kinds) == 2


def test_refused(data: ImageSplits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(message: str, settings: TrainConfig, **changes: Any) -> None:
        job = Job(settings, changes.pop("runs", (RUN,)), tmp_path, **changes)
        with pytest.raises(ValueError, match=message):
            train_images(job, data, workers=0)

    refused("one run at a time for images, got 2", config(), runs=(RUN, Run()))
    refused("an architecture of timm, .*'resnet51'", config(architecture="resnet51"))
    refused("at least one batch of 18", config(batch_size=18))
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(distributed, "world_size", lambda: 3)
    with pytest.raises(ValueError, match="a multiple of the 3 processes, got 8"):
        require_batches(17, 8)
