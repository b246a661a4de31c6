"""Parts of records, computed again: the failing state and gradient increments."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from resultant import vmf_score
from resultant.classes.statistics import ClassState
from resultant.special.bessel import bessel_ratio
from resultant.training.config import Run
from resultant_reproduction.cifar.evaluation import cifar_features, outputs
from resultant_reproduction.cifar.job import CifarJob
from resultant_reproduction.cifar.network import StackedResNet32
from resultant_reproduction.cifar.stack import Stack
from resultant_reproduction.cifar.train import train_cifar
from resultant_reproduction.frozen.summarize import gradient_increments
from resultant_reproduction.runs import run
from resultant_reproduction.runs.plans import PlannedJob
from resultant_reproduction.runs.run import last_states
from tiny_cifar import tiny_cifar, tiny_config

SEVEN = tiny_cifar(test=7, size=4)


@pytest.mark.slow
@pytest.mark.parametrize("prior", [0.0, 1.0])
def test_last_state(tmp_path: Path, prior: float) -> None:
    """Rules on five queries a class and the classes of the bank, by their formulas."""
    config = tiny_config(prior=prior, epochs=1)
    runs = (Run("native", 0.0, 0), Run("temperature", 0.0, 0), Run("angular", 0.0, 0))
    trained = train_cifar(CifarJob(config, runs, tmp_path), SEVEN)
    features = cifar_features(trained, SEVEN)
    job = PlannedJob("tiny", config, runs, ended=("temperature",))
    ((name, result),) = last_states(features, trained, job).items()
    assert name == runs[1].name
    bank = trained.trainee.stacks[0].proco.bank.sums()[1]
    R = bank[:, :-1].norm(dim=1) / bank[:, -1]
    mu, kappa = F.normalize(bank[:, :-1], dim=1), 8 * R / (1 - R * R)
    A = bessel_ratio(torch.tensor(3.0, dtype=torch.float64), kappa)
    labels = SEVEN.test_labels
    rows = torch.cat([(labels == c).nonzero().squeeze(1)[:5] for c in range(4)])
    z = F.normalize(features.test.spaces["projection"][1][rows].double(), dim=1)
    rho, zero, tau, y = z @ mu.T, torch.zeros_like(A), torch.full_like(A, 0.1), labels[rows]
    star = 0.1 * A / A.mean()
    native, hot = (vmf_score(rho, kappa, t, 8) for t in (tau, star))
    shift = vmf_score(zero, kappa, tau, 8) - vmf_score(zero, kappa, star, 8)
    scores = {"native": native, "temperature": hot, "preserve": hot + shift}
    scores["angular"] = native + (A.mean() - A) / 0.1 * rho
    counts = torch.bincount(features.train.labels, minlength=4)
    offset = prior * (counts / counts.sum()).double().log()
    for name, q in scores.items():
        row, guesses = result["same_state"][name], (q + offset).argmax(1)
        assert row["cross_entropy"] == pytest.approx(float(F.cross_entropy(q + offset, y)))
        assert row["accuracy"] == pytest.approx(float((guesses == y).double().mean()))
        assert row["distinct"] == len(guesses.unique())
    worst = int(shift.abs().argmax())
    assert result["focus"]["index"] == worst
    assert result["focus"]["kappa"] == pytest.approx(float(kappa[worst]))
    assert result["intercepts"]["temperature"] == pytest.approx(float(shift.abs().max()))


DATA = tiny_cifar(size=4)
STRENGTHS = {"reduced": 0.5, "increased": 1.5}


def log_bessel(order: float, x: Tensor) -> Tensor:
    """log I by its power series, which autograd can follow."""
    k = torch.arange(int(x.max()) + 60, dtype=torch.float64)
    terms = (2 * k + order) * (x.unsqueeze(-1) / 2).log()
    return (terms - torch.lgamma(k + 1) - torch.lgamma(k + order + 1)).logsumexp(-1)


def naive_gradients(
    z: Tensor, y: Tensor, mu: Tensor, kappa: Tensor, prior: Tensor, beta: float, tau: float = 0.1
) -> list[Tensor]:
    """The tangent gradients of the exact loss and of that of linear means, at the temperatures of
    the power family."""
    p = z.shape[1]
    nu, A = p / 2 - 1, (log_bessel(p / 2, kappa) - log_bessel(p / 2 - 1, kappa)).exp()
    g = A / tau
    target = g.mean() * g**beta / (g**beta).mean()

    def partition(length: Tensor) -> Tensor:
        return log_bessel(nu, length) - nu * length.log()

    def exact(x: Tensor) -> Tensor:
        tilted = (kappa[:, None] * mu + x[:, None] * (target / A)[:, None]).norm(dim=-1)
        return partition(tilted) - partition(kappa)

    def leading(x: Tensor) -> Tensor:
        at_zero = partition((kappa**2 + (target / A) ** 2).sqrt()) - partition(kappa)
        return at_zero + target * (x @ mu.T)

    result = []
    for scores in (exact, leading, lambda x: target * (x @ mu.T)):
        x = z.clone().requires_grad_()
        F.cross_entropy(scores(x) + prior, y, reduction="sum").backward()
        assert x.grad is not None
        result.append(x.grad - (x.grad * z).sum(1, keepdim=True) * z)
    return result


def agrees(actual: dict[str, Any], *state: Tensor) -> None:
    """Errors and plane against those of gradients by autograd and a singular value
    decomposition."""
    before = naive_gradients(*state, beta=1.0)
    vectors = []
    for name, beta in STRENGTHS.items():
        after = naive_gradients(*state, beta=beta)
        exact, leading, alone = (b - a for a, b in zip(before, after, strict=True))
        for end, other in (("", leading), ("_without_intercept", alone)):
            error = 100 * float((exact - other).norm() / exact.norm())
            assert actual[f"increment_error{end}"][name] == pytest.approx(error, rel=1e-5)
        mean = 100 * float(((exact - leading).norm(dim=-1) / exact.norm(dim=-1)).mean())
        assert actual["mean_increment_error"][name] == pytest.approx(mean, rel=1e-5)
        vectors += [exact.flatten(), leading.flatten()]
    M, plane = torch.stack(vectors), actual["increment_plane"]
    _, size, axes = torch.linalg.svd(M, full_matrices=False)
    expected = M @ axes[:2].T
    got = torch.tensor([plane[n][k] for n in STRENGTHS for k in ("exact", "leading")]).double()
    # Either sense of an axis: one is that of ours.
    expected = expected * torch.where((expected * got).sum(0) < 0, -1, 1)
    assert torch.allclose(got, expected, rtol=1e-5, atol=1e-6 * float(size[0]))
    assert plane["increased"]["exact"][0] >= 0 <= plane["reduced"]["exact"][1]
    assert plane["share"] == pytest.approx(float((size[:2] ** 2).sum() / (size**2).sum()))


def test_states_without_increments() -> None:
    """Without concentrations, or with equal ones, the power family changes nothing."""
    mu, z = (F.normalize(torch.randn(n, 6).double()) for n in (5, 40))
    y, counts = torch.arange(40) % 5, torch.ones(5, dtype=torch.int64)
    for kappas in ([0.0] * 5, [0.0, 4.0, 9.0, 16.0, 30.0], [3.0] * 5):
        state = ClassState(mu, torch.tensor(kappas).double(), counts)
        assert gradient_increments(z, y, state, 0.1, torch.zeros(5).double()) == {}


def inputs(stack: Stack, place: int) -> tuple[Tensor, ...]:
    """Queries and the state of a run, from its network and the sums of its bank."""
    members = DATA.members(3.0)
    assert isinstance(stack.network, StackedResNet32) and len(members) == 29
    y = DATA.train_labels[members]
    z = outputs(stack.network, DATA.train_images[members], torch.float32).projection[place].double()
    sums = stack.proco.bank.sums()[place].double()
    mean = sums[:, :-1] / sums[:, -1:]
    R = mean.norm(dim=1)
    kappa = 8 * R / (1 - R**2)
    assert float(kappa.max()) < 1e3
    prior = (torch.bincount(y) / 29).double().log()
    return z, y, mean / R[:, None], kappa, prior


RUNS = (Run("native"), Run("temperature", 0.5), Run("temperature", 1.5))


@pytest.mark.slow
def test_increments_of_every_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trajectories of records against autograd at the state of each epoch."""
    states, ask = [], run.power_diagnostic

    def asked(stack: Stack, *queries: Tensor) -> list[dict[str, Any]]:
        states.append([inputs(stack, place) for place in range(len(stack.runs))])
        return ask(stack, *queries)

    monkeypatch.setattr(run, "power_diagnostic", asked)
    config = tiny_config(objective="joint", family="power", epochs=3, batch_size=16)
    planned = PlannedJob("power", config, RUNS, (1, 3, 20), analyzed=())
    # Three runs in two stacks.
    records = run.run_job(planned, DATA, tmp_path, "cpu", stack=2, say=lambda text: None)
    assert [r["run"] for r in records] == [r.name for r in RUNS] and len(states) == 4
    states = [states[0] + states[1], states[2] + states[3]]
    assert not torch.equal(states[0][0][0], states[1][0][0])
    for place, result in enumerate(r["trajectory"] for r in records):
        assert result["epoch"] == [1, 3]
        for i in range(2):
            names = [name for name in result if "increment" in name]
            agrees({name: result[name][i] for name in names}, *states[i][place])
