"""Files that version 0.9.0 wrote are read, and give the numbers that they gave there."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import resultant as rs

FOLDER = Path(__file__).parent / "kept_0_9"
KEPT = load_file(FOLDER / "expected.safetensors")
Z, Y, QUERY, LABEL = (KEPT[name] for name in ("z", "y", "query", "label"))
CLASSIFIERS = {
    "vmf": rs.VMFClassifier,
    "components": rs.VMFClassifier,
    "cosine": rs.CosinePrototypeClassifier,
    "searched": rs.VMFClassifierCV,
}


@pytest.mark.parametrize("name", ["loss.safetensors", "loss.pt"])
def test_a_loss_goes_on_where_it_was(name: str) -> None:
    """Its banks, its epoch and the samples of the epoch; the steps after it begin a new epoch."""
    path = FOLDER / name
    state = load_file(path) if path.suffix == ".safetensors" else torch.load(path)
    loss = rs.ProCoLoss(3, 8, 0.1, "angular", 0.3, [20, 9, 4], 0.7, seed=5)
    loss.load_state_dict(state)
    assert loss.bank.seen == 14 and int(loss.bank.epoch) == 1
    assert {key: a.shape for key, a in loss.state_dict().items()} == {
        key: a.shape for key, a in state.items()
    }
    torch.testing.assert_close(loss.eval()(QUERY, LABEL), KEPT["loss_eval"])
    loss.train()
    values = [
        loss(torch.stack([z, z.roll(1, -1)]), y)
        for z, y in zip(Z[:32].split(8), Y[:32].split(8), strict=True)
    ]
    torch.testing.assert_close(torch.stack(values), KEPT["loss_steps"])
    # Starts of classes are the same as well.
    for bank in ("old", "new"):
        torch.testing.assert_close(getattr(loss.bank, bank), KEPT[f"loss_{bank}"])


def test_statistics() -> None:
    statistics = rs.ClassStatistics.load(FOLDER / "statistics.safetensors")
    for estimator in ("mle", "proco", "banerjee"):
        kappa = statistics.state(estimator).kappa
        torch.testing.assert_close(kappa, KEPT[f"statistics_{estimator}"])
    torch.testing.assert_close(statistics.state().mu, KEPT["statistics_mu"])


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers(name: str) -> None:
    """Also with calibration, whitening and several components per class."""
    classifier: Any = CLASSIFIERS[name].load(FOLDER / f"{name}.safetensors")
    for result, call in (
        ("probabilities", classifier.predict_proba),
        ("scores", classifier.decision_function),
    ):
        got = torch.as_tensor(call(QUERY.numpy()))
        torch.testing.assert_close(got, KEPT[f"{name}_{result}"], rtol=1e-5, atol=1e-6)
