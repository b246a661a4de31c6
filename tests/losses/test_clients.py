"""The loss in other packages, where they are installed: pytorch-metric-learning and ONNX."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from loss_batches import COUNTS, C, N, P, batch
from loss_batches import seeded as seeded
from resultant.classes.rule import REALIZATIONS
from resultant.losses import ProCoLoss


class Scores(nn.Module):
    def __init__(self, loss: ProCoLoss) -> None:
        super().__init__()
        self.loss = loss.eval()

    def forward(self, z: Tensor) -> Tensor:
        return self.loss.scores(z)


def fitted(realization: str) -> ProCoLoss:
    torch.manual_seed(0)
    loss = ProCoLoss(C, P, 0.1, realization, 0.4, COUNTS)
    loss(*batch(dtype=torch.float32))
    return loss


def test_losses_and_miners_of_pytorch_metric_learning() -> None:
    pytest.importorskip("pytorch_metric_learning")
    from pytorch_metric_learning import losses, miners  # type: ignore[import-not-found]

    z, y = torch.randn(N, P, requires_grad=True), batch()[1]
    miner, other = miners.MultiSimilarityMiner(), losses.ContrastiveLoss()
    both = losses.MultipleLosses([fitted("angular"), other], miners=[miner, None])
    value = both(z, y)
    value.backward()
    alone = fitted("angular")(z, y, miner(z, y)) + other(z, y)
    torch.testing.assert_close(value, alone)
    assert z.grad is not None and z.grad.isfinite().all()


@pytest.mark.parametrize("realization", REALIZATIONS)
def test_export_writes_nothing(realization: str) -> None:
    """Scores in eval mode are a function: no buffer of the loss changes in the exported graph."""
    loss, z = fitted(realization), torch.randn(5, P)
    before = {name: a.clone() for name, a in loss.named_buffers()}
    exported = torch.export.export(Scores(loss), (z,))
    assert not exported.graph_signature.buffers_to_mutate
    torch.testing.assert_close(exported.module()(z), loss.scores(z), rtol=1e-4, atol=1e-4)
    assert all(torch.equal(a, before[name]) for name, a in loss.named_buffers())


@pytest.mark.slow
@pytest.mark.parametrize("realization", REALIZATIONS)
def test_scores_in_onnxruntime(realization: str, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    loss, z = fitted(realization), torch.randn(5, P)
    torch.onnx.export(Scores(loss), (z,), tmp_path / "scores.onnx", dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(tmp_path / "scores.onnx")
    (got,) = session.run(None, {session.get_inputs()[0].name: z.numpy()})
    torch.testing.assert_close(torch.as_tensor(got), loss.scores(z), rtol=1e-4, atol=1e-4)
