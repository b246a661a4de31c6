"""The loss in the training loops of other packages, where they are installed."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from loss_batches import C, P
from programs import run_processes
from resultant import ProCoLoss

ROWS, SIZE = 96, 24


def data() -> TensorDataset:
    y = torch.arange(ROWS) % C
    x = torch.randn(ROWS, 8) + 2 * torch.eye(C, 8)[y]
    return TensorDataset(x, y)


def made() -> tuple[nn.Module, ProCoLoss]:
    torch.manual_seed(1)
    network = nn.Sequential(nn.Linear(8, P), nn.ReLU(), nn.Linear(P, P))
    return network, ProCoLoss(C, P, 0.1, "angular", class_counts=[ROWS // C] * C)


def plain_loop(dataset: TensorDataset, epochs: int) -> tuple[nn.Module, ProCoLoss]:
    """Train by a loop of torch alone, which the others are compared with."""
    network, loss = made()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for _ in range(epochs):
        for x, y in DataLoader(dataset, SIZE):
            optimizer.zero_grad()
            loss(network(x), y).backward()
            optimizer.step()
    return network, loss


def same(network: nn.Module, loss: ProCoLoss, other: nn.Module, bank: nn.Module) -> None:
    for a, b in zip(network.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(b.detach(), a.detach(), rtol=1e-5, atol=1e-6)
    for name, a in loss.bank.state_dict().items():
        torch.testing.assert_close(bank.state_dict()[name], a, rtol=1e-5, atol=1e-6)


def test_trainer_of_pytorch_metric_learning() -> None:
    pytest.importorskip("pytorch_metric_learning")
    from pytorch_metric_learning import trainers

    dataset = data()
    network, loss = made()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    parts: dict[str, Any] = {
        "models": {"trunk": network},
        "optimizers": {"trunk_optimizer": optimizer},
        "loss_funcs": {"metric_loss": loss},
    }
    loading: dict[str, Any] = {"data_device": torch.device("cpu"), "dataloader_num_workers": 0}
    order = torch.utils.data.SequentialSampler(dataset)
    data_parts = {"batch_size": SIZE, "dataset": dataset, "sampler": order, "loss_weights": None}
    trainers.MetricLossOnly(**parts, **data_parts, **loading).train(num_epochs=2)
    same(*plain_loop(dataset, 2), network, loss.bank)


def lightning_module(pytorch: Any) -> Any:
    class Module(pytorch.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.network, self.loss = made()

        def training_step(self, batch: list[Tensor], _: int) -> Tensor:
            x, y = batch
            return self.loss(self.network(x), y)

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    return Module()


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "64-true"])
@pytest.mark.filterwarnings("ignore")
def test_lightning(precision: str, tmp_path: Path) -> None:
    """Epochs, statistics in the checkpoint, and a resume to the same weights."""
    pytorch = pytest.importorskip("lightning.pytorch")
    dataset = data()
    off = ("logger", "enable_progress_bar", "enable_model_summary")
    quiet = {"accelerator": "cpu", "default_root_dir": tmp_path, **dict.fromkeys(off, False)}

    def fit(epochs: int, **options: Any) -> Any:
        module = lightning_module(pytorch)
        trainer = pytorch.Trainer(max_epochs=epochs, precision=precision, **quiet)
        trainer.fit(module, DataLoader(dataset, SIZE), **options)
        trainer.save_checkpoint(tmp_path / f"{epochs}.ckpt")
        return module

    whole = fit(3)
    fit(1)
    resumed = fit(3, ckpt_path=tmp_path / "1.ckpt", weights_only=False)
    # Lightning restores weights before it converts them to float64.
    bar = 1e-5 if precision == "64-true" else 0.0
    for name, a in whole.state_dict().items():
        torch.testing.assert_close(resumed.state_dict()[name], a, rtol=bar, atol=bar)
    assert int(whole.loss.bank.epoch) == 2 and whole.loss.bank.old.dtype == torch.float64
    if precision == "32-true":
        same(*plain_loop(dataset, 3), whole.network, whole.loss.bank)


def test_accelerate(tmp_path: Path) -> None:
    accelerate = pytest.importorskip("accelerate")
    accelerator, dataset = accelerate.Accelerator(cpu=True), data()
    network, loss = made()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    network, loss, optimizer, loader = accelerator.prepare(
        network, loss, optimizer, DataLoader(dataset, SIZE)
    )
    for _ in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            accelerator.backward(loss(network(x), y))
            optimizer.step()
    same(*plain_loop(dataset, 2), network, loss.bank)
    before = loss.bank.old.clone()
    accelerator.save_state(str(tmp_path))
    loss.bank.reset()
    accelerator.load_state(str(tmp_path))
    assert torch.equal(loss.bank.old, before)


class WithLoss(nn.Module):
    """Model of the Hugging Face Trainer, which reads the loss from the output."""

    def __init__(self) -> None:
        super().__init__()
        self.network, self.loss = made()

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        return {"loss": self.loss(self.network(x), labels)}


@pytest.mark.filterwarnings("ignore")
def test_trainer_of_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    x, y = data().tensors
    rows = [{"x": a, "labels": b} for a, b in zip(x, y, strict=True)]

    def train(epochs: int, folder: str, **options: Any) -> WithLoss:
        model = WithLoss()
        arguments = transformers.TrainingArguments(
            str(tmp_path / folder),
            num_train_epochs=epochs,
            max_steps=epochs * ROWS // SIZE,
            save_steps=3,
            per_device_train_batch_size=SIZE,
            lr_scheduler_type="constant",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            remove_unused_columns=False,
        )
        transformers.Trainer(model, arguments, train_dataset=rows).train(**options)
        return model

    whole = train(3, "whole")
    assert int(whole.loss.bank.epoch) == 2 and int(whole.loss.state().count.sum()) == 2 * ROWS
    # In the middle of an epoch.
    resumed = train(3, "again", resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-6"))
    assert int(resumed.loss.bank.epoch) == 2
    assert torch.equal(resumed.loss.state().count, whole.loss.state().count)
    for a, b in zip(whole.parameters(), resumed.parameters(), strict=True):
        torch.testing.assert_close(b, a)


FULLY_SHARDED = """
from torch import nn
from torch.distributed.fsdp import fully_shard
from loss_batches import batch
from resultant import ProCoLoss

def made():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16)).double()
    return network, ProCoLoss(6, 16, 0.1, "angular", class_counts=[50, 20, 10, 6, 3, 1])

def steps(network, loss, part):
    torch.manual_seed(1)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for _ in range(3):
        x, y = batch()
        optimizer.zero_grad()
        loss(network(x[part]), y[part]).backward()
        optimizer.step()

expected = made()
steps(*expected, slice(None))

def main(rank):
    network, loss = made()
    for layer in (network[0], network[2], network):
        fully_shard(layer)
    steps(network, loss, slice(12 * rank, 12 * rank + 12))
    for a, b in zip(expected[0].parameters(), network.parameters(), strict=True):
        torch.testing.assert_close(b.full_tensor(), a, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(loss.bank.old, expected[1].bank.old, rtol=1e-9, atol=1e-11)
"""


@pytest.mark.slow
@pytest.mark.skipif(torch.__version__ < "2.7", reason="torch 2.6 cannot shard on a CPU")
def test_fully_sharded_network(tmp_path: Path) -> None:
    """FSDP2 of the network beside the loss, in two processes, equals one process."""
    run_processes(FULLY_SHARDED, 2, tmp_path)
