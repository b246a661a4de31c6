"""Scores as functions outside of Python, and vMF distributions in Pyro, where installed."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from loss_batches import COUNTS, C, P, batch
from resultant import ProCoLoss, VMFClassifier, VonMisesFisher, class_scores
from resultant.classes.rule import REALIZATIONS


class Scores(nn.Module):
    def __init__(self, loss: ProCoLoss) -> None:
        super().__init__()
        self.loss = loss.eval()

    def forward(self, z: Tensor) -> Tensor:
        return self.loss.scores(z)


class ClassifierScores(nn.Module):
    """Decision function of a classifier without components."""

    def __init__(self, classifier: VMFClassifier) -> None:
        super().__init__()
        self.classifier = classifier
        self.rule = (float(classifier.temperature), classifier.realization, classifier.beta)

    def forward(self, x: Tensor) -> Tensor:
        z = nn.functional.normalize(x, dim=-1)
        scores = class_scores(z, self.classifier.state_, *self.rule)
        return (self.classifier.scale_ or 1.0) * scores


def fitted(realization: str) -> ProCoLoss:
    torch.manual_seed(0)
    loss = ProCoLoss(C, P, 0.1, realization, 0.4, COUNTS)
    loss(*batch(dtype=torch.float32))
    return loss


@pytest.mark.slow
@pytest.mark.parametrize("realization", ["preserve", "angular"])
def test_export_writes_nothing(realization: str) -> None:
    """Scores in eval mode are a function: no buffer of the loss changes in the exported graph."""
    loss, z = fitted(realization), torch.randn(5, P)
    before = {name: a.clone() for name, a in loss.named_buffers()}
    exported = torch.export.export(Scores(loss), (z,))
    assert not exported.graph_signature.buffers_to_mutate
    torch.testing.assert_close(exported.module()(z), loss.scores(z), rtol=1e-4, atol=1e-4)
    assert all(torch.equal(a, before[name]) for name, a in loss.named_buffers())


def run_onnx(module: nn.Module, x: Tensor, folder: Path) -> Tensor:
    """Export with a free number of rows, and run other rows in onnxruntime."""
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    path = folder / "scores.onnx"
    rows = {0: torch.export.Dim("rows", min=2)}
    torch.onnx.export(module, (x[:3],), path, dynamo=True, verbose=False, dynamic_shapes=(rows,))
    session = onnxruntime.InferenceSession(path)
    return torch.as_tensor(session.run(None, {session.get_inputs()[0].name: x.numpy()})[0])


@pytest.mark.slow
@pytest.mark.parametrize("realization", REALIZATIONS)
def test_scores_in_onnxruntime(realization: str, tmp_path: Path) -> None:
    loss, z = fitted(realization), torch.randn(5, P)
    got = run_onnx(Scores(loss), z, tmp_path)
    torch.testing.assert_close(got, loss.scores(z), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("realization", ["angular", "preserve"])
def test_classifier_in_onnxruntime(realization: str, tmp_path: Path) -> None:
    z, y = batch(dtype=torch.float32)
    classifier = VMFClassifier(realization=realization, beta=0.3).fit(z, y)
    got = run_onnx(ClassifierScores(classifier), 3 * z, tmp_path)
    expected = classifier.decision_function(3 * z)
    torch.testing.assert_close(got, torch.as_tensor(expected), rtol=1e-4, atol=1e-4)


def pyro_class() -> Any:
    """Return the class of the how-to: a distribution of Pyro by a mixin."""
    mixin = pytest.importorskip("pyro.distributions.torch_distribution").TorchDistributionMixin
    return type("PyroVMF", (VonMisesFisher, mixin), {})


@pytest.mark.slow
def test_latent_direction_in_pyro() -> None:
    """NUTS over a direction and a concentration finds the posterior that the sample implies."""
    pyro, vmf = pytest.importorskip("pyro"), pyro_class()
    truth = torch.tensor([0.0, 0.6, 0.8])
    data = VonMisesFisher(truth, torch.tensor(20.0)).sample((60,))

    def model() -> None:
        mu = pyro.sample("mu", vmf(torch.tensor([1.0, 0.0, 0.0]), torch.tensor(0.0)))
        kappa = pyro.sample("kappa", pyro.distributions.LogNormal(2.0, 1.0))
        with pyro.plate("samples", len(data)):
            pyro.sample("x", vmf(mu, kappa), obs=data)

    pyro.set_rng_seed(0)
    chain = pyro.infer.MCMC(pyro.infer.NUTS(model), 100, 100, disable_progbar=True)
    chain.run()
    samples = chain.get_samples()
    torch.testing.assert_close(samples["mu"].norm(dim=-1), torch.ones(100))
    # The posterior of the direction is a vMF around the mean of the sample.
    mean = nn.functional.normalize(data.mean(0), dim=-1)
    assert samples["mu"].mean(0) @ mean > 0.99
    estimate = VonMisesFisher.fit(data).concentration
    assert 0.7 < samples["kappa"].mean() / estimate < 1.3
